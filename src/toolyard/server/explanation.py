"""Why a caller may call a tool, or may not: for whoever runs the server, who wants to know which rule says so."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..catalogue import Catalogue
from ..model.errors import InvalidInput, Problem
from ..trust.access import Access
from ..trust.identity import Identity
from ..trust.limits import Limit
from ..wires.explain import Asked, Explanation
from ..wires.family import requirements_json


class Rules(Struct):
    """What is asked about: who sees what, and how much they may have of it."""

    access: Access
    limits: Sequence[Limit]


def explain(catalogue: Catalogue, rules: Rules, asked: Asked, keys: Iterable[Identity]) -> Explanation:
    """`keys` are those that are good. Raises ToolNotFound for a tool that nobody has."""
    tool, identity = catalogue.named(asked.tool) or catalogue.resolve(asked.tool), _identity(asked, keys)
    verdict = rules.access.view(identity).of(tool)
    may_call = verdict.sees and not verdict.lacks
    needs = requirements_json(tool.requirements, with_user_id=True)
    limits = [limit.in_words() for limit in rules.limits if limit.who.fits(identity) and limit.is_about(tool)]
    return Explanation(tool.reference, verdict.sees, may_call, verdict.rule, verdict.lacks, needs, limits)


def _identity(asked: Asked, keys: Iterable[Identity]) -> Identity:
    """Raises InvalidInput for a key that is not there."""
    if asked.key is None:
        return Identity(asked.tenant, asked.subject, "token", frozenset(asked.scopes), asked.claims)
    for key in keys:
        if key.key == asked.key:
            return key
    raise InvalidInput((Problem("key", f"There is no key named {asked.key}"),))
