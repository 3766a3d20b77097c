"""A call begins: it runs here or waits for somebody, once for each key."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from toolyard.model.errors import Busy, ToolError
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, NewCall
from toolyard.store.contract import Store
from toolyard.store.values import Filter, NotedCalls

from .calls import DONE, FAILED, KEY, REFERENCE, RETRY, WORKER, call, ran, request, there, wanted, worker_call
from .ledgers import ManualClock, Opening


async def test_a_call_of_this_node_runs_at_once(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call())
    assert begun.seq > 0
    assert (begun.known, begun.tombstone) == (None, None)
    row = there(await store.row(begun.seq))
    assert (row.state, row.attempt, row.holder, row.losses) == (State.PROCESSING, 1, "a", 0)
    assert (row.created_at, row.started_at, row.finished_at) == (clock.now, clock.now, None)


NOTED = NotedCalls("hold", ("oxp new", "oxp old"), 60.0)


def held(call_id: str, **changes: Any) -> NewCall:
    """One without a key that waits for a person."""
    return call(call_id, keyed=False, waiting_for="approval", **changes)


async def test_of_the_same_call_at_once_one_is_recorded_where_it_is_noted(store: Store) -> None:
    begun = await asyncio.gather(*(store.begin_noted(held(f"c-{each}"), NOTED) for each in range(8)))
    (seq,) = [each.seq for each in begun if each.seq]
    assert [there(each.known).seq for each in begun if not each.seq] == [seq] * 7
    assert [each.seq for each in await store.listed(Filter("default"))] == [seq]
    assert await store.note("hold", "default", "ada", "oxp new") == b"%d" % seq


async def test_what_is_noted_by_an_older_name_is_found(store: Store) -> None:
    first = await store.begin_noted(held("a"), NotedCalls("hold", ("oxp old",), 60.0))
    assert there((await store.begin_noted(held("b"), NOTED)).known).seq == first.seq


@pytest.mark.parametrize(
    "other",
    [
        held("b", fingerprint=b"another"),
        held("b", key=CallKey("default", "bob", "oxp", "b")),
        held("b", key=CallKey("other", "ada", "oxp", "b")),
        held("b", key=CallKey("default", "ada", "mcp", "b")),
    ],
    ids=["input", "subject", "tenant", "family"],
)
async def test_another_call_is_recorded_whatever_is_noted(store: Store, other: NewCall) -> None:
    first = await store.begin_noted(held("a"), NOTED)
    assert (await store.begin_noted(other, NOTED)).seq > first.seq


async def test_what_is_noted_no_longer_is_recorded_anew(store: Store, clock: ManualClock) -> None:
    first = await store.begin_noted(held("a"), NOTED)
    assert not await store.drop_note("hold", "default", "ada", "oxp new", b"another's")
    assert await store.drop_note("hold", "default", "ada", "oxp new", b"%d" % first.seq)
    second = await store.begin_noted(held("b"), NOTED)
    assert second.seq > first.seq
    await clock.advance(61)
    assert (await store.begin_noted(held("c"), NOTED)).seq > second.seq


async def test_a_noted_call_does_not_wait_behind_too_many(store: Store) -> None:
    await store.begin(worker_call())
    with pytest.raises(Busy):
        await store.begin_noted(worker_call("b", keyed=False, waiting_for="approval"), NOTED, 1)
    assert await store.note("hold", "default", "ada", "oxp new") is None


@pytest.mark.parametrize("new", [worker_call(), request()], ids=["a worker's", "a session's"])
async def test_any_other_waits_to_be_claimed(store: Store, new: NewCall) -> None:
    begun = await store.begin(new)
    row = there(await store.row(begun.seq))
    assert (row.state, row.attempt, row.holder, row.started_at) == (State.PENDING, 0, None, None)
    assert (row.queue, row.session, row.key) == (new.queue, new.session, new.key)


async def test_everything_that_was_said_of_it_is_kept(store: Store) -> None:
    new = call(user_id="user", trace_id="trace", sealed=b"\x00sealed", on_lost="unknown", wire="otc")
    row = there(await store.row((await store.begin(new)).seq))
    for name in ("key", "keyed", "wire", "tool", "reference", "input", "fingerprint", "user_id", "trace_id", "sealed",
                 "on_lost", "queue", "session", "turn"):  # fmt: skip
        assert getattr(row, name) == getattr(new, name), name


async def test_a_call_begins_once(store: Store) -> None:
    first = await store.begin(call())
    again = await store.begin(call())
    assert again.seq == 0
    assert there(again.known).seq == first.seq
    assert there(again.known).state is State.PROCESSING


@pytest.mark.parametrize("new", [call(), worker_call()], ids=["a node's", "a worker's"])
async def test_of_many_at_the_same_instant_one_begins(store: Store, new: NewCall) -> None:
    begun = await asyncio.gather(*(store.begin(new) for _ in range(50)))
    (seq,) = [each.seq for each in begun if each.seq]
    assert {there(each.known).seq for each in begun if not each.seq} == {seq}
    assert len(await store.listed(Filter("default"))) == 1


async def test_many_with_many_keys_at_the_same_instant_begin_once_each(store: Store) -> None:
    new = [call(f"call-{number % 10}") for number in range(60)]
    begun = await asyncio.gather(*map(store.begin, new))
    assert len({each.seq for each in begun if each.seq}) == 10
    assert len(await store.listed(Filter("default"))) == 10


async def test_a_key_is_taken_whatever_the_fingerprint(store: Store) -> None:
    await store.begin(call())
    other = await store.begin(call(fingerprint=b"another", tool="Kit.Other"))
    assert other.seq == 0
    assert (there(other.known).fingerprint, there(other.known).tool) == (b"fingerprint", "Kit.Tool")


@pytest.mark.parametrize("part", ["tenant", "subject", "family", "call_id"])
async def test_keys_of_others_never_meet(store: Store, part: str) -> None:
    await store.begin(call())
    other = await store.begin(call(key=replace(KEY, **{part: "other"})))
    assert other.seq > 0


async def test_keys_are_told_apart_letter_by_letter(store: Store) -> None:
    ids = ["a", "A", "a ", " a", "\u00e4", "a\u0308", "", "a'b", 'a"b', "a%", "a_", "\u2028", "x" * 2000]
    begun = [await store.begin(call(key=CallKey("default", "ada", "oxp", id))) for id in ids]
    assert all(each.seq for each in begun)
    for id, each in zip(ids, begun, strict=True):
        found = there(await store.find(CallKey("default", "ada", "oxp", id)))
        assert (there(found.known).seq, there(found.known).key.call_id) == (each.seq, id)


async def test_calls_without_a_key_never_meet(store: Store) -> None:
    unkeyed = call(keyed=False)
    assert (await store.begin(unkeyed)).seq != (await store.begin(unkeyed)).seq
    assert await store.find(KEY) is None
    keyed = await store.begin(call())
    assert keyed.seq > 0
    assert (await store.begin(unkeyed)).seq > keyed.seq, "nor one with a key"


async def test_a_call_that_ended_before_it_began_is_recorded_as_ended(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(ending=FAILED))
    row = there(await store.row(begun.seq))
    assert (row.state, row.code, row.error, row.attempt) == (State.ERROR, "tool_failed", FAILED.error, 0)
    assert (row.finished_at, row.holder) == (clock.now, None)
    assert await store.claim(wanted(WORKER)) == []
    assert there((await store.begin(worker_call())).known).seq == begun.seq


# --- a queue that is full ------------------------------------------------------------------------


async def test_a_call_that_would_wait_behind_too_many_is_not_recorded(store: Store) -> None:
    for number in range(2):
        await store.begin(worker_call(f"call-{number}"), most_pending=2)
    with pytest.raises(Busy) as busy:
        await store.begin(worker_call("one too many"), most_pending=2)
    assert busy.value.retry_after_ms > 0
    assert len(await store.listed(Filter("default"))) == 2
    assert await store.find(CallKey("default", "ada", "oxp", "one too many")) is None
    assert await store.get("default", "ada", "one too many") is None


async def test_only_those_of_the_same_tool_that_still_wait_are_counted(store: Store) -> None:
    await store.begin(worker_call("of another", reference="Kit.Other@1.0.0"), most_pending=1)
    await store.begin(worker_call("first"), most_pending=1)
    with pytest.raises(Busy):
        await store.begin(worker_call("second"), most_pending=1)
    assert len(await store.claim(wanted(WORKER))) == 1
    assert (await store.begin(worker_call("second"), most_pending=1)).seq > 0


async def test_who_is_known_is_answered_though_the_queue_is_full(store: Store) -> None:
    first = await store.begin(worker_call(), most_pending=1)
    assert there((await store.begin(worker_call(), most_pending=1)).known).seq == first.seq


async def test_of_many_at_the_same_instant_only_so_many_wait(store: Store) -> None:
    new = [store.begin(worker_call(f"call-{number}"), most_pending=5) for number in range(20)]
    begun = await asyncio.gather(*new, return_exceptions=True)
    assert sum(isinstance(each, Busy) for each in begun) == 15
    assert len(await store.listed(Filter("default", state=State.PENDING))) == 5


# --- calls that have run already -----------------------------------------------------------------


async def test_calls_that_have_run_are_recorded_as_they_ended(store: Store, clock: ManualClock) -> None:
    await store.record([ran("done", 15), ran("failed", ToolError("no", can_retry=True))])
    done = there(await store.get("default", "ada", "done"))
    assert (done.state, done.code, done.value, done.duration_ms) == (State.COMPLETE, "success", b"15", 1.5)
    assert (done.reference, done.tool, done.input) == (REFERENCE, "Kit.Tool", b'{"a":1}')
    assert (done.user_id, done.trace_id, done.keyed, done.queue) == ("user", "trace", False, "node")
    assert done.attempt == 1
    assert done.finished_at == pytest.approx(clock.now, abs=1), "when it ended at its node, by the store's clock"
    failed = there(await store.get("default", "ada", "failed"))
    assert (failed.state, failed.code, failed.outcome().error) != (State.COMPLETE, "success", None)
    assert there(failed.outcome().error).can_retry is True


async def test_calls_that_have_run_take_no_keys_and_nothing_to_record_is_nothing(store: Store) -> None:
    await store.record([ran("call-1", 15)])
    await store.record([])
    assert await store.find(KEY) is None
    assert (await store.begin(call())).seq > 0


# --- and ends, and what its key is worth then ----------------------------------------------------


async def test_an_outcome_that_says_so_releases_its_key(store: Store) -> None:
    first = await store.begin(call())
    await store.finish(first.seq, 1, RETRY)
    assert await store.find(KEY) is None
    second = await store.begin(call(fingerprint=b"another"))
    assert second.seq > first.seq
    await store.finish(second.seq, 1, FAILED)
    assert there((await store.begin(call())).known).seq == second.seq


async def test_a_late_release_does_not_free_the_key_of_a_newer_call(store: Store) -> None:
    first = await store.begin(call())
    await store.finish(first.seq, 1, RETRY)
    second = await store.begin(call())
    await store.finish(first.seq, 1, RETRY)
    assert there(there(await store.find(KEY)).known).seq == second.seq


async def test_what_was_accepted_is_there_after_a_restart(store: Store, make_store: Opening) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, DONE)
    later = await make_store.instead_of(store, "b")
    known = there(there(await later.find(KEY)).known)
    assert (known.seq, known.value) == (begun.seq, b"15")
    assert (await later.begin(call())).seq == 0
