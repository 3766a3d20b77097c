"""Why a caller may call a tool, or may not: for whoever runs the server, who wants to know which rule says so."""

from collections.abc import Iterable

from ..catalogue import Catalogue
from ..model.errors import InvalidInput, Problem
from ..store.contract import Keys
from ..trust.access import Access
from ..trust.api_keys import identity_of
from ..trust.identity import Identity
from ..wires.contract import Reply
from ..wires.explain import PATH, Asked, Explanation, decode_asked, encode_explanation
from ..wires.family import requirements_json
from ..wires.lifecycle import LIFECYCLE
from .admin_routes import Admit
from .exchange import Exchange
from .routes import Route


def explain(catalogue: Catalogue, access: Access, asked: Asked, keys: Iterable[Identity]) -> Explanation:
    """`keys` are those that are good. Raises ToolNotFound for a tool that nobody has."""
    tool = catalogue.named(asked.tool) or catalogue.resolve(asked.tool)
    verdict = access.view(_identity(asked, keys)).of(tool)
    may_call = verdict.sees and not verdict.lacks
    needs = requirements_json(tool.requirements, with_user_id=True)
    return Explanation(tool.reference, verdict.sees, may_call, verdict.rule, verdict.lacks, needs)


def routes(catalogue: Catalogue, access: Access, store: Keys, admit: Admit) -> list[Route]:
    """Asks `admit` first."""

    async def ask(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        keys = [identity_of(key) for key in await store.keys() if key.revoked is None]
        return encode_explanation(explain(catalogue, access, decode_asked(exchange.body), keys))

    return [Route("POST", PATH, ask, LIFECYCLE, reads_json=True, who="operator")]


def _identity(asked: Asked, keys: Iterable[Identity]) -> Identity:
    """Raises InvalidInput for a key that is not there."""
    if asked.key is None:
        return Identity(asked.tenant, asked.subject, "token", frozenset(asked.scopes), asked.claims)
    for key in keys:
        if key.key == asked.key:
            return key
    raise InvalidInput((Problem("key", f"There is no key named {asked.key}"),))
