"""The console's page of calls that wait for a person's yes: each with its input as text, and two forms, to approve it
or to reject it with a reason.

The page does not reload itself: whoever reads must not find another call under the button. Whoever is at the console is
an operator, so the call's code is not asked for.
"""

from collections.abc import Mapping

from ...model.caller import caller_name
from ...model.record import CallRecord
from ...store.contract import Store
from ...wires.lifecycle.approvals import MOST_REASON
from ..approvals.decisions import OPERATOR, AuditedApprovals, Decider
from ..pages.layout import age, code, json_text, shown
from .html import facts
from .page import Action, ConsolePage, Done, PageContent, Visit

ONE = "/approvals/{id}"


class ApprovalsPage:
    """Shows the calls that wait for approval, and decides about them as an operator does."""

    def __init__(self, store: Store, decisions: AuditedApprovals) -> None:
        self._store, self._decisions = store, decisions

    def pages(self) -> list[ConsolePage]:
        return [ConsolePage("/approvals", self.show, "Approvals")]

    def actions(self) -> list[Action]:
        return [Action(f"{ONE}/approve", self.approve), Action(f"{ONE}/reject", self.reject)]

    async def show(self, visit: Visit) -> PageContent:
        waiting = await self._decisions.approvals.waiting()
        body = "".join([await self._one(visit, call) for call in waiting]) or "<p>Nothing waits for you.</p>"
        return PageContent("Approvals", body)

    async def approve(self, visit: Visit, fields: Mapping[str, str]) -> Done:
        return await self._decide(visit, True, "")

    async def reject(self, visit: Visit, fields: Mapping[str, str]) -> Done:
        return await self._decide(visit, False, fields.get("reason", "")[:MOST_REASON])

    async def _decide(self, visit: Visit, approved: bool, reason: str) -> Done:
        call = await self._decisions.approvals.find(visit.exchange.parameters["id"])
        by = Decider(OPERATOR, visit.exchange.address)
        await self._decisions.decide(call, by, approved=approved, reason=reason)
        return Done("", f"/calls/{call.seq}")

    async def _one(self, visit: Visit, call: CallRecord) -> str:
        whole = call if not call.is_cut else await self._store.row(call.seq) or call
        at = f"/approvals/{self._decisions.approvals.links.id_of(call.name)}"
        link = visit.link(f"/calls/{call.seq}/input", "Read all of it before you decide")
        rows = [
            ("Call", visit.link(f"/calls/{call.seq}", str(call.seq)) + f" {code(call.key.call_id)}"),
            ("Who asks", shown(caller_name(call.key.tenant, call.key.subject))),
            ("On behalf of", shown(call.user_id or "")),
            ("Asked", f"{age(visit.now - call.created_at)} ago"),
        ]
        return (
            f"<h2>{code(call.reference)}</h2>{facts((name, value) for name, value in rows if value)}"
            f"<h3>Input</h3>{json_text(whole.input or b'{}', link)}"
            f"{visit.form(f'{at}/approve', '', 'Approve')}{visit.form(f'{at}/reject', _reason(call.seq), 'Reject')}"
        )


def _reason(seq: int) -> str:
    return (
        f"<label for='reason-{seq}'>Reason, if you reject it; its caller is told</label>"
        f"<input id='reason-{seq}' name='reason' type='text' maxlength='{MOST_REASON}'> "
    )
