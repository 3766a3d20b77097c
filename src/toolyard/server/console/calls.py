"""The console's pages of calls: those of all callers, one call with what went in and came out, and its whole input. A
button cancels a call that has not ended."""

from collections.abc import Mapping
from html import escape

from ...engine.approvals import Approvals
from ...model.caller import caller_name
from ...model.errors import PathNotFound, Refused
from ...model.lifecycle import ENDED, State, WaitingFor
from ...model.record import CallRecord
from ...store.contract import Store
from ...store.values import Filter
from ..http import query
from ..pages.layout import age, code, json_text, shown, whole_json
from .html import NOTHING, brief, facts, grid
from .page import Action, ConsolePage, Done, PageContent, Visit

MOST = 100
"""How many calls the list shows."""
COLUMNS = ("Call", "Tool", "State", "Caller", "Wire", "Waits for", "Age", "Attempt", "Progress")
ONE = "/calls/{number}"


class CallsPage:
    """Shows calls from the ledger, with the decision of whoever approved or rejected one."""

    def __init__(self, store: Store, approvals: Approvals) -> None:
        self._store, self._approvals = store, approvals

    def pages(self) -> list[ConsolePage]:
        return [
            ConsolePage("/calls", self.show_all, "Calls"),
            ConsolePage(ONE, self.show),
            ConsolePage(f"{ONE}/input", self.show_input),
        ]

    def actions(self) -> list[Action]:
        return [Action(f"{ONE}/cancel", self.cancel)]

    async def show_all(self, visit: Visit) -> PageContent:
        # The form sends an empty field for "any"; the API refuses an empty state.
        state = query.state(visit.exchange) if query.text(visit.exchange, "state") else None
        tool = query.text(visit.exchange, "tool") or None
        found = await self._store.listed(Filter(None, state=state, tool=tool, limit=MOST))
        rows = grid(COLUMNS, (_row(visit, call) for call in found)) if found else "<p>There is none.</p>"
        said = f"<p>The newest {MOST}; there may be more.</p>" if len(found) == MOST else ""
        return PageContent("Calls", _filter(visit, state, tool) + said + rows, live=True)

    async def show(self, visit: Visit) -> PageContent:
        call = await self._call(visit)
        body = facts(await self._facts(visit, call))
        body += "<h2>Input</h2>" + (_input(visit, call) if call.input else "<p>It is not kept any more.</p>")
        if call.state is State.COMPLETE:
            body += "<h2>Result</h2>" + (json_text(call.value) if call.value else "<p>It is not kept any more.</p>")
        elif call.state is State.ERROR:
            body += "<h2>Error</h2>" + json_text(call.error or b"{}")
        else:
            body += visit.form(f"/calls/{call.seq}/cancel", "", "Cancel this call")
        return PageContent(f"Call {call.seq}", body, live=call.state not in ENDED)

    async def show_input(self, visit: Visit) -> PageContent:
        """The input, however long it is: whoever decides about a call may read all that they decide about."""
        call = await self._call(visit)
        back = f"<p>{visit.link('/approvals', 'Approvals')}</p>" if call.waiting_for == WaitingFor.APPROVAL else ""
        body = whole_json(call.input) if call.input else "<p>It is not kept any more.</p>"
        return PageContent(
            f"Input of call {call.seq}", f"<p>{visit.link(f'/calls/{call.seq}', 'The call')}</p>{back}{body}"
        )

    async def cancel(self, visit: Visit, fields: Mapping[str, str]) -> Done:
        call = await self._call(visit)
        judged = await self._store.cancel(call.seq)
        if judged is None or judged.reason is not None or not judged.changed:
            raise Refused("The call had ended before", "ended")
        whose = caller_name(call.key.tenant, call.key.subject)
        what = f"cancelled call {call.key.call_id} of {call.reference} for {whose}"
        return Done(what, f"/calls/{call.seq}")

    async def _call(self, visit: Visit) -> CallRecord:
        call = await self._store.row(visit.number())
        if call is None:
            raise PathNotFound("There is no such call; it may have been removed")
        return call

    async def _facts(self, visit: Visit, call: CallRecord) -> list[tuple[str, str]]:
        decided = await self._approvals.decision(call)
        rows = [
            ("Call id", code(call.key.call_id)),
            ("Tool", code(call.reference)),
            ("State", _stands(call)),
            ("Caller", shown(caller_name(call.key.tenant, call.key.subject))),
            ("On behalf of", shown(call.user_id or "")),
            ("Wire", shown(call.wire)),
            ("Waits for", _waits(visit, call)),
            ("Decision", "" if decided is None else shown(_said(decided))),
            ("Held by", shown(call.holder or "") if call.state is State.PROCESSING else ""),
            ("Attempt", str(call.attempt) + (f", {call.losses} lost" if call.losses else "")),
            ("Age", age(visit.now - call.created_at)),
            ("Took", "" if call.duration_ms is None else f"{call.duration_ms:,.1f} ms"),
            ("Effects", shown(call.effects or "")),
            ("Progress", _progress(call)),
        ]
        return [(name, value) for name, value in rows if value]


def _row(visit: Visit, call: CallRecord) -> tuple[str, ...]:
    return (
        visit.link(f"/calls/{call.seq}", str(call.seq)),
        code(call.reference),
        _stands(call),
        brief(caller_name(call.key.tenant, call.key.subject)),
        shown(call.wire),
        _waits(visit, call) or NOTHING,
        age(visit.now - call.created_at),
        str(call.attempt),
        _progress(call) or NOTHING,
    )


def _input(visit: Visit, call: CallRecord) -> str:
    return json_text(call.input or b"{}", visit.link(f"/calls/{call.seq}/input", "All of it"))


def _stands(call: CallRecord) -> str:
    return shown(call.state.value if call.code is None else f"{call.state.value} ({call.code})")


def _waits(visit: Visit, call: CallRecord) -> str:
    waits = call.waiting_for or ""
    return visit.link("/approvals", waits) if waits == WaitingFor.APPROVAL else shown(waits)


def _progress(call: CallRecord) -> str:
    if call.progress is not None:
        return brief(call.progress.decode())
    return "" if call.heartbeat is None else shown(f"{call.heartbeat:.0%}")


def _said(decided: Mapping[str, object]) -> str:
    because = f": {decided['reason']}" if decided["reason"] else ""
    return f"{decided['by']} has {'approved' if decided['approved'] else 'rejected'} it{because}"


def _filter(visit: Visit, state: State | None, tool: str | None) -> str:
    options = "".join(f"<option{' selected' if each is state else ''}>{each}</option>" for each in State)
    return (
        f"<form method='get' action='{escape(visit.url('/calls'))}'>"
        "<label for='state'>State</label>"
        f"<select id='state' name='state'><option value=''>any</option>{options}</select>"
        "<label for='tool'>Tool, as it was called</label>"
        f"<input id='tool' name='tool' type='text' maxlength='300' value='{shown(tool or '')}'> "
        "<button type='submit'>Show</button></form>"
    )
