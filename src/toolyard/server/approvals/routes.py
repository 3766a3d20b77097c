"""Calls that wait for a person's yes: for the operator's tools, for callers who may approve, and as a page.

Nobody decides about a call with the credentials that made it: an approver is another subject of its tenant with the
scope for it, an operator has the token beside the ledger, and who comes to the page has to know the call's code.
"""

from ...catalogue import Catalogue
from ...engine.approvals import MOST, Approvals
from ...model.caller import Caller
from ...model.errors import Forbidden, PathNotFound, RequestError, ToolNotFound
from ...model.record import CallRecord
from ...trust.access.access import APPROVE
from ...trust.approvals.links import PATH
from ...wires.contract import Reply
from ...wires.lifecycle import approvals as wire
from ...wires.lifecycle.calls import LIFECYCLE
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Handler, Route
from .decisions import OPERATOR, AuditedApprovals, Decider, about


def admin_routes(decisions: AuditedApprovals) -> list[Route]:
    desk = decisions.desk

    async def show_all(exchange: Exchange) -> Reply:
        approvals, base_url = desk.approvals, exchange.base_url()
        waiting, more = await desk.page(None, _limit(exchange))
        shown = [_shown(desk, call, base_url, approvals.code_of(call.name)) for call in waiting]
        return wire.encode_approvals(shown, more)

    def decide(approved: bool) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            reason, by = wire.decode_reason(exchange.body), Decider(OPERATOR, exchange.address)
            call = await decisions.numbered(exchange, by, approved=approved)
            decided = await decisions.decide(call, by, approved=approved, reason=reason)
            return wire.encode_decided(decided, approved)

        return handle

    at = wire.ADMIN + "/{id}"
    return [
        Route("GET", wire.ADMIN, show_all, LIFECYCLE, who="operator"),
        Route("POST", f"{at}/approve", decide(True), LIFECYCLE, reads_json=True, who="operator"),
        Route("POST", f"{at}/reject", decide(False), LIFECYCLE, reads_json=True, who="operator"),
    ]


def routes(decisions: AuditedApprovals, catalogue: Catalogue) -> list[Route]:
    """For callers with the scope for it, and of tools that they see."""
    desk = decisions.desk

    def is_there(call: CallRecord, caller: Caller) -> bool:
        try:
            catalogue.resolve(call.reference, caller.view)
        except ToolNotFound:
            return False
        return call.key.tenant == caller.tenant

    def allowed(call: CallRecord | None, caller: Caller) -> CallRecord:
        """If they may decide about it; else raises why not. What they may not see is not there."""
        _refuse_others(caller)
        if call is None or not is_there(call, caller):
            raise PathNotFound("There is no such approval; it may have been decided long ago")
        if call.key.subject == caller.subject:
            raise Forbidden("Nobody approves a call of their own", ())
        return call

    async def show_all(exchange: Exchange) -> Reply:
        _refuse_others(exchange.caller)
        caller = exchange.caller
        waiting, _ = await desk.page(caller.tenant, _limit(exchange))
        others = [call for call in waiting if call.key.subject != caller.subject and is_there(call, caller)]
        return wire.encode_approvals([_shown(desk, call, exchange.base_url()) for call in others])

    def decide(approved: bool) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            caller, reason = exchange.caller, wire.decode_reason(exchange.body)
            by = Decider(caller.subject, exchange.address, caller)
            found = await _found(desk, exchange.parameters["id"])
            try:
                call = allowed(found, caller)
            except RequestError as error:
                which = {"tool": exchange.path} if found is None else about(found)
                await decisions.refused(by, approved, error.message, **which)
                raise
            decided = await decisions.decide(call, by, approved=approved, reason=reason)
            return wire.encode_decided(decided, approved)

        return handle

    at = wire.OWN + "/{id}"
    return [
        Route("GET", wire.OWN, show_all, LIFECYCLE),
        Route("POST", f"{at}/approve", decide(True), LIFECYCLE, reads_json=True),
        Route("POST", f"{at}/reject", decide(False), LIFECYCLE, reads_json=True),
    ]


def _shown(desk: Approvals, call: CallRecord, base_url: str, code: str | None = None) -> dict[str, object]:
    """`base_url` is empty where nobody serves the page."""
    id = desk.approvals.id_of(call.name)
    return wire.approval_json(call, id, f"{base_url}{PATH}/{id}" if base_url else None, code)


def _limit(exchange: Exchange) -> int:
    return int(query.number(exchange, "limit", MOST, 1, wire.MOST_LISTED))


async def _found(desk: Approvals, id: str) -> CallRecord | None:
    try:
        return await desk.find(id)
    except PathNotFound:
        return None


def _refuse_others(caller: Caller) -> None:
    if not caller.may_approve:
        raise Forbidden(f"These credentials are not for {APPROVE}", (APPROVE,))
