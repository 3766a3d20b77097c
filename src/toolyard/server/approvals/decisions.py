"""What people decide about calls that wait for them: each decision, and each try that was refused, is in the audit log,
in the same words whichever way it came."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from ...engine.approvals import Approvals
from ...model.caller import Caller, full_name
from ...model.errors import PathNotFound, Refused
from ...model.record import CallRecord
from ...trust.audit.entry import Entry
from ..http.exchange import Exchange

OPERATOR = "an operator"
WITH_CODE = "a person with its code"
Note = Callable[[Entry], Awaitable[None]]
"""Puts an entry into the audit log."""


class Decider(Struct, frozen=True):
    """Who decides; `caller` where they came with credentials of their own."""

    name: str
    address: str = ""
    caller: Caller = Caller("", "")


class AuditedApprovals:
    def __init__(self, desk: Approvals, note: Note, now: Callable[[], float]) -> None:
        self.desk, self._note, self._now = desk, note, now

    async def numbered(self, exchange: Exchange, by: Decider, *, approved: bool) -> CallRecord:
        """The call that an operator named in the path. Raises PathNotFound."""
        try:
            return await self.desk.numbered(exchange.parameters["id"])
        except PathNotFound as error:
            await self.refused(by, approved, error.message, tool=exchange.path)
            raise

    async def decide(self, call: CallRecord, by: Decider, *, approved: bool, reason: str = "") -> CallRecord:
        """Raises Refused where somebody else was first, or nothing waits any more."""
        try:
            decided = await self.desk.decide(call, approved=approved, by=by.name, reason=reason)
        except Refused as error:
            await self.refused(by, approved, error.message, **about(call))
            raise
        said = "approved" if approved else "rejected"
        await self._add(by, outcome=said, reason=reason or None, **about(call))
        return decided

    async def refused(self, by: Decider, approved: bool, why: str, **about: str | None) -> None:
        """Somebody wanted to decide and may not, or came too late."""
        await self._add(by, outcome="approve_refused" if approved else "reject_refused", rule=why, **about)

    async def _add(self, by: Decider, **more: Any) -> None:
        caller = by.caller
        await self._note(
            Entry(
                self._now(), "approval", caller.tenant or None, caller.subject or None, caller.user_id,
                caller.key, caller.how, by.address or None, by=by.name, **more,
            )
        )  # fmt: skip


def about(call: CallRecord) -> dict[str, str | None]:
    """Which call it is: its id alone is only one caller's."""
    return {
        "tool": call.reference,
        "call_id": call.key.call_id,
        "asked_by": full_name(call.key.tenant, call.key.subject),
        "fingerprint": call.fingerprint.hex() if call.fingerprint else None,
    }
