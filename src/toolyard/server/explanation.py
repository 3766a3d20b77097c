"""Why a caller may call a tool, or may not: for whoever runs the server, who wants to know which rule says so."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..catalogue import Catalogue
from ..model.caller import Verdict
from ..model.errors import InvalidInput, Problem
from ..model.offer import Offer, offer_at
from ..model.tool import Tool
from ..trust.access import Access
from ..trust.approvals import ApprovalRule
from ..trust.identity import Identity
from ..trust.limits import Limit
from ..wires.explain import Asked, Explanation
from ..wires.family import requirements_json


class Rules(Struct):
    """What is asked about: who sees what, and how much they may have of it."""

    access: Access
    limits: Sequence[Limit]
    approvals: Sequence[ApprovalRule] = ()

    def approval(self, tool: Tool, identity: Identity) -> tuple[str, str]:
        """What says that a person may have to agree, if anything does; or else the rule that spares them."""
        unless = ""
        for rule in self.approvals:
            if rule.is_about(tool) and rule.who.fits(identity):
                if not rule.ask and not rule.over and rule.when is None:
                    return "", rule.name
                if rule.ask:
                    return f"by the rule {rule.name}{unless}", ""
                unless += f", unless the rule {rule.name} spares it"
        return "" if tool.approval is None else f"by the tool itself{unless}", ""


def explain(catalogue: Catalogue, rules: Rules, asked: Asked, keys: Iterable[Identity]) -> Explanation:
    """`keys` are those that are good. Raises ToolNotFound for a tool that nobody has."""
    offer, identity = offer_at(asked.tool), _identity(asked, keys)
    if offer is not None:
        return _explained(offer, offer.path, rules.access.view(identity).of_offer(offer), identity, rules.limits)
    tool = catalogue.named(asked.tool) or catalogue.resolve(asked.tool)
    found = _explained(tool, tool.reference, rules.access.view(identity).of(tool), identity, rules.limits)
    approval, found.spared_by = rules.approval(tool, identity)
    found.requirements = requirements_json(tool.requirements, with_user_id=True)
    if approval:
        found.requirements["approval"] = approval
    return found


def _explained(
    what: Tool | Offer, name: str, verdict: Verdict, identity: Identity, limits: Sequence[Limit]
) -> Explanation:
    may_call = verdict.sees and not verdict.lacks
    limiting = [limit.in_words() for limit in limits if limit.who.fits(identity) and limit.is_about(what)]
    return Explanation(name, verdict.sees, may_call, verdict.rule, verdict.lacks, limits=limiting)


def _identity(asked: Asked, keys: Iterable[Identity]) -> Identity:
    """Raises InvalidInput for a key that is not there."""
    if asked.key is None:
        return Identity(asked.tenant, asked.subject, "token", frozenset(asked.scopes), asked.claims)
    for key in keys:
        if key.key == asked.key:
            return key
    raise InvalidInput((Problem("key", f"There is no key named {asked.key}"),))
