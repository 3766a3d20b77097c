"""Calls that wait for a person's yes: for the operator's tools, for callers who may approve, and as a page.

Nobody decides about a call with the credentials that made it: an approver is another subject of its tenant with the
scope for it, an operator has the token beside the ledger, and who comes to the page has to know the call's code.
"""

from ..catalogue import Catalogue
from ..engine.deciding import ApprovalDesk
from ..model.caller import Caller
from ..model.errors import Forbidden, PathNotFound, ToolNotFound
from ..model.record import CallRecord
from ..trust.access import APPROVE
from ..trust.approvals import PATH
from ..wires import approvals as wire
from ..wires.contract import Reply
from ..wires.lifecycle import LIFECYCLE
from .admin_routes import Admit
from .exchange import Exchange
from .routes import Handler, Route

OPERATOR = "an operator"


def admin_routes(desk: ApprovalDesk, admit: Admit) -> list[Route]:
    """Each asks `admit` first."""

    async def show_all(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        approvals, base_url = desk.approvals, exchange.base_url()
        return wire.encode_approvals(
            [_shown(desk, call, base_url, approvals.code_of(call.seq)) for call in await desk.waiting()]
        )

    def decide(approved: bool) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            admit(exchange.headers)
            reason, call = wire.decode_reason(exchange.body), await desk.numbered(exchange.parameters["id"])
            decided = await desk.decide(call, approved=approved, by=OPERATOR, reason=reason)
            return wire.encode_decided(decided, approved)

        return handle

    at = wire.ADMIN + "/{id}"
    return [
        Route("GET", wire.ADMIN, show_all, LIFECYCLE, who="operator"),
        Route("POST", f"{at}/approve", decide(True), LIFECYCLE, reads_json=True, who="operator", seen_as="admin"),
        Route("POST", f"{at}/reject", decide(False), LIFECYCLE, reads_json=True, who="operator", seen_as="admin"),
    ]


def routes(desk: ApprovalDesk, catalogue: Catalogue) -> list[Route]:
    """For callers with the scope for it, and of tools that they see."""

    def is_there(call: CallRecord, caller: Caller) -> bool:
        try:
            catalogue.resolve(call.reference, caller.view)
        except ToolNotFound:
            return False
        return call.key.tenant == caller.tenant

    async def show_all(exchange: Exchange) -> Reply:
        _refuse_others(exchange.caller)
        waiting = await desk.waiting(exchange.caller.tenant)
        caller = exchange.caller
        others = [call for call in waiting if call.key.subject != caller.subject and is_there(call, caller)]
        return wire.encode_approvals([_shown(desk, call, exchange.base_url()) for call in others])

    def decide(approved: bool) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            caller, reason = exchange.caller, wire.decode_reason(exchange.body)
            _refuse_others(caller)
            call = await desk.find(exchange.parameters["id"])
            if not is_there(call, caller):
                raise PathNotFound("There is no such approval; it may have been decided long ago")
            if call.key.subject == caller.subject:
                raise Forbidden("Nobody approves a call of their own", ())
            decided = await desk.decide(call, approved=approved, by=caller.subject, reason=reason)
            return wire.encode_decided(decided, approved)

        return handle

    at = wire.OWN + "/{id}"
    return [
        Route("GET", wire.OWN, show_all, LIFECYCLE),
        Route("POST", f"{at}/approve", decide(True), LIFECYCLE, reads_json=True, seen_as="approval"),
        Route("POST", f"{at}/reject", decide(False), LIFECYCLE, reads_json=True, seen_as="approval"),
    ]


def _shown(desk: ApprovalDesk, call: CallRecord, base_url: str, code: str | None = None) -> dict[str, object]:
    """`base_url` is empty where nobody serves the page."""
    id = desk.approvals.id_of(call.seq)
    return wire.approval_json(call, id, f"{base_url}{PATH}/{id}" if base_url else None, code)


def _refuse_others(caller: Caller) -> None:
    if not caller.may_approve:
        raise Forbidden(f"These credentials are not for {APPROVE}", (APPROVE,))
