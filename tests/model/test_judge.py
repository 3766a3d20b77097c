"""Who may say what of a call: claims, the fence in front of every write, answers and their repetition, hand back,
cancel."""

from itertools import product

import msgspec
import pytest
from msgspec.structs import replace

from toolyard.model.judge import reason_of
from toolyard.model.lifecycle import CODES, Move, State, WaitingFor
from toolyard.model.record import Ending
from toolyard.model.writes import DIRECT, CallState, Claimant, GoBack, Reason, Resolve, Write

from .standings import (
    ADA,
    CANCEL,
    DONE,
    FAILED,
    LIMITS,
    NOW,
    SECOND,
    answer,
    beat,
    completed,
    ended,
    hand_back,
    judged,
    pending,
    processing,
    there,
)

# --- claims --------------------------------------------------------------------------------------


def test_the_first_heartbeat_claims() -> None:
    now = judged(pending(run_s=60.0), beat())
    assert (now.reason, now.changed, now.ending) == (None, True, None)
    assert now.standing == pending(
        run_s=60.0,
        state=State.PROCESSING,
        attempt=1,
        holder=ADA.holder,
        lease_until=NOW + LIMITS.lease_s,
        run_until=NOW + 60.0,
        started_at=NOW,
        seen_at=NOW,
    )


def test_each_claim_raises_the_attempt() -> None:
    call = pending()
    for attempt in (1, 2, 3):
        call = judged(call, beat()).standing
        assert (call.state, call.attempt) == (State.PROCESSING, attempt)
        call = judged(call, hand_back()).standing


def test_a_claim_forgets_the_heartbeat_of_the_one_before() -> None:
    call = judged(processing(heartbeat=77.0), hand_back()).standing
    assert judged(call, beat()).standing.heartbeat is None
    assert judged(call, beat(heartbeat=78.0)).standing.heartbeat == 78.0


def test_a_heartbeat_that_names_an_attempt_does_not_claim() -> None:
    for attempt in (0, 1, 2):
        now = judged(pending(attempt=1), beat(attempt=attempt))
        assert (now.reason, now.changed, now.standing) == ("stale_attempt", False, pending(attempt=1))


def test_a_heartbeat_among_many_only_renews() -> None:
    assert judged(pending(), beat(claims=False)).reason == "stale_attempt"
    assert judged(processing(), beat(claims=False)).reason is None


def test_a_heartbeat_of_the_holder_renews_and_keeps_everything_else() -> None:
    call = processing(progress=b"1", heartbeat=5.0, run_s=60.0, run_until=NOW + 10)
    now = judged(call, beat())
    assert (now.reason, now.changed) == (None, True)
    assert now.standing == replace(call, lease_until=NOW + LIMITS.lease_s, seen_at=NOW)


def test_the_callers_clock_is_kept_and_never_judged_by() -> None:
    for theirs in (0.0, 5.0, 1e18, -1.0):
        now = judged(processing(heartbeat=100.0), beat(heartbeat=theirs))
        assert (now.reason, now.standing.heartbeat) == (None, theirs)
        assert now.standing.lease_until == NOW + LIMITS.lease_s


def test_what_a_judgement_says_is_new_and_the_call_itself_is_left_alone() -> None:
    writes: list[Write] = [beat(heartbeat=1.0, progress=b"1"), answer(), hand_back(), CANCEL]
    for write in writes:
        call = processing(lease_until=NOW)
        judged(call, write)
        assert call == processing(lease_until=NOW)


# --- the fence -----------------------------------------------------------------------------------

WRITES = {"beat": beat, "answer": answer, "hand back": hand_back}
fenced = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@fenced
@pytest.mark.parametrize("who", [ADA, SECOND], ids=["the holder", "another worker"])
@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_another_attempt_is_stale_whoever_says_it(write: type, who: Claimant, attempt: int) -> None:
    call = processing(attempt=2)
    now = judged(call, write(who, attempt))
    assert (now.reason, now.changed, now.standing) == ("stale_attempt", False, call)


@fenced
def test_without_an_attempt_only_the_holder_is_heard(write: type) -> None:
    for other in (SECOND, Claimant("default", "bob"), Claimant("default", "bob", worker="second")):
        now = judged(processing(), write(other))
        assert (now.reason, now.changed, now.standing) == ("held", False, processing())
    assert judged(processing(), write(ADA)).reason is None


@fenced
def test_the_right_attempt_is_heard_from_any_worker_of_its_caller(write: type) -> None:
    assert judged(processing(), write(SECOND, 1)).reason is None


@fenced
@pytest.mark.parametrize("attempt", [None, 1])
def test_another_caller_is_not_heard_though_it_can_count(write: type, attempt: int | None) -> None:
    for other in (Claimant("default", "bob"), Claimant("other", "ada"), Claimant("default", 'ada",')):
        now = judged(processing(), write(other, attempt))
        assert (now.reason, now.changed, now.standing) == ("held", False, processing())


def test_holders_are_told_apart_by_subject_and_worker() -> None:
    names = ["", "a", "b", '","', "a,b"]
    holders = {Claimant("default", subject, worker).holder for subject, worker in product(names, names)}
    assert len(holders) == len(names) ** 2


WAITING = [pending(waiting_for="approval"), pending(waiting_for="approval", attempt=1)]


@fenced
@pytest.mark.parametrize("call", WAITING, ids=["from the start", "since its first attempt"])
def test_a_call_that_waits_takes_no_writes(call: CallState, write: type) -> None:
    assert judged(call, write()).reason == "waiting"
    assert judged(call, write(attempt=call.attempt)).reason == "waiting"
    assert judged(call, write(attempt=call.attempt + 1)).reason == "stale_attempt"


ENDS: dict[str, tuple[CallState, Reason]] = {
    "completed": (completed(), "completed"),
    "failed by the tool": (ended("tool_failed"), "failed"),
    "rejected": (ended("rejected"), "failed"),
    "a code of the tool's own": (ended("something"), "failed"),
    "no code at all": (ended(None), "failed"),
    "cancelled": (ended("cancelled"), "cancelled"),
    "abandoned": (ended("abandoned"), "abandoned"),
    "out of time": (ended("timed_out"), "abandoned"),
    "nobody knows": (ended("outcome_unknown"), "abandoned"),
}
finished = pytest.mark.parametrize(("call", "reason"), ENDS.values(), ids=ENDS)


@finished
def test_nothing_is_accepted_after_the_end_and_the_refusal_says_how_it_ended(call: CallState, reason: Reason) -> None:
    assert reason_of(call.state, call.code) == reason
    writes: list[Write] = [beat(), beat(attempt=1), hand_back(), hand_back(attempt=1), CANCEL]
    for write in [*writes, beat(SECOND), answer(SECOND)]:
        now = judged(call, write)
        assert (now.reason, now.changed, now.ending, now.standing) == (reason, False, None, call)


@finished
def test_a_stale_attempt_is_told_so_even_after_the_end_unless_it_was_cancelled(call: CallState, reason: Reason) -> None:
    assert judged(call, answer(attempt=2)).reason == "stale_attempt"
    assert judged(call, hand_back(attempt=2)).reason == "stale_attempt"
    assert judged(call, beat(attempt=2)).reason == ("cancelled" if reason == "cancelled" else "stale_attempt")


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [DONE, FAILED], ids=["a result", "an error"])
@pytest.mark.parametrize("attempt", [None, 1])
def test_an_answer_of_the_holder_ends_the_call(ending: Ending, attempt: int | None) -> None:
    now = judged(processing(run_until=NOW + 5, run_s=9.0), answer(attempt=attempt, ending=ending))
    assert (now.reason, now.changed, now.ending) == (None, True, ending)
    call = now.standing
    assert (call.state, call.code, call.finished_at) == (ending.state, ending.code, NOW)
    assert (call.digest, call.holder, call.attempt) == (b"body", ADA.holder, 1)
    assert (call.lease_until, call.run_until) == (None, None)


def test_an_answer_without_a_heartbeat_before_it_claims_and_ends() -> None:
    now = judged(pending(), answer())
    assert (now.reason, now.ending) == (None, DONE)
    call = now.standing
    assert (call.state, call.attempt, call.holder, call.started_at) == (State.COMPLETE, 1, ADA.holder, NOW)
    assert judged(call, answer()).reason is None, "and can be repeated"


def test_an_answer_that_does_not_say_how_long_it_took_took_since_its_start() -> None:
    quick = replace(DONE, duration_ms=0.0)
    assert there(judged(processing(started_at=NOW - 2.5), answer(ending=quick)).ending).duration_ms == 2500.0
    assert there(judged(processing(started_at=NOW + 5), answer(ending=quick)).ending).duration_ms == 0.0
    assert there(judged(pending(), CANCEL).ending).duration_ms == 0.0
    assert there(judged(processing(), answer()).ending).duration_ms == DONE.duration_ms


@pytest.mark.parametrize("attempt", [0, 1])
def test_an_answer_that_names_an_attempt_does_not_claim(attempt: int) -> None:
    assert judged(pending(), answer(attempt=attempt)).reason == "stale_attempt"


@pytest.mark.parametrize("ending", [DONE, FAILED], ids=["a result", "an error"])
@pytest.mark.parametrize("attempt", [None, 1])
def test_the_same_answer_again_is_accepted_and_nothing_is_written(ending: Ending, attempt: int | None) -> None:
    call = judged(processing(), answer(ending=ending)).standing
    now = judged(call, answer(attempt=attempt, ending=replace(ending, duration_ms=99.0)), at=NOW + 100)
    assert (now.reason, now.changed, now.ending, now.standing) == (None, False, None, call)


AGAIN: dict[str, tuple[CallState, Write, Reason]] = {
    "another body from the holder": (completed(), answer(digest=b"other"), "conflict"),
    "another body from the attempt": (completed(), answer(SECOND, 1, digest=b"other"), "conflict"),
    "the same body from somebody else": (completed(), answer(SECOND), "completed"),
    "another body from somebody else": (completed(), answer(SECOND, digest=b"other"), "completed"),
    "the same body from an attempt before": (completed(attempt=2), answer(attempt=1), "stale_attempt"),
    "another body from an attempt before": (completed(attempt=2), answer(attempt=1, digest=b"other"), "stale_attempt"),
    "another body after an error": (ended("tool_failed", digest=b"body"), answer(digest=b"other"), "failed"),
    "an answer after it was cancelled": (ended("cancelled"), answer(), "cancelled"),
    "an answer after its time was over": (ended("timed_out"), answer(attempt=1), "abandoned"),
    "an answer to what was completed without one": (completed(digest=None), answer(), "completed"),
}


@pytest.mark.parametrize(("call", "write", "reason"), AGAIN.values(), ids=AGAIN)
def test_a_second_answer_is_refused(call: CallState, write: Write, reason: Reason) -> None:
    now = judged(call, write)
    assert (now.reason, now.changed, now.standing) == (reason, False, call)


# --- hand back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [None, 1])
def test_what_is_handed_back_is_anybodys_and_does_not_count_as_lost(attempt: int | None) -> None:
    now = judged(processing(run_until=NOW + 5), hand_back(attempt=attempt))
    assert (now.reason, now.ending, now.changed) == (None, None, True)
    call = now.standing
    assert (call.state, call.attempt, call.losses) == (State.PENDING, 1, 0)
    assert (call.holder, call.lease_until, call.run_until) == (None, None, None)
    assert judged(call, beat(SECOND)).standing.attempt == 2


def test_what_is_handed_back_again_and_again_is_never_given_up() -> None:
    call = pending()
    for _ in range(LIMITS.max_attempts * 2):
        call = judged(judged(call, beat()).standing, hand_back()).standing
    assert (call.state, call.losses) == (State.PENDING, 0)


def test_whoever_handed_it_back_is_late_from_then_on() -> None:
    call = judged(processing(), hand_back()).standing
    for write in (beat(attempt=1), answer(attempt=1), hand_back(attempt=1), hand_back()):
        assert judged(call, write).reason == "stale_attempt"


# --- cancel --------------------------------------------------------------------------------------

STOPPED = {
    "nobody had it": (pending(), "none"),
    "it waited for somebody": (pending(waiting_for="approval"), "none"),
    "somebody works on it": (processing(), "unknown"),
    "somebody had it and gave it back": (pending(attempt=1), "unknown"),
    "a node runs it": (processing(queue="node", holder="node"), "unknown"),
}


@pytest.mark.parametrize(("call", "effects"), STOPPED.values(), ids=STOPPED)
def test_a_cancelled_call_says_whether_it_may_have_done_something(call: CallState, effects: str) -> None:
    now = judged(call, CANCEL)
    assert (now.reason, now.changed) == (None, True)
    ending = there(now.ending)
    assert (ending.state, ending.code, ending.effects) == (State.ERROR, CODES[Move.CANCEL], effects)
    assert msgspec.json.decode(ending.error or b"")["can_retry"] is False
    assert not ending.releases_key
    stopped = now.standing
    assert (stopped.state, stopped.code, stopped.effects) == (State.ERROR, "cancelled", effects)
    assert (stopped.waiting_for, stopped.lease_until, stopped.finished_at) == (None, None, NOW)


def test_heartbeats_of_a_cancelled_call_are_told_so_from_any_attempt_and_anybody() -> None:
    call = judged(processing(attempt=2), CANCEL).standing
    for write in (beat(), beat(attempt=2), beat(attempt=1), beat(SECOND), beat(claims=False)):
        assert judged(call, write).reason == "cancelled"


# --- who may touch what --------------------------------------------------------------------------

OFFER = "Kit.Tool@1.0.0 ada first"
SERVES = Claimant("default", "bob", serves=frozenset({OFFER}))
SERVES_ANOTHER = Claimant("default", "bob", serves=frozenset({"Kit.Tool@2.0.0 ada first"}))
HEIR = Claimant("default", "eve", serves=frozenset({"Kit.Tool@1.0.0 eve first"}))
SERVES_ANEW = Claimant("default", "bob", serves=frozenset({"Kit.Tool@1.0.0 ada second"}))
SERVES_NO_MORE = Claimant("default", "bob")
OWNER_SERVES = Claimant("default", "ada", serves=frozenset({OFFER}))
BOB, STRANGER = Claimant("default", "bob"), Claimant("other", "ada")
THEIRS = pending(queue="worker", session=DIRECT)
"""A call of a worker's tool that came in outside a session."""
HELD = processing(queue="worker", session=DIRECT, holder=SERVES.holder)

TOUCH: dict[str, tuple[CallState, Claimant, bool, bool]] = {
    "a session's request, its owner": (pending(), ADA, True, True),
    "a session's request, a worker of its owner": (pending(), SECOND, True, True),
    "a session's request, another subject": (pending(), BOB, False, False),
    "a session's request, another tenant": (pending(), STRANGER, False, False),
    "a session's request, who serves such a tool": (pending(), SERVES, False, False),
    "a worker's tool, who serves it": (THEIRS, SERVES, True, True),
    "a worker's tool, who serves another version": (THEIRS, SERVES_ANOTHER, False, False),
    "a worker's tool, who took its name": (THEIRS, HEIR, False, False),
    "a worker's tool, who offers it anew": (THEIRS, SERVES_ANEW, False, False),
    "a worker's tool, of before offers were kept": (replace(THEIRS, offer=None), SERVES, False, False),
    "a running call, who took the tool's name": (HELD, HEIR, False, False),
    "a running call, its holder who offers the tool anew": (HELD, SERVES_ANEW, True, True),
    "a running call, its holder who does not offer the tool": (HELD, SERVES_NO_MORE, False, False),
    "a running call, its holder, of before offers were kept": (replace(HELD, offer=None), SERVES, True, True),
    "a worker's tool, who called it": (THEIRS, ADA, False, False),
    "a worker's tool in a session, its owner": (pending(queue="worker"), ADA, False, True),
    "a worker's tool in a session, who serves it": (pending(queue="worker"), SERVES, True, True),
    "a worker's tool in a session, another subject": (pending(queue="worker"), BOB, False, False),
    "a node's call in a session, its owner": (processing(queue="node"), ADA, False, True),
    "a node's call in a session, who serves such a tool": (processing(queue="node"), SERVES, False, False),
    "a node's call in a session, its owner who serves such a tool": (
        processing(queue="node"), OWNER_SERVES, False, True,
    ),
    "a node's call in a session, another tenant": (processing(queue="node"), STRANGER, False, False),
}  # fmt: skip


@pytest.mark.parametrize(("call", "who", "touches", "sees"), TOUCH.values(), ids=TOUCH)
def test_who_may_touch_a_request_and_who_may_look_at_it(
    call: CallState, who: Claimant, touches: bool, sees: bool
) -> None:
    assert (who.may_touch(call), who.may_see(call)) == (touches, sees)


def test_an_answer_of_nobody_knows_which_attempt_does_not_end_what_a_worker_had() -> None:
    """It may be that worker's, whose lease ran out. Who claims it first has an attempt to speak of."""
    for call in (
        judged(worker_has(), beat(attempt=1), NOW + 40).standing,
        judged(worker_has(), hand_back()).standing,
        judged(ended("outcome_unknown", queue="worker"), Resolve(1, None)).standing,
    ):
        assert (call.state, call.attempt) == (State.PENDING, 1)
        assert judged(call, answer()).reason == "stale_attempt"
        mine = judged(call, beat()).standing
        assert judged(mine, answer()).standing.state is State.COMPLETE
    assert judged(pending(queue="worker"), answer()).standing.state is State.COMPLETE, "nobody had it"


def test_the_owner_of_a_session_may_answer_what_it_took_too_long_for() -> None:
    lost = judged(processing(), beat(attempt=1), NOW + 40).standing
    assert (lost.state, judged(lost, answer()).standing.state) == (State.PENDING, State.COMPLETE)


def worker_has() -> CallState:
    return processing(queue="worker")


# --- a ledger that went back to a copy -----------------------------------------------------------


@pytest.mark.parametrize("waits_for", [None, WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION])
def test_what_waited_in_a_copy_may_have_been_done_since(waits_for: WaitingFor | None) -> None:
    """Also where its time is over: nobody can say that nothing was done in it."""
    call = pending(on_lost="unknown", waiting_for=waits_for, queue_until=NOW - 1, deadline_at=NOW - 1)
    now = judged(call, GoBack(1, 700))
    assert now.ending is not None
    assert (now.ending.code, now.ending.effects, now.ending.releases_key) == ("outcome_unknown", "unknown", False)
    assert (now.standing.state, now.standing.attempt, now.standing.waiting_for) == (State.ERROR, 700, None)
    again = judged(now.standing, Resolve(1, None)).standing
    assert judged(judged(again, beat()).standing, answer(attempt=1)).reason == "stale_attempt"


@pytest.mark.parametrize("call", [pending(), processing(), pending(waiting_for=WaitingFor.APPROVAL)])
def test_what_may_run_again_goes_on_with_attempts_that_nobody_has_had(call: CallState) -> None:
    now = judged(call, GoBack(1, 700)).standing
    assert (now.state, now.attempt, now.holder, now.waiting_for) == (State.PENDING, 700, None, call.waiting_for)
    for attempt in (1, 2):
        assert judged(now, answer(attempt=attempt)).reason == "stale_attempt"


def test_what_asked_its_client_in_a_copy_asks_again() -> None:
    call = processing(queue="node", holder="a", waiting_for=WaitingFor.ANSWER)
    assert judged(call, GoBack(1, 0)).standing.waiting_for is None
    assert judged(call, GoBack(1, 0)).standing.attempt == call.attempt + 1


def test_what_had_ended_in_a_copy_stays_as_it_is() -> None:
    for call in (completed(), ended("tool_failed"), ended("outcome_unknown")):
        assert judged(call, GoBack(1, 700)).standing == call
