"""Decisions about calls that wait for a person, with an audit entry for each.

Approvers decide over the API, operators with a verb or in the console, and anybody who knows a call's code on its page.
All of them come through `AuditedApprovals`, so a decision, and an attempt to decide that was refused, is in the audit
log in the same words.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from ...engine.approvals import Approvals
from ...model.caller import Caller, full_name
from ...model.errors import PathNotFound, Refused
from ...model.record import CallRecord
from ...trust.audit.entry import AuditKind, Entry
from ..http.exchange import Exchange

OPERATOR = "an operator"
WITH_CODE = "a person with its code"
Note = Callable[[Entry], Awaitable[None]]
"""Writes an entry to the audit log."""


class Decider(Struct, frozen=True):
    """The person who decides, as the audit log names them; with the caller where they sent credentials of their own."""

    name: str
    address: str = ""
    caller: Caller = Caller("", "")


class AuditedApprovals:
    """`Approvals`, with an audit entry for each decision and each refusal. `note` writes it before the person is
    answered."""

    def __init__(self, approvals: Approvals, note: Note, now: Callable[[], float]) -> None:
        self.approvals, self._note, self._now = approvals, note, now

    async def numbered(self, exchange: Exchange, by: Decider, *, approved: bool) -> CallRecord:
        """The call that an operator named in the path. Raises PathNotFound."""
        try:
            return await self.approvals.numbered(exchange.parameters["id"])
        except PathNotFound as error:
            await self.refused(by, approved, error.message, tool=exchange.path)
            raise

    async def decide(self, call: CallRecord, by: Decider, *, approved: bool, reason: str = "") -> CallRecord:
        """Approves or rejects the call. Raises Refused where somebody else was first, or the call does not wait."""
        try:
            decided = await self.approvals.decide(call, approved=approved, by=by.name, reason=reason)
        except Refused as error:
            await self.refused(by, approved, error.message, **about(call))
            raise
        said = "approved" if approved else "rejected"
        await self._add(by, outcome=said, reason=reason or None, **about(call))
        return decided

    async def refused(self, by: Decider, approved: bool, why: str, **about: str | None) -> None:
        """Notes that somebody wanted to decide and may not, or came too late."""
        await self._add(by, outcome="approve_refused" if approved else "reject_refused", rule=why, **about)

    async def _add(self, by: Decider, **more: Any) -> None:
        caller = by.caller
        await self._note(
            Entry(
                self._now(), AuditKind.APPROVAL, caller.tenant or None, caller.subject or None, caller.user_id,
                caller.key, caller.how, by.address or None, by=by.name, **more,
            )
        )  # fmt: skip


def about(call: CallRecord) -> dict[str, str | None]:
    """Which call an entry is about. Its id alone does not say: another caller may have used the same id."""
    return {
        "tool": call.reference,
        "call_id": call.key.call_id,
        "asked_by": full_name(call.key.tenant, call.key.subject),
        "fingerprint": call.fingerprint.hex() if call.fingerprint else None,
    }
