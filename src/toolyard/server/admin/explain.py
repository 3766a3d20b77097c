"""Why a caller may call a tool, or may not: for whoever runs the server, who wants to know which rule says so.

The operator's question why a caller may call a tool, put to a server that runs.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ...catalogue import Catalogue
from ...model.asset import Asset, offer_at
from ...model.caller import Visibility
from ...model.errors import InvalidInput, Problem
from ...model.tool import Tool
from ...store.contract import ApiKeyStore
from ...trust.access.access import Access
from ...trust.access.identity import Identity
from ...trust.approvals.rules import ApprovalRule
from ...trust.credentials.api_keys import identity_of
from ...trust.limits.limits import Limit
from ...wires.admin.explain import PATH, ExplainQuery, Explanation, decode_asked, encode_explanation
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ...wires.oxp.messages import requirements_json
from ..http.exchange import Exchange
from ..http.routes import Route


class ExplainRules(Struct):
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


def explain(catalogue: Catalogue, rules: ExplainRules, asked: ExplainQuery, keys: Iterable[Identity]) -> Explanation:
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
    what: Tool | Asset, name: str, verdict: Visibility, identity: Identity, limits: Sequence[Limit]
) -> Explanation:
    may_call = verdict.sees and not verdict.lacks
    limiting = [limit.in_words() for limit in limits if limit.who.fits(identity) and limit.is_about(what)]
    return Explanation(name, verdict.sees, may_call, verdict.rule, verdict.lacks, limits=limiting)


def _identity(asked: ExplainQuery, keys: Iterable[Identity]) -> Identity:
    """Raises InvalidInput for a key that is not there."""
    if asked.key is None:
        return Identity(asked.tenant, asked.subject, "token", frozenset(asked.scopes), asked.claims)
    for key in keys:
        if key.key == asked.key:
            return key
    raise InvalidInput((Problem("key", f"There is no key named {asked.key}"),))


def routes(catalogue: Catalogue, rules: ExplainRules, store: ApiKeyStore, now: Callable[[], float]) -> list[Route]:
    async def ask(exchange: Exchange) -> Reply:
        keys = [identity_of(key) for key in await store.listed() if key.state(now()) == "live"]
        return encode_explanation(explain(catalogue, rules, decode_asked(exchange.body), keys))

    return [Route("POST", PATH, ask, LIFECYCLE, reads_json=True, who="operator")]
