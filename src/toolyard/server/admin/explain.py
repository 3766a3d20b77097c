"""Why a caller may call a tool, or may not, for operators: which rule, scope, limit or requirement decides.

A running server answers from its own rules and tools. `operator/explain.py` answers from the settings where no server
runs, with the same `explain`, because a ledger knows no tools.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...catalogue import Catalogue
from ...model.asset import Asset, offer_at
from ...model.caller import Visibility
from ...model.errors import InvalidInput, Problem
from ...model.tool import Tool
from ...trust.access.access import Access
from ...trust.access.identity import Identity
from ...trust.approvals.rules import ApprovalRule
from ...trust.credentials.api_keys import identity_of
from ...trust.limits.limits import Limit
from ...wires.admin.explain import PATH, ExplainQuery, Explanation, decode_asked, encode_explanation
from ...wires.contract import Reply
from ...wires.oxp.messages import requirements_json
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


class ExplainRules(Struct):
    """The rules that an explanation is about: who sees which tools, how often they may call them, and which calls wait
    for approval."""

    access: Access
    limits: Sequence[Limit]
    approvals: Sequence[ApprovalRule] = ()

    def approval(self, tool: Tool, identity: Identity) -> tuple[str, str]:
        """Why a person may have to approve a call, in words, and the name of the rule by which nobody has to. At least
        one of them is empty; both are where nothing asks for approval."""
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
    """`keys` are the identities of the API keys that are good now. Raises ToolNotFound for a tool that is not there."""
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
    """Who would call. Raises InvalidInput for a key that is not there."""
    if asked.key is None:
        return Identity(asked.tenant, asked.subject, "token", frozenset(asked.scopes), asked.claims)
    for key in keys:
        if key.key == asked.key:
            return key
    raise InvalidInput((Problem("key", f"There is no key named {asked.key}"),))


async def explain_access(parts: OperatorParts, exchange: Exchange) -> Reply:
    server = parts.server
    assert server is not None  # noqa: S101  # the row needs a server
    rules, now = ExplainRules(server.access, server.limits(), server.approval_rules), parts.now()
    keys = [identity_of(key) for key in await parts.store.api_keys.listed() if key.state(now) == "live"]
    return encode_explanation(explain(server.catalogue, rules, decode_asked(exchange.body), keys))


OPERATIONS = (Operation("POST", PATH, explain_access, reads_json=True, needs_server=True),)
