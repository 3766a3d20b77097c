"""A person's yes or no to a call that waits for it.

Here it is only written down. A yes makes the call one that nobody runs, and `restarts` starts it; a no ends it. Which
calls wait, and the signed addresses at which people decide, are `trust/approvals`.
"""

import msgspec

from ..model.errors import PathNotFound, Refused
from ..model.judge import ended_by
from ..model.lifecycle import ENDED, Move, State
from ..model.record import CallRecord
from ..model.writes import Decision
from ..store.contract import Store
from ..store.values import Filter, Note
from ..trust.approvals.links import number_in
from ..trust.approvals.rules import APPROVAL, ApprovalRules

KIND = "decision"
KEPT_S = 7 * 86400.0
MOST = 200
_encode = msgspec.json.Encoder().encode


class Approvals:
    """The calls that wait for a person, and what people decide about them. `claim_s`: how long a worker then has to
    claim a call of its tool."""

    def __init__(self, store: Store, approvals: ApprovalRules, claim_s: float) -> None:
        self._store, self.approvals, self._claim_s = store, approvals, claim_s

    async def waiting(self, tenant: str | None = None) -> list[CallRecord]:
        """The oldest first, each with all of its input: nobody agrees to what they were not shown."""
        wanted = Filter(tenant, state=State.PENDING, waiting_for=APPROVAL, limit=MOST)
        found = [call if call.input else await self._store.row(call.seq) for call in await self._store.listed(wanted)]
        return [call for call in reversed(found) if call is not None and call.waiting_for == APPROVAL]

    async def find(self, id: str) -> CallRecord:
        """By its address. One that was not given out for this very call is none. Raises PathNotFound."""
        call = await self._numbered(number_in(id))
        if call is None or not self.approvals.is_id(id, call.name):
            raise _absent()
        return call

    async def numbered(self, id: str) -> CallRecord:
        """For operators, who may leave the signature out. Raises PathNotFound."""
        if not id.isdigit():
            return await self.find(id)
        call = await self._numbered(number_in(id))
        if call is None:
            raise _absent()
        return call

    async def _numbered(self, seq: int | None) -> CallRecord | None:
        return None if seq is None else await self._store.row(seq)

    async def status(self, id: str) -> str:
        """As `check_url` says it."""
        try:
            call = await self.find(id)
        except PathNotFound:
            return "failed"
        if call.waiting_for == APPROVAL:
            return "pending"
        return "failed" if call.state is State.ERROR and call.attempt == 0 else "completed"

    async def decision(self, call: CallRecord) -> dict[str, object] | None:
        """What was said, by whom, and why."""
        return await decision_of(self._store, call)

    async def decide(self, call: CallRecord, *, approved: bool, by: str, reason: str = "") -> CallRecord:
        """Whoever is first decides. Raises Refused where somebody else was, or nothing waits any more."""
        reason = reason.strip()
        because = f": {reason}" if reason else ""
        ending = None if approved else ended_by(Move.REJECT, f"A person said no{because}", "none")
        queue_s = self._claim_s if call.queue == "worker" else None
        judged = await self._store.decide(Decision(call.seq, APPROVAL, ending, queue_s))
        if judged is None or judged.reason is not None:
            raise await self._late(call)
        said = _encode({"approved": approved, "by": by, "reason": reason})
        await self._store.put_note(Note(*_place(call), said), KEPT_S)
        return await self._store.row(call.seq) or call

    async def _late(self, call: CallRecord) -> Refused:
        """Why this decision came too late, for whoever made it."""
        now, said = await self._store.row(call.seq), await self.decision(call)
        if said is not None:
            return Refused(f"{said['by']} has {'approved' if said['approved'] else 'rejected'} it already", "decided")
        if now is not None and now.state in ENDED:
            waited = "nobody had to agree to it" if now.attempt else "nobody waits for it any more"
            return Refused(f"The call has ended as {now.code}; {waited}", "ended")
        if now is not None and now.waiting_for is not None:
            return Refused(f"The call waits for {now.waiting_for}, and not for a person's yes", "decided")
        return Refused("The call is under way; nobody had to agree to it", "decided")


async def decision_of(store: Store, call: CallRecord) -> dict[str, object] | None:
    """What a person said of a call, as long as it is known."""
    found = await store.note(*_place(call))
    return None if found is None else msgspec.json.decode(found)


def _place(call: CallRecord) -> tuple[str, str, str, str]:
    return KIND, call.key.tenant, "", call.name.digest()


def _absent() -> PathNotFound:
    return PathNotFound("There is no such approval; it may have been decided long ago")
