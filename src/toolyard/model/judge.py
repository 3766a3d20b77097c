"""What becomes of a call when something is written about it, or when time passes: the lifecycle's rules, each once.

Everything here is a pure function. A store locks a call's row, hands the state in with the time by its own clock, and
writes down what comes out. So every store judges alike, and a late worker loses in one place. Each step from one state
to another is looked up in `lifecycle.TRANSITIONS`.

What is overdue is settled before anything else is judged: a lease that ran out a moment ago is lost, whether or not
anybody has noticed it yet. The writes of nodes are the exception, see `judge`.

The stores have a few statements that judge and write in one step, for the writes that come by the thousand. Each is
the rule of this module in SQL, and `tests/store/test_judged.py` holds them to it, for every state and every write.
"""

from typing import Any, TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .errors import ToolError
from .lifecycle import CODES, ENDED, TRANSITIONS, Move, State, WaitingFor
from .record import Ending
from .writes import (
    DIRECT,
    Answer,
    Ask,
    CallState,
    Cancel,
    Claimant,
    Decision,
    Finish,
    GiveUp,
    GoBack,
    HandBack,
    HeartbeatWrite,
    LeaseTerms,
    NodeHandBack,
    NodeWrite,
    QuestionsClosed,
    Reason,
    Resolve,
    Restart,
    WaitForAccount,
    Write,
)


class Judged(Struct):
    """What became of a write: the call's state now, why the write was refused if it was, and how the call ended if
    this ended it. `changed` says whether there is anything to save: a refused write may have settled what was overdue,
    and an accepted one may be a repetition."""

    standing: CallState
    reason: Reason | None = None
    ending: Ending | None = None
    changed: bool = True


class Verdict(Struct):
    """What those who work on requests are told of a write: where the request stands now, and why the write was refused
    if it was. It is as little as they need: a store that makes hundreds of such writes in one statement reads no more
    of the rows than this."""

    seq: int
    attempt: int
    state: State
    reason: Reason | None = None
    changed: bool = True
    """As `Judged` has it."""


def verdict_of(judged: Judged | None) -> Verdict | None:
    """None: there is no such request for whoever wrote."""
    if judged is None:
        return None
    now = judged.standing
    return Verdict(now.seq, now.attempt, now.state, judged.reason, judged.changed)


def is_accepted(judged: Judged | None) -> TypeGuard[Judged]:
    """Whether there is such a call, and the write about it counts."""
    return judged is not None and judged.reason is None


def judge(call: CallState, write: Write, now: float, terms: LeaseTerms, *, is_held: bool = False) -> Judged:
    """Settles what is overdue, and then judges the write. `is_held`: the node that holds the call is alive, which only
    a store that many nodes share can tell.

    A write of a node is judged without settling first. Nodes stop their own runs in time, and a result that comes a
    moment after the deadline, before anybody has ended the call for it, is worth more than `timed_out`. Nor is a ledger
    that went back to a copy: to call overdue what may have been done in time would be to know something of it."""
    if isinstance(write, NodeWrite | GoBack):
        return _judge(call, write, now, terms, is_held)
    settled = settle(call, now, terms)
    before = settled.standing if settled else call
    judged = _judge(before, write, now, terms, is_held)
    if settled and not judged.changed:
        return Judged(before, judged.reason, settled.ending)
    return judged


def was_made(call: CallState, write: Write) -> bool:
    """Whether the ledger shows that this very write has been made already. A store asks this only where it made the
    write before and never learned what became of it, as its connection broke: then what it finds is taken to be its
    own. HeartbeatWrite and Answer need no such question: made twice they are accepted twice. Whether a Finish was made
    shows in the result, which is not part of the state."""
    match write:
        case HandBack():
            return call.state is State.PENDING and write.attempt in (None, call.attempt)
        case Restart():
            return runs(call, write.attempt + 1, write.node)
        case GiveUp():
            return (call.state, call.code, call.attempt) == (write.ending.state, write.ending.code, write.attempt)
        case Cancel():
            return call.code == CODES[Move.CANCEL]
        case Resolve():
            wanted = (State.PENDING, None) if write.ending is None else (write.ending.state, write.ending.code)
            return (call.state, call.code) == wanted
        case Decision() | WaitForAccount():
            if write.ending is not None:
                return call.code == write.ending.code
            then = write.then if isinstance(write, Decision) else write.waiting_for
            return call.waiting_for == then and call.state not in ENDED
    return False


# -- what time does ---------------------------------------------------------------------------------------------------


def settle(call: CallState, now: float, terms: LeaseTerms) -> Judged | None:
    """What time has done to a call, if it has done anything."""
    move = overdue(call, now, terms)
    if move is None:
        return None
    lost = move in (Move.LOSE, Move.ABANDON, Move.UNKNOWN)
    losses = call.losses + lost
    if move is Move.LOSE:
        return Judged(_given_back(call, move, losses=losses))
    why = _not_in_time(call) if move is Move.EXPIRE else _WHY[move].format(losses=losses)
    ending = timed(call, ended_by(move, why, _effects_so_far(call)), now)
    return _ended(replace(call, losses=losses), ending, now)


def overdue(call: CallState, now: float, terms: LeaseTerms) -> Move | None:
    """What has to happen to a call because of the time. Whether a node is alive is the store's matter, so that calls of
    nodes have no lease here."""
    if call.state in ENDED:
        return None
    if _is_past(call.deadline_at, now):
        return Move.EXPIRE
    if call.state is State.PENDING:
        return Move.EXPIRE if is_in_line(call) and _is_past(call.queue_until, now) else None
    if call.queue == "node":
        return None
    if _is_past(call.run_until, now):
        return Move.EXPIRE
    return after_loss(call, terms) if _is_past(call.lease_until, now) else None


def is_in_line(call: CallState) -> bool:
    """Whether `queue_until` counts for a call that is PENDING. One that was claimed and came back has been in time."""
    return call.attempt == 0 or call.waiting_for is not None


def after_loss(call: CallState, terms: LeaseTerms) -> Move:
    """What a lost attempt means: the tool's word, up to a limit."""
    if call.on_lost != "rerun":
        return Move.UNKNOWN
    return Move.LOSE if call.losses + 1 < terms.max_attempts else Move.ABANDON


def _not_in_time(call: CallState) -> str:
    """What did not come in time. Where the call waited for a person, that person is named."""
    until = min((each for each in (call.queue_until, call.deadline_at) if each is not None), default=call.created_at)
    if call.waiting_for == WaitingFor.APPROVAL:
        return f"Nobody decided about the call in {round(until - call.created_at, 2):.12g} seconds"
    if call.waiting_for == WaitingFor.AUTHORIZATION:
        return "Nobody connected the account that the call needs in time"
    return _WHY[Move.EXPIRE]


# -- endings ----------------------------------------------------------------------------------------------------------


def ended_by(move: Move, message: str, effects: str | None = None) -> Ending:
    """An ending that no tool gave."""
    error = msgspec.json.encode(ToolError(message, can_retry=False).members())
    return Ending(State.ERROR, CODES[move], 0.0, error=error, effects=effects)


def ending_move(state: State, ending: Ending) -> Move:
    """The move that an ending is, from that state. An error whose code is the tool's own, or has no move from there, is
    a failure like any other."""
    if ending.state is State.COMPLETE:
        return Move.COMPLETE
    move = _MOVES.get(ending.code, Move.FAIL)
    return move if move in TRANSITIONS[state] else Move.FAIL


def frees_key(session: str | None, ending: Ending) -> bool:
    """Whether the next call with the key of this one, which ended so, is a new one. A tool use of a session has one
    result for ever: its id is its place in the conversation."""
    return ending.releases_key and session in (None, DIRECT)


def reason_of(state: State, code: str | None) -> Reason:
    """Why nothing can be said any more of a call that ended."""
    return "completed" if state is State.COMPLETE else _REASONS.get(code or "", "failed")


def is_news(before: CallState, after: CallState) -> bool:
    """Whether a session is told of it: another state or attempt, or something else to wait for."""
    waits = after.waiting_for not in (None, before.waiting_for)
    return waits or (before.state, before.attempt) != (after.state, after.attempt)


# -- the rules, one for each write ------------------------------------------------------------------------------------


def _judge(call: CallState, write: Write, now: float, terms: LeaseTerms, is_held: bool) -> Judged:
    match write:
        case HeartbeatWrite():
            return _beat(call, write, now, terms)
        case Answer():
            return _answer(call, write, now, terms)
        case HandBack():
            return _hand_back(call, _fence(call, write.who, write.attempt))
        case Finish():
            refused = _node_fence(call, write.attempt, write.node)
            return _refused(call, refused) if refused else _ended(call, write.ending, now)
        case NodeHandBack():
            return _hand_back(call, _node_fence(call, write.attempt, write.node))
        case Ask():
            refused = _node_fence(call, write.attempt, write.node)
            return _refused(call, refused) if refused else Judged(_to(call, Move.ASK, waiting_for=WaitingFor.ANSWER))
        case QuestionsClosed():
            if call.waiting_for != WaitingFor.ANSWER:
                return _refused(call, "conflict")
            return Judged(_to(call, Move.RESUME, waiting_for=None))
        case Restart():
            return _restart(call, write, now, is_held)
        case GiveUp():
            return _give_up(call, write, now, is_held)
        case Cancel():
            return _cancel(call, now)
        case Decision():
            return _decide(call, write, now)
        case WaitForAccount():
            return _hold(call, write, now)
        case Resolve():
            return _resolve(call, write, now)
        case GoBack():
            return _go_back(call, write, now)


def _beat(call: CallState, beat: HeartbeatWrite, now: float, terms: LeaseTerms) -> Judged:
    if call.state is State.PENDING and call.waiting_for is None and beat.attempt is None and beat.claims:
        call = claimed(call, beat.who.holder, now, terms)
    else:
        # Whoever still works on a cancelled call is told that it was cancelled, before anything about attempts.
        refused = "cancelled" if call.code == CODES[Move.CANCEL] else _fence(call, beat.who, beat.attempt)
        if refused:
            return _refused(call, refused)
    renewed = _to(call, Move.RENEW, lease_until=now + terms.lease_s, seen_at=now)
    if beat.heartbeat is not None:
        renewed.heartbeat = beat.heartbeat
    if beat.progress is not None:
        renewed.progress = beat.progress
        renewed.run_until = None if call.run_s is None else now + call.run_s
    return Judged(renewed)


def claimed(call: CallState, holder: str, now: float, terms: LeaseTerms) -> CallState:
    """The call with its next attempt, held by a worker or by the owner of its session."""
    return _to(
        call,
        Move.CLAIM,
        attempt=call.attempt + 1,
        holder=holder,
        lease_until=now + terms.lease_s,
        run_until=None if call.run_s is None else now + call.run_s,
        started_at=now,
        seen_at=now,
        heartbeat=None,
        progress=None,
    )


def _answer(call: CallState, answer: Answer, now: float, terms: LeaseTerms) -> Judged:
    if call.state in ENDED:
        return _answered_again(call, answer)
    if call.state is State.PENDING and call.waiting_for is None and answer.attempt is None and not _came_back(call):
        call = claimed(call, answer.who.holder, now, terms)
    refused = _fence(call, answer.who, answer.attempt)
    if refused:
        return _refused(call, refused)
    return _ended(call, timed(call, answer.ending, now), now, answer.digest)


def _came_back(call: CallState) -> bool:
    """Whether a worker had this call, and has it no more: it was lost, handed back, or is run once more. Then an answer
    that names no attempt may be that worker's, who is too late; nobody knows who had it. Of a session's own tools that
    is no matter: whoever runs them is its owner."""
    return call.queue == "worker" and call.attempt > 0


def _answered_again(call: CallState, answer: Answer) -> Judged:
    """The same answer from whoever gave it is accepted as often as it comes; another one is a conflict."""
    if answer.attempt is not None and answer.attempt != call.attempt:
        return _refused(call, "stale_attempt")
    is_theirs = _holds(call, answer.who, answer.attempt)
    if is_theirs and call.digest == answer.digest:
        return Judged(call, changed=False)
    if is_theirs and call.digest is not None and call.state is State.COMPLETE:
        return _refused(call, "conflict")
    return _refused(call, reason_of(call.state, call.code))


def _hand_back(call: CallState, refused: Reason | None) -> Judged:
    """A question that the attempt left open is asked again by the next one, so the call waits for nothing."""
    return _refused(call, refused) if refused else Judged(_given_back(call, Move.RELEASE, waiting_for=None))


def _restart(call: CallState, restart: Restart, now: float, is_held: bool) -> Judged:
    refused = _unstarted_fence(call, restart.attempt, restart.node, is_held)
    if refused:
        return _refused(call, refused)
    return Judged(
        _to(
            call,
            Move.RESTART,
            attempt=call.attempt + 1,
            losses=_losses(call),
            holder=restart.node,
            started_at=now,
            waiting_for=None,
        )
    )


def _give_up(call: CallState, write: GiveUp, now: float, is_held: bool) -> Judged:
    refused = _unstarted_fence(call, write.attempt, write.node, is_held)
    return _refused(call, refused) if refused else _ended(replace(call, losses=_losses(call)), write.ending, now)


def _losses(call: CallState) -> int:
    """A call that is found PROCESSING with nobody who runs it has lost that attempt. What was handed back lost none."""
    return call.losses + (call.state is State.PROCESSING)


def _cancel(call: CallState, now: float) -> Judged:
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    ending = ended_by(Move.CANCEL, _WHY[Move.CANCEL], _effects_so_far(call))
    return _ended(call, timed(call, ending, now), now)


def _decide(call: CallState, decision: Decision, now: float) -> Judged:
    """Only once: whoever comes later is told what became of it."""
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    if call.state is not State.PENDING or call.waiting_for != decision.waiting_for:
        return _refused(call, "conflict")
    if decision.ending is not None:
        return _ended(call, timed(call, decision.ending, now), now)
    queue_until = None if decision.queue_s is None else now + decision.queue_s
    return Judged(_to(call, Move.RESUME, waiting_for=decision.then, queue_until=queue_until))


def _hold(call: CallState, hold: WaitForAccount, now: float) -> Judged:
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    if call.attempt != hold.attempt or call.waiting_for is not None:
        return _refused(call, "stale_attempt")
    if call.state is State.PROCESSING:  # the attempt was claimed, and nothing of it has begun
        call = _given_back(call, Move.WAIT, attempt=call.attempt - 1, started_at=None)
    if hold.ending is not None:
        effects = "none" if call.attempt == 0 else "unknown"
        return _ended(call, timed(call, replace(hold.ending, effects=effects), now), now)
    return Judged(_to(call, Move.WAIT, waiting_for=hold.waiting_for, queue_until=now + hold.queue_s))


def _resolve(call: CallState, write: Resolve, now: float) -> Judged:
    if (call.state, call.code) != (State.ERROR, CODES[Move.UNKNOWN]):
        return _refused(call, reason_of(call.state, call.code) if call.state in ENDED else "conflict")
    if write.ending is not None:
        return _ended(call, write.ending, now, call.digest)
    again: dict[str, Any] = dict.fromkeys(("code", "finished_at", "effects", "holder", "digest", "queue_until"))
    reopened = _to(call, Move.REOPEN, **again)
    if call.deadline_at is not None and call.deadline_at <= now:  # it has all of its time once more
        reopened.deadline_at = now + (call.deadline_at - call.created_at)
    return Judged(reopened)


def _go_back(call: CallState, write: GoBack, now: float) -> Judged:
    """Whether it ran or waited: it may have been claimed, approved, answered since the copy. Where it goes on, or is
    run again some day, nobody who had one of the attempts since then is taken for the holder."""
    if call.state in ENDED:
        return _refused(call, reason_of(call.state, call.code))
    attempt = max(write.attempt, call.attempt + 1)
    if call.on_lost != "rerun":
        return _ended(replace(call, attempt=attempt), ended_by(Move.UNKNOWN, WENT_BACK, "unknown"), now)
    waits_for = None if call.waiting_for == WaitingFor.ANSWER else call.waiting_for  # it is asked again
    return Judged(_given_back(call, Move.GO_BACK, attempt=attempt, waiting_for=waits_for))


# -- fences: whose word about an attempt counts -----------------------------------------------------------------------


def _fence(call: CallState, who: Claimant, attempt: int | None) -> Reason | None:
    """Why somebody who works on requests does not hold this one. An attempt's number says which attempt is meant, and
    so lets another worker of the same caller speak for it; it makes nobody else the holder, since anybody can count."""
    if attempt is not None and attempt != call.attempt:
        return "stale_attempt"
    if call.state in ENDED:
        return reason_of(call.state, call.code)
    if call.waiting_for is not None:
        return "waiting"
    if call.state is State.PENDING:
        return "stale_attempt"
    return None if _holds(call, who, attempt) else "held"


def _holds(call: CallState, who: Claimant, attempt: int | None) -> bool:
    return call.holder == who.holder if attempt is None else who.has(call.holder)


def runs(call: CallState, attempt: int, node: str) -> bool:
    """Whether this attempt at the call runs on that node now. It may be parked, waiting for an answer."""
    return (call.queue, call.state, call.attempt, call.holder) == ("node", State.PROCESSING, attempt, node)


def _node_fence(call: CallState, attempt: int, node: str) -> Reason | None:
    """Why a node's word about an attempt of its own does not count any more."""
    if runs(call, attempt, node):
        return None
    return reason_of(call.state, call.code) if call.state in ENDED else "stale_attempt"


def is_unstarted(call: CallState, node: str, *, is_held: bool) -> bool:
    """Whether the call is a node's to run and nobody runs it: it was released or handed back, or the node that held it
    is gone. What another node holds that is alive is not; nor what this node holds itself."""
    if call.queue != "node":
        return False
    if call.state is State.PENDING:
        return call.waiting_for is None
    return call.state is State.PROCESSING and call.holder != node and not is_held


def _unstarted_fence(call: CallState, attempt: int, node: str, is_held: bool) -> Reason | None:
    """Why a node may not take this call up, or end it. Of several nodes that found the same call, the first to write
    changes the attempt or the state, and the others come too late."""
    if call.attempt == attempt and is_unstarted(call, node, is_held=is_held):
        return None
    if call.state in ENDED:
        return reason_of(call.state, call.code)
    return "stale_attempt" if call.attempt != attempt else "held" if call.waiting_for is None else "waiting"


# -- steps ------------------------------------------------------------------------------------------------------------


def _to(call: CallState, move: Move, **changes: Any) -> CallState:
    """The call after a move. One that the table does not have from this state is a defect, and a KeyError."""
    return replace(call, state=TRANSITIONS[call.state][move], **changes)


def _given_back(call: CallState, move: Move, **changes: Any) -> CallState:
    return _to(call, move, holder=None, lease_until=None, run_until=None, **changes)


def _ended(call: CallState, ending: Ending, now: float, digest: bytes | None = None) -> Judged:
    ended = _to(
        call, ending_move(call.state, ending), code=ending.code, finished_at=now, waiting_for=None,
        effects=ending.effects, digest=digest, lease_until=None, run_until=None,
    )  # fmt: skip
    return Judged(ended, ending=ending)


def timed(call: CallState, ending: Ending, now: float) -> Ending:
    """With the time since the attempt was claimed, where the ending does not say how long it took. Nodes measure their
    runs themselves."""
    if ending.duration_ms or call.started_at is None:
        return ending
    return replace(ending, duration_ms=max(0.0, round((now - call.started_at) * 1000, 3)))


def _refused(call: CallState, reason: Reason) -> Judged:
    return Judged(call, reason, changed=False)


def _effects_so_far(call: CallState) -> str:
    """Whether the tool may have done something by now."""
    return "none" if call.state is State.PENDING and call.attempt == 0 else "unknown"


def _is_past(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now


WENT_BACK = "The ledger went back to a copy in which the call had not ended; whether it was done is not known"
_MOVES = {code: move for move, code in CODES.items()}
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
