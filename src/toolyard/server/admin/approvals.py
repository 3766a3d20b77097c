"""Calls that wait for a person's yes, for operators: list them, approve one, reject one.

An operator may decide about any call, and is shown its code; callers who may approve have routes of their own in
`server/approvals/routes.py`. Each decision is in the audit log by `AuditedApprovals`, so these rows name no audit kind.
"""

from ...wires.contract import Reply
from ...wires.lifecycle import approvals as wire
from ..approvals.decisions import OPERATOR, Decider
from ..approvals.routes import approval_of, limit_of
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts

ONE = wire.ADMIN + "/{id}"


async def list_approvals(parts: OperatorParts, exchange: Exchange) -> Reply:
    """The oldest first, each with the address of its page and the code that the page asks for."""
    approvals, base_url = parts.decisions.approvals, exchange.base_url()
    waiting, more = await approvals.page(None, limit_of(exchange))
    shown = [approval_of(approvals, call, base_url, approvals.links.code_of(call.name)) for call in waiting]
    return wire.encode_approvals(shown, more)


async def approve(parts: OperatorParts, exchange: Exchange) -> Reply:
    return await _decide(parts, exchange, approved=True)


async def reject(parts: OperatorParts, exchange: Exchange) -> Reply:
    return await _decide(parts, exchange, approved=False)


async def _decide(parts: OperatorParts, exchange: Exchange, *, approved: bool) -> Reply:
    reason, by = wire.decode_reason(exchange.body), Decider(OPERATOR, exchange.address)
    call = await parts.decisions.numbered(exchange, by, approved=approved)
    decided = await parts.decisions.decide(call, by, approved=approved, reason=reason)
    return wire.encode_decided(decided, approved)


OPERATIONS = (
    Operation("GET", wire.ADMIN, list_approvals),
    Operation("POST", f"{ONE}/approve", approve, reads_json=True),
    Operation("POST", f"{ONE}/reject", reject, reads_json=True),
)
