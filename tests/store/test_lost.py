"""Calls that nobody runs any more are started again or ended, once; what nobody knows is settled by a person."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.store.contract import Store

from .calls import (
    ADA,
    DONE,
    FAILED,
    KEY,
    LARGE,
    UNKNOWN,
    WORKER,
    answer,
    beat,
    call,
    in_session,
    name,
    request,
    there,
    wanted,
    worker_call,
)
from .ledgers import ManualClock, Opening

GIVEN_UP = Ending(State.ERROR, "abandoned", 0.0, error=b'{"message":"too often"}', effects="unknown")


async def test_calls_of_a_node_that_is_gone_are_lost_and_can_be_started_again_once(
    store: Store, make_store: Opening, clock: ManualClock
) -> None:
    begun = await store.begin(call())
    assert await store.unstarted(10) == []
    later = await make_store.instead_of(store, "b")
    (lost,) = await later.unstarted(10)
    assert (lost.seq, lost.on_lost, lost.attempt, lost.state) == (begun.seq, "rerun", 1, State.PROCESSING)
    await clock.advance(1)
    assert await later.restart(lost.seq, 1) == 2
    row = there(await later.row(lost.seq))
    assert (row.attempt, row.losses, row.holder, row.started_at) == (2, 1, "b", clock.now)
    assert await later.restart(lost.seq, 1) is None
    assert await later.restart(lost.seq, 2) is None, "this node runs it"
    assert there(await later.finish(lost.seq, 1, DONE)).state is State.PROCESSING
    assert await later.finish(lost.seq, 2, DONE) is None
    assert await later.unstarted(10) == []


@pytest.mark.parametrize("attempt", [0, 2])
async def test_only_the_attempt_that_was_lost_is_started_again(store: Store, attempt: int) -> None:
    begun = await store.begin(call())
    await store.hand_back(begun.seq, 1)
    assert await store.restart(begun.seq, attempt) is None
    assert there(await store.row(begun.seq)).state is State.PENDING


async def test_every_start_after_a_loss_counts_it(store: Store, make_store: Opening) -> None:
    begun = await store.begin(call())
    for number, node in enumerate("bcd", start=1):
        store = await make_store.instead_of(store, node)
        assert await store.restart(begun.seq, number) == number + 1
        assert there(await store.row(begun.seq)).losses == number


async def test_of_many_that_start_it_again_at_the_same_instant_one_does(store: Store, make_store: Opening) -> None:
    begun = await store.begin(call())
    later = await make_store.instead_of(store, "b")
    started = await asyncio.gather(*(later.restart(begun.seq, 1) for _ in range(20)))
    assert sorted(each for each in started if each) == [2]


async def test_lost_calls_come_oldest_first_and_not_too_many(store: Store) -> None:
    begun = [await store.begin(call(f"call-{number}")) for number in range(4)]
    for each in reversed(begun):
        await store.hand_back(each.seq, 1)
    assert [each.seq for each in await store.unstarted(3)] == [each.seq for each in begun[:3]]
    assert len(await store.unstarted(10)) == 4


async def test_only_calls_of_nodes_are_lost(store: Store, make_store: Opening) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    waits = await store.begin(worker_call())
    done = await store.begin(call("done"))
    await store.finish(done.seq, 1, DONE)
    later = await make_store.instead_of(store, "b")
    assert await later.unstarted(10) == []
    assert await later.restart(waits.seq, 0) is None
    assert not await later.give_up(waits.seq, 0, GIVEN_UP)
    assert there(await later.request(ADA, "s", "r")).state is State.PROCESSING


async def test_what_this_node_runs_is_not_lost(store: Store) -> None:
    begun = await store.begin(call())
    assert await store.restart(begun.seq, 1) is None
    assert not await store.give_up(begun.seq, 1, GIVEN_UP)
    assert there(await store.row(begun.seq)).state is State.PROCESSING


# --- given up ------------------------------------------------------------------------------------


async def test_a_lost_call_is_given_up_once(store: Store, make_store: Opening, clock: ManualClock) -> None:
    begun = await store.begin(call(sealed=b"sealed"))
    later = await make_store.instead_of(store, "b")
    assert await later.give_up(begun.seq, 1, GIVEN_UP)
    row = there(await later.row(begun.seq))
    assert (row.state, row.code, row.error, row.effects) == (State.ERROR, "abandoned", GIVEN_UP.error, "unknown")
    assert (row.finished_at, row.losses, row.sealed) == (clock.now, 1, None)
    assert not await later.give_up(begun.seq, 1, replace(GIVEN_UP, code="outcome_unknown"))
    assert await later.row(begun.seq) == row
    assert await later.restart(begun.seq, 1) is None
    assert await later.unstarted(10) == []


async def test_what_was_handed_back_is_given_up_without_a_loss(store: Store) -> None:
    begun = await store.begin(call())
    await store.hand_back(begun.seq, 1)
    assert not await store.give_up(begun.seq, 2, GIVEN_UP)
    assert await store.give_up(begun.seq, 1, GIVEN_UP)
    assert there(await store.row(begun.seq)).losses == 0


async def test_who_starts_it_again_and_who_gives_it_up_do_not_both_win(store: Store, make_store: Opening) -> None:
    begun = [await store.begin(call(f"call-{number}")) for number in range(10)]
    later = await make_store.instead_of(store, "b")
    for each in begun:
        started, ended = await asyncio.gather(later.restart(each.seq, 1), later.give_up(each.seq, 1, GIVEN_UP))
        assert (started == 2) is not ended
        state = there(await later.row(each.seq)).state
        assert state is (State.PROCESSING if started else State.ERROR)


# --- what nobody knows ---------------------------------------------------------------------------

Prepare = Callable[[Store], Awaitable[int]]


async def unknown(store: Store) -> int:
    begun = await store.begin(call(total_s=50.0))
    assert await store.finish(begun.seq, 1, UNKNOWN) is None
    return begun.seq


@pytest.mark.parametrize("ending", [DONE, FAILED, Ending(State.COMPLETE, "success", 1.0, value=LARGE)])
async def test_a_person_says_how_it_ended(store: Store, clock: ManualClock, ending: Ending) -> None:
    seq = await unknown(store)
    await clock.advance(5)
    row = there(await store.resolve(seq, ending))
    assert (row.seq, row.state, row.code) == (seq, ending.state, ending.code)
    assert (row.value, row.error, row.finished_at, row.effects) == (ending.value, ending.error, clock.now, None)
    assert row == await store.row(seq)
    assert (await store.begin(call())).known == await store.glance(seq)
    assert await store.resolve(seq, DONE) is None, "and it is settled"


async def test_a_person_lets_it_run_once_more(store: Store) -> None:
    seq = await unknown(store)
    row = there(await store.resolve(seq, None))
    assert (row.state, row.code, row.attempt, row.finished_at) == (State.PENDING, None, 1, None)
    assert (row.value, row.error, row.effects) == (None, None, None)
    assert row == await store.row(seq)
    assert await store.resolve(seq, None) is None
    (lost,) = await store.unstarted(10)
    assert lost.seq == seq
    assert await store.restart(seq, 1) == 2
    assert await store.finish(seq, 2, DONE) is None


async def test_what_may_run_once_more_has_the_time_for_it(store: Store, clock: ManualClock) -> None:
    seq = await unknown(store)
    await clock.advance(90)
    assert there(await store.resolve(seq, None)).state is State.PENDING
    await store.expire(10)
    assert there(await store.row(seq)).state is State.PENDING


async def test_what_may_run_once_more_waits_for_a_worker_again(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(on_lost="unknown", queue_s=20.0, total_s=60.0))
    await store.claim(wanted(WORKER))
    await clock.advance(30)
    await store.expire(10)
    assert there(await store.row(begun.seq)).code == "outcome_unknown"
    await clock.advance(40)
    assert there(await store.resolve(begun.seq, None)).state is State.PENDING
    assert [each.attempt for each in await store.claim(wanted(WORKER))] == [2]
    done = there(await store.answer(answer(WORKER, 2, request=await name(store, begun), session="direct")))
    assert (done.reason, done.state) == (None, State.COMPLETE)


@pytest.mark.parametrize("ending", [None, DONE], ids=["run again", "ended"])
async def test_only_what_nobody_knows_is_settled_so(store: Store, ending: Ending | None) -> None:
    runs = await store.begin(call("runs"))
    failed = await store.begin(call("failed"))
    await store.finish(failed.seq, 1, FAILED)
    done = await store.begin(call("done"))
    await store.finish(done.seq, 1, Ending(State.COMPLETE, "outcome_unknown", 1.0, value=b"1"))
    waits = await store.begin(worker_call("waits"))
    for begun in (runs, failed, done, waits):
        before = await store.row(begun.seq)
        assert await store.resolve(begun.seq, ending) is None
        assert await store.row(begun.seq) == before
    assert await store.resolve(12345, ending) is None


async def test_what_is_settled_keeps_its_key(store: Store) -> None:
    seq = await unknown(store)
    await store.resolve(seq, None)
    assert there(there(await store.find(KEY)).known).seq == seq


async def test_a_session_is_open_again_while_one_of_its_requests_is_run_once_more(
    store: Store, clock: ManualClock
) -> None:
    (begun,) = await in_session(store, request(on_lost="unknown"))
    await store.beat([beat()])
    await clock.advance(30)
    await store.expire(10)
    assert there(await store.session("default", "ada", "s")).status == "ready"
    await store.resolve(begun.seq, None)
    assert there(await store.session("default", "ada", "s")).status == "awaiting_tools"
    assert there((await store.beat([beat()]))[0]).attempt == 2
    await store.answer(answer())
    assert there(await store.session("default", "ada", "s")).status == "ready"
