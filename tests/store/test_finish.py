"""A call that this node runs ends, is handed back, or is cancelled."""

import asyncio

import pytest

from toolyard.model.lifecycle import State
from toolyard.model.record import Ending, NewCall
from toolyard.store.contract import Store

from .calls import (
    ADA,
    DONE,
    FAILED,
    KEY,
    RETRY,
    WORKER,
    answer,
    beat,
    call,
    hand_back,
    in_session,
    request,
    there,
    wanted,
    worker_call,
)
from .ledgers import ManualClock, Opening

# --- finish --------------------------------------------------------------------------------------


async def test_an_outcome_is_kept_as_it_was(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call(sealed=b"sealed"))
    await clock.advance(3)
    assert await store.finish(begun.seq, 1, DONE) is None
    row = there((await store.begin(call())).known)
    assert (row.state, row.code, row.value, row.duration_ms) == (State.COMPLETE, "success", b"15", 1.5)
    assert (row.finished_at, row.attempt, row.error) == (clock.now, 1, None)
    assert row.sealed is None, "secrets are not kept longer than they are needed"
    outcome = row.outcome()
    assert (outcome.call_id, bytes(there(outcome.value))) == ("call-1", b"15")


async def test_an_error_is_kept_as_it_was(store: Store) -> None:
    begun = await store.begin(call())
    stopped = Ending(State.ERROR, "timed_out", 9.0, error=b'{"message":"too long"}', effects="unknown")
    assert await store.finish(begun.seq, 1, stopped) is None
    row = there(await store.row(begun.seq))
    assert (row.state, row.code, row.error, row.value) == (State.ERROR, "timed_out", stopped.error, None)
    assert (row.effects, there(row.outcome().error).message) == ("unknown", "too long")


@pytest.mark.parametrize("attempt", [0, 2, 99])
async def test_an_ending_of_another_attempt_changes_nothing(store: Store, attempt: int) -> None:
    begun = await store.begin(call())
    before = await store.row(begun.seq)
    shown = await store.finish(begun.seq, attempt, FAILED)
    assert shown == before == await store.row(begun.seq)


async def test_a_second_ending_changes_nothing_and_shows_the_first(store: Store) -> None:
    begun = await store.begin(call())
    assert await store.finish(begun.seq, 1, DONE) is None
    for ending in (DONE, FAILED, RETRY):
        winner = there(await store.finish(begun.seq, 1, ending))
        assert (winner.state, winner.value, winner.error) == (State.COMPLETE, b"15", None)
    assert await store.find(KEY) is not None, "and the key is not released by who lost"


async def test_of_many_endings_at_the_same_instant_one_wins(store: Store) -> None:
    begun = await store.begin(call())
    endings = [Ending(State.COMPLETE, "success", 1.0, value=str(number).encode()) for number in range(20)]
    shown = await asyncio.gather(*(store.finish(begun.seq, 1, ending) for ending in endings))
    (won,) = [ending.value for ending, other in zip(endings, shown, strict=True) if other is None]
    assert {other.value for other in shown if other is not None} == {won}


async def test_what_nobody_has_begun_cannot_be_ended(store: Store) -> None:
    assert await store.row(12345) is None


async def test_a_node_ends_its_own_calls_only(store: Store, make_store: Opening) -> None:
    begun = await store.begin(call())
    later = await make_store.instead_of(store, "b")
    assert there(await later.finish(begun.seq, 1, DONE)).state is State.PROCESSING


@pytest.mark.parametrize("new", [worker_call(), request()], ids=["a worker's", "a session's"])
async def test_a_node_does_not_end_what_others_work_on(store: Store, new: NewCall) -> None:
    begun = await store.begin(new)
    assert there(await store.finish(begun.seq, 0, DONE)).state is State.PENDING
    await store.claim(wanted(WORKER if new.queue == "worker" else ADA))
    assert there(await store.finish(begun.seq, 1, DONE)).state is State.PROCESSING


# --- hand back -----------------------------------------------------------------------------------


async def test_what_is_handed_back_is_lost_without_a_loss(store: Store) -> None:
    begun = await store.begin(call())
    await store.hand_back(begun.seq, 1)
    (lost,) = await store.unstarted(10)
    assert (lost.seq, lost.state, lost.attempt, lost.holder, lost.losses) == (begun.seq, State.PENDING, 1, None, 0)
    assert there(await store.finish(begun.seq, 1, DONE)).state is State.PENDING
    assert await store.restart(begun.seq, 1) == 2
    assert there(await store.row(begun.seq)).losses == 0
    assert await store.finish(begun.seq, 2, DONE) is None


@pytest.mark.parametrize("attempt", [0, 2])
async def test_another_attempt_hands_nothing_back(store: Store, attempt: int) -> None:
    begun = await store.begin(call())
    await store.hand_back(begun.seq, attempt)
    assert there(await store.row(begun.seq)).state is State.PROCESSING


async def test_what_ended_is_not_handed_back(store: Store) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, DONE)
    await store.hand_back(begun.seq, 1)
    assert there(await store.row(begun.seq)).state is State.COMPLETE


async def test_handed_back_twice_is_handed_back_once(store: Store) -> None:
    begun = await store.begin(call())
    for _ in range(2):
        await store.hand_back(begun.seq, 1)
    assert await store.restart(begun.seq, 1) == 2
    await store.hand_back(begun.seq, 1)
    assert there(await store.row(begun.seq)).state is State.PROCESSING


# --- cancel --------------------------------------------------------------------------------------


async def test_a_running_call_is_cancelled_and_its_node_is_late(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call(sealed=b"sealed"))
    judged = there(await store.cancel(begun.seq))
    assert (judged.reason, judged.changed, judged.standing.state) == (None, True, State.ERROR)
    late = there(await store.finish(begun.seq, 1, DONE))
    assert (late.state, late.code, late.effects) == (State.ERROR, "cancelled", "unknown")
    assert (late.finished_at, late.value, late.sealed) == (clock.now, None, None)
    assert there(late.outcome().error).can_retry is False
    assert there((await store.begin(call())).known).code == "cancelled", "its key stays taken"


async def test_a_call_that_never_began_had_no_effects(store: Store) -> None:
    begun = await store.begin(worker_call())
    await store.cancel(begun.seq)
    assert there(await store.row(begun.seq)).effects == "none"
    assert await store.claim(wanted(WORKER)) == []


async def test_what_others_work_on_is_cancelled_and_they_are_told(store: Store) -> None:
    (begun,) = await in_session(store, request())
    await store.beat([beat()])
    await store.cancel(begun.seq)
    assert there(await store.answer(answer())).reason == "cancelled"
    assert there((await store.beat([beat()]))[0]).reason == "cancelled"
    assert there(await store.leave(hand_back())).reason == "cancelled"


@pytest.mark.parametrize(("ending", "reason"), [(DONE, "completed"), (FAILED, "failed")])
async def test_what_ended_is_not_cancelled(store: Store, ending: Ending, reason: str) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, ending)
    judged = there(await store.cancel(begun.seq))
    assert (judged.reason, judged.changed) == (reason, False)
    assert there(await store.row(begun.seq)).code == ending.code


async def test_cancelled_twice_is_cancelled_once(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call())
    await store.cancel(begun.seq)
    before = await store.row(begun.seq)
    await clock.advance(1)
    assert there(await store.cancel(begun.seq)).reason == "cancelled"
    assert await store.row(begun.seq) == before


async def test_there_is_nothing_to_cancel(store: Store) -> None:
    assert await store.cancel(12345) is None


async def test_what_was_handed_back_and_cancelled_is_not_lost(store: Store) -> None:
    begun = await store.begin(call())
    await store.hand_back(begun.seq, 1)
    await store.cancel(begun.seq)
    assert await store.unstarted(10) == []
    assert await store.restart(begun.seq, 1) is None


# --- how far it is -------------------------------------------------------------------------------


async def test_how_far_an_attempt_is_can_be_seen(store: Store) -> None:
    begun = [await store.begin(call(f"call-{number}")) for number in range(2)]
    await store.note_progress([(each.seq, 1, b'{"done":%d}' % each.seq) for each in begun])
    for each in begun:
        assert there(await store.row(each.seq)).progress == b'{"done":%d}' % each.seq
    await store.note_progress([])


async def test_an_attempt_that_lost_the_call_shows_nothing(store: Store) -> None:
    begun = await store.begin(call())
    await store.hand_back(begun.seq, 1)
    await store.restart(begun.seq, 1)
    await store.note_progress([(begun.seq, 2, b"2"), (begun.seq, 1, b"1"), (12345, 1, b"3")])
    assert there(await store.row(begun.seq)).progress == b"2"
    await store.finish(begun.seq, 2, DONE)
    before = await store.row(begun.seq)
    await store.note_progress([(begun.seq, 2, b"4")])
    assert await store.row(begun.seq) == before
