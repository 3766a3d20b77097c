"""A person's yes or no to a call that waits for it.

Here it is only written down. A yes makes the call one that nobody runs, and `restarts` starts it; a no ends it. Which
calls wait, and the signed addresses at which people decide, are `trust/approvals`.
"""

import msgspec

from ..model.errors import PathNotFound, Refused
from ..model.json_value import decode
from ..model.judge import ended_by
from ..model.lifecycle import ENDED, Move, State, WaitingFor
from ..model.record import CallRecord
from ..model.writes import Decision
from ..store.contract import Store
from ..store.values import MOST_BYTES, Note
from ..trust.approvals.links import ApprovalLinks, number_in

KIND, TRIES = "decision", "approval-tries"
KEPT_S = 7 * 86400.0
MOST = 200
MOST_TRIES = 10
"""Wrong codes for one call: then only an operator can decide."""
_encode = msgspec.json.Encoder().encode


class Approvals:
    """The calls that wait for a person, and what people decide about them. `claim_s`: how long a worker then has to
    claim a call of its tool."""

    def __init__(self, store: Store, links: ApprovalLinks, claim_s: float, wait_s: float) -> None:
        """`claim_s`: how long a worker then has to claim an approved call; `wait_s`: how long a call waits for a
        person, and wrong codes are remembered."""
        self._store, self.links, self._claim_s, self._wait_s = store, links, claim_s, wait_s

    async def waiting(self, tenant: str | None = None, limit: int = MOST) -> list[CallRecord]:
        """The oldest first, each with all of its input: nobody agrees to what they were not shown."""
        return (await self.page(tenant, limit))[0]

    async def page(self, tenant: str | None, limit: int) -> tuple[list[CallRecord], int]:
        """The same, and how many more there are: of all callers some, and no more than can be held at once."""
        numbers, total = await self._store.waiting_calls(WaitingFor.APPROVAL, tenant, limit)
        found: list[CallRecord] = []
        left = MOST_BYTES
        for seq in numbers:
            call = await self._store.row(seq)
            if call is None or call.waiting_for != WaitingFor.APPROVAL:
                total -= 1
                continue
            found.append(call)
            left -= call.size
            if left <= 0:
                break
        return sorted(found, key=lambda call: call.seq), total - len(found)

    async def count(self) -> int:
        return (await self._store.waiting_calls(WaitingFor.APPROVAL, None, 1))[1]

    async def find(self, id: str) -> CallRecord:
        """By its address. One that was not given out for this very call is none. Raises PathNotFound."""
        call = await self._numbered(number_in(id))
        if call is None or not self.links.is_id(id, call.name):
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
        if call.waiting_for == WaitingFor.APPROVAL:
            return "pending"
        return "failed" if call.state is State.ERROR and call.started_at is None else "completed"

    async def decision(self, call: CallRecord) -> dict[str, object] | None:
        """What was said, by whom, and why."""
        return await decision_of(self._store, call)

    async def is_closed(self, call: CallRecord) -> bool:
        """Whether so many wrong codes were given that no code counts any more, here or at any other node."""
        return await self._store.note(*_try(call, MOST_TRIES - 1)) is not None

    async def is_code(self, given: str, call: CallRecord) -> bool:
        """Each try takes one of the places there are before anything is compared, and no two take the same: trying many
        at once, at many nodes or after a restart does not help."""
        for number in range(MOST_TRIES):
            if await self._store.add_note(Note(*_try(call, number), b"-"), self._wait_s):
                break
        else:
            return False
        if not self.links.is_code(given, call.name):
            return False
        await self._store.drop_note(*_try(call, number))
        return True

    async def decide(self, call: CallRecord, *, approved: bool, by: str, reason: str = "") -> CallRecord:
        """Whoever is first decides. Raises Refused where somebody else was, or nothing waits any more."""
        reason = reason.strip()
        because = f": {reason}" if reason else ""
        ending = None if approved else ended_by(Move.REJECT, f"A person said no{because}", "none")
        queue_s = self._claim_s if call.queue == "worker" else None
        judged = await self._store.release_wait(Decision(call.seq, WaitingFor.APPROVAL, ending, queue_s))
        if judged is None or judged.reason is not None:
            raise await self._late(call)
        said = _encode({"approved": approved, "by": by, "reason": reason})
        await self._store.put_note(Note(*_place(call), said, call.user, call.seq), KEPT_S)
        return await self._store.row(call.seq) or call

    async def _late(self, call: CallRecord) -> Refused:
        """Why this decision came too late, for whoever made it."""
        now, said = await self._store.row(call.seq), await self.decision(call)
        if said is not None:
            return Refused(f"{said['by']} has {'approved' if said['approved'] else 'rejected'} it already", "decided")
        if now is not None and now.state in ENDED:
            waited = "nobody waits for it any more" if now.started_at is None else "nobody had to agree to it"
            return Refused(f"The call has ended as {now.code}; {waited}", "ended")
        if now is not None and now.waiting_for is not None:
            return Refused(f"The call waits for {now.waiting_for}, and not for a person's yes", "decided")
        return Refused("The call is under way; nobody had to agree to it", "decided")


async def decision_of(store: Store, call: CallRecord) -> dict[str, object] | None:
    """What a person said of a call, as long as it is known."""
    found = await store.note(*_place(call))
    return None if found is None else decode(found)


def _place(call: CallRecord) -> tuple[str, str, str, str]:
    return KIND, call.key.tenant, "", call.name.digest()


def _try(call: CallRecord, number: int) -> tuple[str, str, str, str]:
    """Where it is written down that a code was tried."""
    return TRIES, "", call.name.digest(), str(number)


def _absent() -> PathNotFound:
    return PathNotFound("There is no such approval; it may have been decided long ago")
