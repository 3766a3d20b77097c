"""Every call ends: what is overdue is settled when somebody looks, and when nobody does."""

import pytest

from toolyard.model.lifecycle import State
from toolyard.model.record import NewCall
from toolyard.store.contract import Store

from .calls import ADA, DONE, SECOND, WORKER, answer, beat, call, in_session, request, there, wanted, worker_call
from .ledgers import TERMS, ManualClock

LEASE_S = TERMS.lease_s


async def test_nothing_is_overdue_before_its_time(store: Store, clock: ManualClock) -> None:
    await in_session(store, request(queue_s=10.0, total_s=50.0))
    await clock.advance(9.999)
    assert await store.expire(10) == 0
    await store.beat([beat()])
    await clock.advance(LEASE_S - 0.001)
    assert await store.expire(10) == 0
    assert there(await store.request(ADA, "s", "r")).state is State.PROCESSING


@pytest.mark.parametrize("new", [request(queue_s=10.0), request(total_s=10.0)], ids=["queue", "total"])
async def test_what_nobody_claims_in_time_ends(store: Store, clock: ManualClock, new: NewCall) -> None:
    await in_session(store, new)
    await clock.advance(10)
    assert await store.expire(10) == 1
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.code, row.effects, row.finished_at) == (State.ERROR, "timed_out", "none", clock.now)
    assert there(row.outcome().error).can_retry is False
    assert await store.expire(10) == 0


async def test_a_queue_time_says_nothing_of_what_was_claimed_in_it(store: Store, clock: ManualClock) -> None:
    await in_session(store, request(queue_s=10.0))
    await store.beat([beat()])
    await clock.advance(11)
    assert await store.expire(10) == 0


async def test_a_call_of_a_node_ends_with_its_total_time(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call(total_s=10.0, queue_s=1.0, run_s=1.0))
    await clock.advance(9.999)
    assert await store.expire(10) == 0
    await clock.advance(0.001)
    assert await store.expire(10) == 1
    late = there(await store.finish(begun.seq, 1, DONE))
    assert (late.state, late.code, late.effects) == (State.ERROR, "timed_out", "unknown")


async def test_a_call_of_a_node_has_no_lease_but_its_nodes(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call())
    await clock.advance(LEASE_S * 100)
    await store.expire(10)
    assert there(await store.row(begun.seq)).state is State.PROCESSING


async def test_a_lease_that_ran_out_is_a_loss(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await clock.advance(LEASE_S)
    assert await store.expire(10) == 1
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.attempt, row.losses, row.holder) == (State.PENDING, 1, 1, None)
    assert row.lease_until is None
    assert [each.attempt for each in await store.claim(wanted(SECOND))] == [2]


async def test_after_so_many_losses_it_is_abandoned(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    for lost in range(1, TERMS.max_attempts + 1):
        assert there((await store.beat([beat()]))[0]).reason is None
        await clock.advance(LEASE_S)
        assert await store.expire(10) == 1
        row = there(await store.request(ADA, "s", "r"))
        assert (row.attempt, row.losses) == (lost, lost)
    assert (row.state, row.code) == (State.ERROR, "abandoned")
    assert there(await store.answer(answer())).reason == "abandoned"


async def test_what_must_not_run_twice_is_unknown_after_one_loss(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(on_lost="unknown"))
    await store.claim(wanted(WORKER))
    await clock.advance(LEASE_S)
    await store.expire(10)
    row = there(await store.row(begun.seq))
    assert (row.state, row.code, row.effects) == (State.ERROR, "outcome_unknown", "unknown")


async def test_heartbeats_keep_the_lease_and_progress_the_run_and_nothing_the_whole(
    store: Store, clock: ManualClock
) -> None:
    await in_session(store, request("beats", run_s=60.0, total_s=300.0), request("moves", run_s=60.0, total_s=300.0))
    claims = await store.claim(wanted())
    ended: dict[str, float] = {}
    began = clock.now
    while len(ended) < 2:
        await store.beat([beat(request="beats", attempt=1), beat(request="moves", attempt=1, progress=b"1")])
        await clock.advance(10)
        await store.expire(10)
        for claim in claims:
            row = there(await store.row(claim.seq))
            if row.state is State.ERROR:
                ended.setdefault(row.key.call_id, clock.now - began)
                assert row.code == "timed_out"
    assert ended == {"beats": 60, "moves": 300}


async def test_what_is_overdue_is_settled_by_whoever_comes_though_nobody_noticed(
    store: Store, clock: ManualClock
) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await clock.advance(LEASE_S)
    late = there(await store.answer(answer(attempt=1)))
    assert late.reason == "stale_attempt"
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.losses) == (State.PENDING, 1)
    assert await store.expire(10) == 0


async def test_what_is_given_back_after_its_queue_time_is_still_work_for_others(
    store: Store, clock: ManualClock
) -> None:
    await in_session(store, request(queue_s=20.0, total_s=1000.0))
    await store.beat([beat()])
    await clock.advance(LEASE_S)
    await store.expire(10)
    await store.expire(10)
    assert there(await store.request(ADA, "s", "r")).state is State.PENDING
    assert [each.attempt for each in await store.claim(wanted(SECOND))] == [2]


async def test_only_so_many_are_settled_at_once(store: Store, clock: ManualClock) -> None:
    await in_session(store, *(request(f"r{number}", queue_s=10.0) for number in range(5)))
    await clock.advance(10)
    assert [await store.expire(2) for _ in range(4)] == [2, 2, 1, 0]


async def test_what_ran_out_of_time_keeps_its_key(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(total_s=10.0))
    await clock.advance(10)
    await store.expire(10)
    known = there((await store.begin(worker_call())).known)
    assert (known.seq, known.code) == (begun.seq, "timed_out")
