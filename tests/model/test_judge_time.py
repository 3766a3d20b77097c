"""What time does to a call: leases, losses, and the three deadlines."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from toolyard.model.judge import after_loss, ended_by, overdue, settle
from toolyard.model.lifecycle import CODES, Move, State
from toolyard.model.writes import CallState, LeaseTerms, Write

from .standings import (
    ADA,
    CANCEL,
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

EPSILON = 1e-6

# --- what is overdue -----------------------------------------------------------------------------

MOMENTS: dict[str, tuple[CallState, Move]] = {
    "the lease": (processing(lease_until=NOW), Move.LOSE),
    "the lease of what must not run twice": (processing(lease_until=NOW, on_lost="unknown"), Move.UNKNOWN),
    "the lease, for the last time": (processing(lease_until=NOW, losses=2), Move.ABANDON),
    "the run": (processing(run_until=NOW), Move.EXPIRE),
    "the queue": (pending(queue_until=NOW), Move.EXPIRE),
    "the queue, of one that waits": (pending(queue_until=NOW, waiting_for="approval"), Move.EXPIRE),
    "all of it, while it waits": (pending(deadline_at=NOW), Move.EXPIRE),
    "all of it, while it runs": (processing(deadline_at=NOW), Move.EXPIRE),
    "all of it, while a node runs it": (processing(queue="node", deadline_at=NOW), Move.EXPIRE),
    "the run before the lease": (processing(run_until=NOW, lease_until=NOW), Move.EXPIRE),
    "all of it before the lease": (processing(deadline_at=NOW, lease_until=NOW), Move.EXPIRE),
}
moments = pytest.mark.parametrize(("call", "move"), MOMENTS.values(), ids=MOMENTS)


@moments
def test_a_moment_is_over_when_it_has_come_and_not_before(call: CallState, move: Move) -> None:
    assert overdue(call, NOW - EPSILON, LIMITS) is None
    assert settle(call, NOW - EPSILON, LIMITS) is None
    assert overdue(call, NOW, LIMITS) is move
    assert overdue(call, NOW + EPSILON, LIMITS) is move


@moments
def test_what_is_overdue_ends_as_the_table_says_or_is_anybodys_again(call: CallState, move: Move) -> None:
    settled = there(settle(call, NOW, LIMITS))
    assert settled.reason is None
    assert settled.changed
    after = settled.standing
    assert (after.holder if move is Move.LOSE else None, after.lease_until, after.run_until) == (None, None, None)
    if move is Move.LOSE:
        assert (after.state, after.attempt, settled.ending) == (State.PENDING, call.attempt, None)
        return
    assert (after.state, after.code, after.finished_at, after.digest) == (State.ERROR, CODES[move], NOW, None)
    assert (there(settled.ending).state, there(settled.ending).code) == (State.ERROR, CODES[move])
    assert msgspec.json.decode(there(settled.ending).error or b"")["can_retry"] is False


NEVER = {
    "without deadlines, it waits": pending(),
    "its queue time says nothing while it runs": processing(queue_until=NOW - 5),
    "its lease says nothing while it waits": pending(lease_until=NOW - 5, run_until=NOW - 5),
    "a node's lease is the store's matter": processing(queue="node", lease_until=NOW - 5, run_until=NOW - 5),
    "completed": completed(deadline_at=NOW - 5, lease_until=NOW - 5),
    "ended": ended("tool_failed", deadline_at=NOW - 5, run_until=NOW - 5, queue_until=NOW - 5),
}


@pytest.mark.parametrize("call", NEVER.values(), ids=NEVER)
def test_time_does_nothing_to_it(call: CallState) -> None:
    assert overdue(call, NOW, LIMITS) is None
    assert settle(call, NOW, LIMITS) is None


@pytest.mark.parametrize(
    ("call", "effects"),
    [
        (pending(queue_until=NOW), "none"),
        (pending(deadline_at=NOW), "none"),
        (pending(deadline_at=NOW, attempt=1), "unknown"),
        (processing(deadline_at=NOW), "unknown"),
        (processing(run_until=NOW), "unknown"),
        (processing(lease_until=NOW, on_lost="unknown"), "unknown"),
        (processing(lease_until=NOW, losses=2), "unknown"),
    ],
)
def test_what_ran_out_of_time_says_whether_it_may_have_done_something(call: CallState, effects: str) -> None:
    settled = there(settle(call, NOW, LIMITS))
    assert (there(settled.ending).effects, settled.standing.effects) == (effects, effects)


# --- losses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_after_so_many_stale_claims_it_is_given_up(most: int) -> None:
    limits = LeaseTerms(lease_s=30.0, max_attempts=most)
    call, now = pending(), NOW
    for lost in range(1, most + 1):
        call = judged(call, beat(), now, limits).standing
        now += limits.lease_s
        call = there(settle(call, now, limits)).standing
        assert (call.losses, call.attempt) == (lost, lost)
        assert call.state is (State.PENDING if lost < most else State.ERROR)
    assert call.code == "abandoned"


def test_only_losses_count_not_attempts() -> None:
    assert after_loss(processing(attempt=50, losses=0), LIMITS) is Move.LOSE
    assert after_loss(processing(attempt=50, losses=1), LIMITS) is Move.LOSE
    assert after_loss(processing(attempt=3, losses=2), LIMITS) is Move.ABANDON


@pytest.mark.parametrize("losses", [0, 1, 2, 3])
def test_what_must_not_run_twice_is_unknown_after_its_first_loss(losses: int) -> None:
    assert after_loss(processing(on_lost="unknown", losses=losses), LIMITS) is Move.UNKNOWN


@pytest.mark.parametrize("move", [Move.EXPIRE, Move.CANCEL])
def test_running_out_of_time_or_being_cancelled_is_not_a_loss(move: Move) -> None:
    call = judged(processing(deadline_at=NOW if move is Move.EXPIRE else None), CANCEL).standing
    assert (call.code, call.losses) == (CODES[move], 0)


# --- what is overdue is settled before anything else is judged -----------------------------------


@pytest.mark.parametrize("write", [beat(attempt=1), answer(attempt=1), hand_back(attempt=1), hand_back()])
def test_who_comes_after_the_lease_is_late_though_nobody_noticed(write: Write) -> None:
    on_time = judged(processing(lease_until=NOW + EPSILON), write)
    assert on_time.reason is None
    late = judged(processing(lease_until=NOW), write)
    assert (late.reason, late.changed, late.ending) == ("stale_attempt", True, None)
    assert (late.standing.state, late.standing.losses, late.standing.holder) == (State.PENDING, 1, None)


@pytest.mark.parametrize("who", [ADA, SECOND], ids=["the same", "another"])
def test_after_the_lease_anybody_claims_and_it_counts_as_lost(who: Any) -> None:
    now = judged(processing(lease_until=NOW), beat(who))
    assert now.reason is None
    assert (now.standing.attempt, now.standing.losses, now.standing.holder) == (2, 1, who.holder)


def test_after_the_lease_an_answer_without_an_attempt_is_one_of_the_next_attempt() -> None:
    now = judged(processing(lease_until=NOW), answer())
    assert (now.reason, now.standing.state, now.standing.attempt) == (None, State.COMPLETE, 2)


LATE = {
    "abandoned": processing(lease_until=NOW, losses=2),
    "not known": processing(lease_until=NOW, on_lost="unknown"),
    "out of time": processing(deadline_at=NOW),
    "ran too long": processing(run_until=NOW),
}


@pytest.mark.parametrize("call", LATE.values(), ids=LATE)
@pytest.mark.parametrize("write", [beat(), beat(attempt=1), answer(), answer(attempt=1), hand_back(), CANCEL])
def test_a_write_that_finds_the_call_over_is_refused_and_the_end_is_written(call: CallState, write: Write) -> None:
    settled = there(settle(call, NOW, LIMITS))
    now = judged(call, write)
    assert (now.reason, now.changed) == ("abandoned", True)
    assert (now.ending, now.standing) == (settled.ending, settled.standing)


def test_cancelling_what_was_lost_ends_it_as_cancelled() -> None:
    now = judged(processing(lease_until=NOW), CANCEL)
    assert (now.reason, now.standing.code, now.standing.losses) == (None, "cancelled", 1)
    assert now.standing.effects == "unknown"


# --- what extends what ---------------------------------------------------------------------------


def held(**changes: Any) -> CallState:
    """Claimed just now, with every deadline there is."""
    return processing(
        **{"run_s": 60.0, "run_until": NOW + 60, "lease_until": NOW + 30, "deadline_at": NOW + 300} | changes
    )


def test_a_heartbeat_extends_the_lease_alone() -> None:
    now = judged(held(), beat(), NOW + 29).standing
    assert (now.lease_until, now.run_until, now.deadline_at) == (NOW + 59, NOW + 60, NOW + 300)


def test_progress_extends_the_lease_and_the_run() -> None:
    now = judged(held(), beat(progress=b'{"done":1}'), NOW + 29).standing
    assert (now.lease_until, now.run_until, now.deadline_at) == (NOW + 59, NOW + 89, NOW + 300)
    assert now.progress == b'{"done":1}'


def test_progress_of_a_call_without_a_limit_on_its_run_sets_none() -> None:
    assert judged(processing(), beat(progress=b"1")).standing.run_until is None


@pytest.mark.parametrize(("progress", "until"), [(None, NOW + 60), (b"1", NOW + 300)], ids=["heartbeats", "progress"])
def test_heartbeats_last_as_long_as_the_run_and_progress_as_long_as_the_whole(
    progress: bytes | None, until: float
) -> None:
    call, now = held(), NOW
    while call.state is State.PROCESSING:
        now += 5
        call = judged(call, beat(attempt=1, progress=progress), now).standing
    assert (call.code, now) == ("timed_out", until)


def test_handing_back_and_claiming_do_not_extend_the_whole() -> None:
    call = judged(held(lease_until=NOW + 400, run_until=NOW + 400), hand_back(), NOW + 200).standing
    call = judged(call, beat(), NOW + 299).standing
    assert (call.state, call.attempt, call.deadline_at) == (State.PROCESSING, 2, NOW + 300)
    assert judged(call, beat(attempt=2), NOW + 300).standing.code == "timed_out"


def test_each_attempt_has_the_whole_time_to_run() -> None:
    call = judged(held(), hand_back(), NOW + 10).standing
    assert judged(call, beat(), NOW + 20).standing.run_until == NOW + 80


def test_an_ending_nobody_gave_says_why_and_that_trying_again_does_not_help() -> None:
    ending = ended_by(Move.ABANDON, "why", "unknown")
    assert (ending.state, ending.code, ending.effects) == (State.ERROR, "abandoned", "unknown")
    assert msgspec.json.decode(ending.error or b"") == {"message": "why", "can_retry": False}


def test_a_call_given_up_says_how_often_it_was_started() -> None:
    settled = there(settle(processing(lease_until=NOW, losses=2), NOW, LIMITS))
    assert b"3 times" in (there(settled.ending).error or b"")


def test_what_was_claimed_in_its_queue_time_may_be_given_back_after_it() -> None:
    late = processing(queue_until=NOW - 1)
    for given_back in (judged(late, hand_back()), there(settle(replace(late, lease_until=NOW), NOW, LIMITS))):
        assert given_back.standing.state is State.PENDING
        assert settle(given_back.standing, NOW, LIMITS) is None
