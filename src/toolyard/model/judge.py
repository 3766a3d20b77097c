"""model/judge.py"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .errors import ToolError
from .lifecycle import CODES, ENDED, Move, State
from .record import Ending
from .writes import (
    Answer,
    CallState,
    Claimant,
    Decision,
    HandBack,
    HeartbeatWrite,
    LeaseTerms,
    Reason,
    WaitForAccount,
    Write,
)


class Judged(Struct):
    """What became of a write: where the call stands now, why it was refused if it was, and how the call ended if this
    ended it."""

    standing: CallState
    reason: Reason | None = None
    ending: Ending | None = None
    changed: bool = True


def judge(call: CallState, write: Write, now: float, limits: LeaseTerms) -> Judged:
    """Settles what is overdue, and then judges the write."""
    settled = settle(call, now, limits)
    before = settled.standing if settled else call
    judged = _judge(before, write, now, limits)
    if settled and not judged.changed:
        return Judged(before, judged.reason, settled.ending)
    return judged


def settle(call: CallState, now: float, limits: LeaseTerms) -> Judged | None:
    """What time has done to a call, if it has done anything."""
    move = overdue(call, now, limits)
    if move is None:
        return None
    lost = move in (Move.LOSE, Move.ABANDON, Move.UNKNOWN)
    losses = call.losses + lost
    if move is Move.LOSE:
        return Judged(_given_back(replace(call, losses=losses)))
    effects = "none" if call.state is State.PENDING and call.attempt == 0 else "unknown"
    why = _not_in_time(call) if move is Move.EXPIRE else _WHY[move].format(losses=losses)
    return _ended(replace(call, losses=losses), ended_by(move, why, effects), now)


def _not_in_time(call: CallState) -> str:
    """Who waited for a person is told what did not come."""
    until = min((each for each in (call.queue_until, call.deadline_at) if each is not None), default=call.created_at)
    if call.waiting_for == "approval":
        return f"Nobody decided about the call in {round(until - call.created_at, 2):.12g} seconds"
    if call.waiting_for == "authorization":
        return "Nobody connected the account that the call needs in time"
    return _WHY[Move.EXPIRE]


def overdue(call: CallState, now: float, limits: LeaseTerms) -> Move | None:
    """What has to happen to a call because of the time. Node leases are the store's matter."""
    if call.state in ENDED:
        return None
    if _is_past(call.deadline_at, now):
        return Move.EXPIRE
    if call.state is State.PENDING:
        is_in_line = call.attempt == 0 or call.waiting_for is not None
        return Move.EXPIRE if is_in_line and _is_past(call.queue_until, now) else None
    if call.queue == "node":
        return None
    if _is_past(call.run_until, now):
        return Move.EXPIRE
    return after_loss(call, limits) if _is_past(call.lease_until, now) else None


def after_loss(call: CallState, limits: LeaseTerms) -> Move:
    """What a lost attempt means: the tool's word, up to a limit."""
    if call.on_lost != "rerun":
        return Move.UNKNOWN
    return Move.LOSE if call.losses + 1 < limits.max_attempts else Move.ABANDON


def ended_by(move: Move, message: str, effects: str | None = None) -> Ending:
    """An ending that no tool gave."""
    error = msgspec.json.encode(ToolError(message, can_retry=False).members())
    return Ending(State.ERROR, CODES[move], 0.0, error=error, effects=effects)


def is_news(before: CallState, after: CallState) -> bool:
    """Whether a session is told of it: another state or attempt, or something else to wait for."""
    waits = after.waiting_for not in (None, before.waiting_for)
    return waits or (before.state, before.attempt) != (after.state, after.attempt)


def reason_of(state: State, code: str | None) -> Reason:
    """Why nothing can be said any more of a call that ended."""
    return "completed" if state is State.COMPLETE else _REASONS.get(code or "", "failed")


def _judge(call: CallState, write: Write, now: float, limits: LeaseTerms) -> Judged:
    if isinstance(write, HeartbeatWrite):
        return _beat(call, write, now, limits)
    if isinstance(write, Answer):
        return _answer(call, write, now, limits)
    if isinstance(write, HandBack):
        refused = _fence(call, write.who, write.attempt)
        return _refused(call, refused) if refused else Judged(_given_back(call))
    if isinstance(write, Decision):
        return _decide(call, write, now)
    if isinstance(write, WaitForAccount):
        return _hold(call, write, now)
    return _cancel(call, now)


def _decide(call: CallState, decision: Decision, now: float) -> Judged:
    """Only once: whoever comes later is told what became of it."""
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    if call.state is not State.PENDING or call.waiting_for != decision.waiting_for:
        return _refused(call, "conflict")
    if decision.ending is not None:
        return _ended(call, decision.ending, now)
    queue_until = None if decision.queue_s is None else now + decision.queue_s
    return Judged(replace(call, waiting_for=decision.then, queue_until=queue_until))


def _hold(call: CallState, hold: WaitForAccount, now: float) -> Judged:
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    if call.attempt != hold.attempt or call.waiting_for is not None:
        return _refused(call, "stale_attempt")
    if call.state is State.PROCESSING:
        call = _given_back(replace(call, attempt=call.attempt - 1, started_at=None))
    if hold.ending is not None:
        effects = "none" if call.attempt == 0 else "unknown"
        return _ended(call, replace(hold.ending, effects=effects), now)
    return Judged(replace(call, waiting_for=hold.waiting_for, queue_until=now + hold.queue_s))


def _beat(call: CallState, beat: HeartbeatWrite, now: float, limits: LeaseTerms) -> Judged:
    if call.state is State.PENDING and call.waiting_for is None and beat.attempt is None and beat.claims:
        call = claimed(call, beat.who.holder, now, limits)
    else:
        refused = "cancelled" if call.code == "cancelled" else _fence(call, beat.who, beat.attempt)
        if refused:
            return _refused(call, refused)
    renewed = replace(call, lease_until=now + limits.lease_s, seen_at=now)
    if beat.heartbeat is not None:
        renewed.heartbeat = beat.heartbeat
    if beat.progress is not None:
        renewed.progress = beat.progress
        renewed.run_until = None if call.run_s is None else now + call.run_s
    return Judged(renewed)


def claimed(call: CallState, holder: str, now: float, limits: LeaseTerms) -> CallState:
    """The next attempt, held."""
    return replace(
        call,
        state=State.PROCESSING,
        attempt=call.attempt + 1,
        holder=holder,
        lease_until=now + limits.lease_s,
        run_until=None if call.run_s is None else now + call.run_s,
        started_at=now,
        seen_at=now,
        heartbeat=None,
        progress=None,
    )


def _answer(call: CallState, answer: Answer, now: float, limits: LeaseTerms) -> Judged:
    if call.state in ENDED:
        return _answered_again(call, answer)
    if call.state is State.PENDING and call.waiting_for is None and answer.attempt is None:
        call = claimed(call, answer.who.holder, now, limits)
    refused = _fence(call, answer.who, answer.attempt)
    if refused:
        return _refused(call, refused)
    return _ended(call, answer.ending, now, answer.digest)


def _answered_again(call: CallState, answer: Answer) -> Judged:
    if answer.attempt is not None and answer.attempt != call.attempt:
        return _refused(call, "stale_attempt")
    is_theirs = answer.attempt is not None or answer.who.holder == call.holder
    if is_theirs and call.digest == answer.digest:
        return Judged(call, changed=False)
    if is_theirs and call.digest is not None and call.state is State.COMPLETE:
        return _refused(call, "conflict")
    return _refused(call, reason_of(call.state, call.code))


def _cancel(call: CallState, now: float) -> Judged:
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    effects = "none" if call.state is State.PENDING and call.attempt == 0 else "unknown"
    return _ended(call, ended_by(Move.CANCEL, _WHY[Move.CANCEL], effects), now)


def _fence(call: CallState, who: Claimant, attempt: int | None) -> Reason | None:
    """Why this writer does not hold the call."""
    if attempt is not None and attempt != call.attempt:
        return "stale_attempt"
    if call.state in ENDED:
        return reason_of(call.state, call.code)
    if call.waiting_for is not None:
        return "waiting"
    if call.state is State.PENDING:
        return "stale_attempt"
    return "held" if attempt is None and call.holder != who.holder else None


def _refused(call: CallState, reason: Reason) -> Judged:
    return Judged(call, reason, changed=False)


def _given_back(call: CallState) -> CallState:
    return replace(call, state=State.PENDING, holder=None, lease_until=None, run_until=None)


def _ended(call: CallState, ending: Ending, now: float, digest: bytes | None = None) -> Judged:
    if not ending.duration_ms and call.started_at is not None:
        ending = replace(ending, duration_ms=max(0.0, round((now - call.started_at) * 1000, 3)))
    ended = replace(
        call, state=ending.state, code=ending.code, finished_at=now, waiting_for=None, effects=ending.effects,
        digest=digest, lease_until=None, run_until=None,
    )  # fmt: skip
    return Judged(ended, ending=ending)


def _is_past(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now


_REASONS: dict[str, Reason] = {
    CODES[Move.CANCEL]: "cancelled",
    CODES[Move.ABANDON]: "abandoned",
    CODES[Move.EXPIRE]: "abandoned",
    CODES[Move.UNKNOWN]: "abandoned",
}
_WHY = {
    Move.EXPIRE: "The call was not done in time",
    Move.ABANDON: "The tool was started {losses} times and never ended",
    Move.UNKNOWN: "The tool was started and nothing more was heard of it; whether it was done is not known",
    Move.CANCEL: "The call was cancelled",
}
