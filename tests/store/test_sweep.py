"""What is over is removed in time: calls, what was kept out of their rows, their keys later, and sessions."""

import pytest

from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, Ending
from toolyard.store.contract import Store
from toolyard.store.values import Filter, Retention

from .calls import (
    ADA,
    DONE,
    KEY,
    LARGE,
    RETRY,
    WORKER,
    answer,
    call,
    in_session,
    name,
    ran,
    request,
    session,
    there,
    wanted,
    worker_call,
)
from .ledgers import RETENTION, ManualClock, Opening

RETENTION_S, KEY_TTL_S = RETENTION.calls_s, RETENTION.keys_s


async def finished(store: Store, call_id: str = "call-1") -> int:
    begun = await store.begin(call(call_id))
    assert await store.finish(begun.seq, 1, DONE) is None
    return begun.seq


async def test_a_finished_call_is_removed_in_time_and_its_key_later(store: Store, clock: ManualClock) -> None:
    seq = await finished(store)
    await clock.advance(RETENTION_S - 1)
    assert await store.sweep(10) == 0
    await clock.advance(2)
    assert await store.sweep(10) == 1
    assert await store.row(seq) is None
    assert await store.get("default", "ada", "call-1") is None
    found = there(await store.find(KEY))
    assert (found.seq, found.known, found.tombstone) == (0, None, b"fingerprint")
    again = await store.begin(call(fingerprint=b"another"))
    assert (again.seq, again.known, again.tombstone) == (0, None, b"fingerprint")
    assert await store.listed(Filter("default")) == [], "nothing is silently run again"
    await clock.advance(KEY_TTL_S)
    await store.sweep(10)
    assert await store.find(KEY) is None
    assert (await store.begin(call())).seq > 0


async def test_no_number_is_given_twice(store: Store, make_store: Opening, clock: ManualClock) -> None:
    """Also where nothing of the newest calls is left, and after the ledger was opened anew."""
    given = [await finished(store, f"call-{number}") for number in range(3)]
    await store.record([ran(f"ran-{number}", number) for number in range(3)])
    given += [row.seq for row in await store.listed(Filter("default")) if not row.keyed]
    assert len(set(given)) == 6
    for round in range(2):
        await clock.advance(RETENTION_S + 1)
        await store.sweep(100)
        assert await store.listed(Filter("default")) == []
        await make_store.close(store)
        store = await make_store(f"round-{round}")
        later = [await finished(store, f"later-{round}-{number}") for number in range(2)]
        await store.record([ran(f"later-{round}", 1)])
        rows = {row.seq for row in await store.listed(Filter("default"))}
        assert rows >= set(later)
        assert min(rows) > max(given)
        given += rows


async def test_a_taken_key_never_shows_a_call_that_came_later(store: Store, clock: ManualClock) -> None:
    await finished(store)
    await clock.advance(RETENTION_S + 1)
    assert await store.sweep(10) == 1
    other = call("another")
    other.key = CallKey("default", "bob", "oxp", "another")
    assert (await store.begin(other)).seq > 0
    found = there(await store.find(KEY))
    assert (found.known, found.tombstone) == (None, b"fingerprint")


async def test_a_key_outlives_its_payload_though_it_was_told_otherwise(make_store: Opening, clock: ManualClock) -> None:
    store = await make_store(retention=Retention(calls_s=100.0, keys_s=10.0))
    seq = await finished(store)
    await clock.advance(50)
    await store.sweep(10)
    assert there(there(await store.find(KEY)).known).seq == seq


async def test_what_still_runs_or_waits_is_kept(store: Store, clock: ManualClock) -> None:
    runs = await store.begin(call("runs"))
    waits = await store.begin(worker_call("waits"))
    (requested,) = await in_session(store, request())
    await clock.advance(RETENTION_S * 10)
    assert await store.sweep(10) == 0
    for begun in (runs, waits, requested):
        assert await store.row(begun.seq) is not None
    assert await store.session("default", "ada", "s") is not None


async def test_a_released_key_leaves_no_tombstone(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, RETRY)
    await clock.advance(RETENTION_S + 1)
    assert await store.sweep(10) == 1
    assert await store.find(KEY) is None


@pytest.mark.parametrize("waiting_for", [None, "approval"])
async def test_a_key_stays_taken_while_its_call_has_not_ended(
    store: Store, clock: ManualClock, waiting_for: str | None
) -> None:
    begun = await store.begin(call(waiting_for=waiting_for))
    for _ in range(3):
        await clock.advance(KEY_TTL_S + 1)
        await store.sweep(10)
        assert there((await store.begin(call())).known).seq == begun.seq


async def test_a_key_stays_taken_after_a_long_call_as_long_as_after_any(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call())
    await clock.advance(KEY_TTL_S + 1)
    await store.finish(begun.seq, 1, DONE)
    await clock.advance(KEY_TTL_S - 1)
    await store.sweep(10)
    assert (await store.begin(call())).tombstone == b"fingerprint"
    await clock.advance(2)
    await store.sweep(10)
    assert (await store.begin(call())).seq > 0


async def test_calls_of_every_kind_are_removed(store: Store, clock: ManualClock) -> None:
    await store.record([ran("unkeyed", 1)])
    await in_session(store, request())
    await store.answer(answer())
    waits = await store.begin(worker_call("waits"))
    await store.claim(wanted(WORKER))
    await store.answer(answer(WORKER, 1, request=await name(store, waits), session="direct"))
    await store.begin(worker_call("rejected", ending=RETRY))
    await clock.advance(RETENTION_S + 1)
    assert await store.sweep(10) == 4
    assert await store.listed(Filter("default")) == []


async def test_only_so_many_are_removed_at_once_the_oldest_first(store: Store, clock: ManualClock) -> None:
    for number in range(5):
        await finished(store, f"call-{number}")
        await clock.advance(1)
    await clock.advance(RETENTION_S)
    assert await store.sweep(2) == 2
    left = [each.key.call_id for each in await store.listed(Filter("default"))]
    assert left == ["call-4", "call-3", "call-2"]
    assert [await store.sweep(2), await store.sweep(2), await store.sweep(2)] == [2, 1, 0]


async def test_what_was_kept_out_of_the_rows_goes_with_them_and_only_that(store: Store, clock: ManualClock) -> None:
    large = Ending(State.COMPLETE, "success", 1.0, value=LARGE)
    for number in range(2):
        begun = await store.begin(call(f"old-{number}", input=LARGE))
        await store.finish(begun.seq, 1, large)
    await clock.advance(RETENTION_S + 1)
    kept = await store.begin(call("kept", input=LARGE))
    await store.finish(kept.seq, 1, large)
    assert await store.sweep(10) == 2
    row = there(await store.row(kept.seq))
    assert (row.input, row.value) == (LARGE, LARGE)


# --- sessions ------------------------------------------------------------------------------------


async def test_a_session_is_removed_with_its_events_when_nothing_happened_in_it_for_long(
    store: Store, clock: ManualClock
) -> None:
    await in_session(store, request())
    await clock.advance(RETENTION_S)
    await store.answer(answer())
    await clock.advance(RETENTION_S - 1)
    await store.sweep(10)
    assert await store.session("default", "ada", "s") is not None
    assert len(await store.events("s", 0, 10)) > 0
    await clock.advance(2)
    assert await store.sweep(10) == 1
    assert await store.session("default", "ada", "s") is None
    assert await store.request(ADA, "s", "r") is None
    assert await store.events("s", 0, 10) == []


async def test_a_session_in_which_nothing_ever_happened_is_removed_too(store: Store, clock: ManualClock) -> None:
    await store.create_session(session())
    await clock.advance(RETENTION_S + 1)
    assert await store.sweep(10) == 0, "it is no call"
    assert await store.session("default", "ada", "s") is None


@pytest.mark.parametrize("limit", [1, 10])
async def test_a_session_that_is_still_open_is_kept_and_does_not_keep_others(
    store: Store, clock: ManualClock, limit: int
) -> None:
    await in_session(store, request(session="open"), id="open")
    await clock.advance(1)
    await store.create_session(session("over"))
    await clock.advance(RETENTION_S + 1)
    await store.sweep(limit)
    assert await store.session("default", "ada", "open") is not None
    assert await store.session("default", "ada", "over") is None
