"""`/v1/approvals`: calls that wait for a person's yes, for callers who may approve them.

Nobody decides about a call with the credentials that made it. A caller who approves is another subject of the call's
tenant, has the scope for it, and sees the tool. Two other ways lead to the same decision: an operator's
(`server/admin/approvals.py`), and the page that asks for the call's code (`page.py`).
"""

from collections.abc import Callable

from ...catalogue import Catalogue
from ...engine.approvals import MOST, Approvals
from ...lazy import load
from ...model.caller import Caller
from ...model.errors import Forbidden, PathNotFound, RequestError, ToolNotFound
from ...model.record import CallRecord
from ...trust.access.access import APPROVE
from ...trust.approvals.links import PATH
from ...trust.sealing.ring import KeyRing
from ...wires.contract import Reply
from ...wires.lifecycle import approvals as wire
from ...wires.lifecycle.calls import LIFECYCLE
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Handler, Route
from ..pages.page_routes import Address, page_routes
from .decisions import AuditedApprovals, Decider, about

PAGE, STATUS = PATH + "/{id}", PATH + "/{id}/status"
PAGES: tuple[Address, ...] = (("GET", PAGE), ("POST", PAGE), ("GET", STATUS))


def routes(decisions: AuditedApprovals, catalogue: Catalogue) -> list[Route]:
    approvals = decisions.approvals

    def is_visible(call: CallRecord, caller: Caller) -> bool:
        try:
            catalogue.resolve(call.reference, caller.view)
        except ToolNotFound:
            return False
        return call.key.tenant == caller.tenant

    def allowed(call: CallRecord | None, caller: Caller) -> CallRecord:
        """The call, if this caller may decide about it. Raises PathNotFound for a call that the caller may not know of,
        and Forbidden for one that the caller may not decide about."""
        _refuse_unless_approver(caller)
        if call is None or not is_visible(call, caller):
            raise PathNotFound("There is no such approval; it may have been decided long ago")
        if call.key.subject == caller.subject:
            raise Forbidden("Nobody approves a call of their own", ())
        return call

    async def show_all(exchange: Exchange) -> Reply:
        _refuse_unless_approver(exchange.caller)
        caller = exchange.caller
        waiting, _ = await approvals.page(caller.tenant, limit_of(exchange))
        others = [call for call in waiting if call.key.subject != caller.subject and is_visible(call, caller)]
        return wire.encode_approvals([approval_of(approvals, call, exchange.base_url()) for call in others])

    def decide(approved: bool) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            caller, reason = exchange.caller, wire.decode_reason(exchange.body)
            by = Decider(caller.subject, exchange.address, caller)
            found = await _found(approvals, exchange.parameters["id"])
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


def pages(decisions: AuditedApprovals, ring: KeyRing, catalogue: Catalogue, now: Callable[[], float]) -> list[Route]:
    """The routes of the page that asks for a call's code."""
    return page_routes(PAGES, lambda: load("approval_pages")(decisions, ring, catalogue, now).handlers())


def approval_of(approvals: Approvals, call: CallRecord, base_url: str, code: str | None = None) -> dict[str, object]:
    """A call that waits, as it is listed. `base_url` is empty where no server serves its page; `code`, which that page
    asks for, is for operators alone."""
    id = approvals.links.id_of(call.name)
    return wire.approval_json(call, id, f"{base_url}{PATH}/{id}" if base_url else None, code)


def limit_of(exchange: Exchange) -> int:
    """How many calls a list has at most."""
    return int(query.number(exchange, "limit", MOST, 1, wire.MOST_LISTED))


async def _found(approvals: Approvals, id: str) -> CallRecord | None:
    try:
        return await approvals.find(id)
    except PathNotFound:
        return None


def _refuse_unless_approver(caller: Caller) -> None:
    if not caller.may_approve:
        raise Forbidden(f"These credentials are not for {APPROVE}", (APPROVE,))
