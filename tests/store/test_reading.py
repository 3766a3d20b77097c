"""Calls are found by key, by id, by number, and in lists; what is large is brought only where one call is."""

import tracemalloc
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, Ending
from toolyard.store.contract import Store
from toolyard.store.values import MOST_BYTES, Filter

from .calls import ADA, DONE, FAILED, KEY, LARGE, answer, beat, call, in_session, ran, request, there, wanted


async def test_what_has_a_key_is_found_by_it(store: Store) -> None:
    begun = await store.begin(call())
    found = there(await store.find(KEY))
    assert (found.seq, found.tombstone) == (0, None)
    assert found.known == await store.row(begun.seq)


@pytest.mark.parametrize("part", ["tenant", "subject", "family", "call_id"])
async def test_another_key_finds_nothing(store: Store, part: str) -> None:
    await store.begin(call())
    assert await store.find(replace(KEY, **{part: "other"})) is None


async def test_a_caller_gets_the_newest_of_its_calls_of_an_id(store: Store) -> None:
    first = await store.begin(call())
    second = await store.begin(call(key=replace(KEY, family="otc_draft")))
    third = await store.begin(call(keyed=False, key=replace(KEY, family="mcp")))
    assert first.seq < second.seq < third.seq
    assert there(await store.get("default", "ada", "call-1")).seq == third.seq


async def test_an_id_in_several_families_is_several_calls(store: Store) -> None:
    begun = {family: await store.begin(call(key=replace(KEY, family=family))) for family in ("oxp", "mcp", "s-1")}
    await store.record([ran("call-1", 1)])
    for family in ("mcp", "s-1"):
        assert there(await store.get("default", "ada", "call-1", family)).seq == begun[family].seq
        (listed,) = await store.listed(Filter("default", "ada", call_id="call-1", family=family))
        assert listed.seq == begun[family].seq
    in_block = there(await store.get("default", "ada", "call-1", "oxp"))
    assert (in_block.keyed, in_block.key.family) == (False, "oxp")
    assert await store.get("default", "ada", "call-1", "otc_draft") is None


@pytest.mark.parametrize(("tenant", "subject"), [("default", "bob"), ("other", "ada"), ("other", "bob"), ("", "")])
async def test_what_another_caller_owns_is_not_there(store: Store, tenant: str, subject: str) -> None:
    await store.begin(call())
    assert await store.get(tenant, subject, "call-1") is None
    assert await store.listed(Filter(tenant, subject)) == []
    assert await store.find(CallKey(tenant, subject, "oxp", "call-1")) is None


async def test_the_newest_of_an_id_is_never_another_callers(store: Store) -> None:
    mine = await store.begin(call())
    for tenant, subject in (("default", "bob"), ("other", "ada")):
        await store.begin(call(key=CallKey(tenant, subject, "oxp", "call-1")))
    assert there(await store.get("default", "ada", "call-1")).seq == mine.seq


async def test_a_call_is_there_by_its_number(store: Store) -> None:
    begun = await store.begin(call())
    assert there(await store.row(begun.seq)).key == KEY
    assert await store.row(begun.seq + 1) is None
    assert await store.row(0) is None


# --- lists ---------------------------------------------------------------------------------------


async def listed(store: Store, tenant: str | None = "default", **filter: Any) -> list[str]:
    return [each.key.call_id for each in await store.listed(Filter(tenant, **filter))]


async def test_lists_have_the_newest_first_and_go_on_where_they_ended(store: Store) -> None:
    for number in range(5):
        await store.begin(call(f"call-{number}"))
    assert await listed(store) == ["call-4", "call-3", "call-2", "call-1", "call-0"]
    page = await store.listed(Filter("default", limit=2))
    assert [each.key.call_id for each in page] == ["call-4", "call-3"]
    assert await listed(store, before=page[-1].seq, limit=2) == ["call-2", "call-1"]


async def test_lists_have_what_was_asked_for(store: Store) -> None:
    done = await store.begin(call("done"))
    await store.finish(done.seq, 1, DONE)
    failed = await store.begin(call("failed", tool="Kit.Other"))
    await store.finish(failed.seq, 1, FAILED)
    await store.begin(call("runs"))
    await store.begin(call("bob's", key=CallKey("default", "bob", "oxp", "bob's")))
    await store.begin(call("elsewhere", key=CallKey("other", "ada", "oxp", "elsewhere")))
    await in_session(store, request("waits"))
    assert await listed(store) == ["waits", "bob's", "runs", "failed", "done"]
    assert await listed(store, subject="ada") == ["waits", "runs", "failed", "done"]
    assert await listed(store, subject="bob") == ["bob's"]
    assert await listed(store, "other") == ["elsewhere"]
    assert await listed(store, state=State.COMPLETE) == ["done"]
    assert await listed(store, state=State.ERROR) == ["failed"]
    assert await listed(store, state=State.PENDING) == ["waits"]
    assert await listed(store, state=State.PROCESSING, subject="ada") == ["runs"]
    assert await listed(store, tool="Kit.Other") == ["failed"]
    assert await listed(store, tool="Kit.Other", state=State.COMPLETE) == []
    assert await listed(store, wire="lifecycle") == ["waits"]
    assert await listed(store, wire="oxp", subject="ada") == ["runs", "failed", "done"]
    assert await listed(store, wire="oxp", state=State.PROCESSING) == ["bob's", "runs"]
    assert await listed(store, wire="mcp") == []


async def test_calls_are_counted_by_their_states(store: Store) -> None:
    assert await store.counted(10) == {}
    await in_session(store, request("waits"))
    await store.begin(call("runs"))
    for number in range(3):
        done = await store.begin(call(f"done-{number}"))
        await store.finish(done.seq, 1, DONE)
    failed = await store.begin(call("failed", key=CallKey("other", "bob", "oxp", "failed")))
    await store.finish(failed.seq, 1, FAILED)
    living = {State.PENDING: 1, State.PROCESSING: 1}
    assert await store.counted(10) == living | {State.COMPLETE: 3, State.ERROR: 1}
    assert await store.counted(2) == living | {State.COMPLETE: 1, State.ERROR: 1}


async def test_lists_may_have_the_calls_of_all_tenants_and_of_one_id(store: Store) -> None:
    for tenant, subject in (("default", "ada"), ("default", "bob"), ("other", "ada")):
        await store.begin(call(key=CallKey(tenant, subject, "oxp", "shared")))
        await store.begin(call(key=CallKey(tenant, subject, "oxp", f"{tenant} {subject}'s")))
    assert await listed(store, None, limit=3) == ["other ada's", "shared", "default bob's"]
    assert len(await listed(store, None)) == 6
    assert await listed(store, None, call_id="other ada's") == ["other ada's"]
    shared = await store.listed(Filter(None, call_id="shared"))
    assert [(each.key.tenant, each.key.subject) for each in shared] == [
        ("other", "ada"), ("default", "bob"), ("default", "ada")
    ]  # fmt: skip
    assert await store.listed(Filter(None, call_id="shared", before=shared[0].seq, limit=1)) == [shared[1]]
    assert await store.listed(Filter("default", "bob", call_id="shared")) == [shared[1]]
    assert await listed(store, None, state=State.PROCESSING, call_id="shared") == ["shared"] * 3
    assert await listed(store, None, state=State.COMPLETE) == []
    assert await listed(store, None, call_id="nobody's") == []


# --- what is large -------------------------------------------------------------------------------

LARGE_END = Ending(State.COMPLETE, "success", 1.0, value=LARGE)


async def test_what_is_large_is_brought_with_one_call_and_not_in_lists(store: Store) -> None:
    begun = await store.begin(call(input=LARGE))
    await store.finish(begun.seq, 1, LARGE_END)
    row = there(await store.row(begun.seq))
    assert (row.input, row.value) == (LARGE, LARGE)
    assert there(await store.get("default", "ada", "call-1")) == row
    (short,) = await store.listed(Filter("default"))
    assert (short.input, short.value, short.is_cut) == (b"", None, True)
    assert replace(short, input=LARGE, value=LARGE, is_cut=False) == row
    assert there(await store.find(KEY)).known == (await store.begin(call())).known == short
    assert await store.glance(begun.seq) == short
    with pytest.raises(RuntimeError, match="was not read"):
        short.outcome()


@pytest.mark.parametrize(("input", "value"), [(LARGE, b"1"), (b"{}", LARGE)])
async def test_of_a_call_with_one_large_part_that_is_known_not_to_be_there(
    store: Store, input: bytes, value: bytes
) -> None:
    begun = await store.begin(call(input=input))
    await store.finish(begun.seq, 1, Ending(State.COMPLETE, "success", 1.0, value=value))
    assert there(await store.glance(begun.seq)).is_cut
    row = there(await store.row(begun.seq))
    assert (row.input, row.value, row.is_cut) == (input, value, False)


async def test_what_is_just_small_enough_is_in_lists_too(store: Store) -> None:
    small = LARGE[: 256 * 1024]
    begun = await store.begin(call(input=small))
    await store.finish(begun.seq, 1, Ending(State.COMPLETE, "success", 1.0, value=small))
    (row,) = await store.listed(Filter("default"))
    assert (row.input, row.value, row.is_cut) == (small, small, False)


async def test_what_is_large_is_brought_to_who_claims_it(store: Store) -> None:
    await in_session(store, request(input=LARGE))
    (claimed,) = await store.claim(wanted())
    assert claimed.input == LARGE
    assert there(await store.request(ADA, "s", "r")).input == LARGE
    assert [each.input for each in await store.session_requests("s", None)] == [LARGE]


async def test_where_a_session_stands_is_told_without_what_is_large(store: Store) -> None:
    huge = b'"' + b"x" * (4 * 2**20) + b'"'
    await in_session(store, request(input=huge))
    await store.beat([beat()])
    await store.answer(answer(ending=replace(LARGE_END, value=huge)))
    tracemalloc.start()
    try:
        standing = there(await store.session_standing("default", "ada", "s"))
        (row,) = await store.request_standings("s")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(huge) / 2
    assert (standing.status, standing.turn) == ("ready", 1)
    assert standing.size > 0
    session = there(await store.session("default", "ada", "s"))
    assert msgspec.json.decode(await store.session_metadata("s")) == session.metadata
    assert (row.request_id, row.state, row.attempt, row.waiting_for) == ("r", State.COMPLETE, 1, None)
    assert await store.session_standing("default", "bob", "s") is None


async def test_a_large_answer_is_brought_to_who_looks_at_it(store: Store) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await store.answer(answer(ending=LARGE_END))
    assert there(await store.request(ADA, "s", "r")).value == LARGE
    assert [each.value for each in await store.session_requests("s", 1)] == [LARGE]


async def test_what_ran_already_and_is_large_is_kept_too(store: Store) -> None:
    text = "x" * (256 * 1024)
    await store.record([ran("call-1", 15, {"text": text})])
    assert text.encode() in there(await store.get("default", "ada", "call-1")).input
    (short,) = await store.listed(Filter("default"))
    assert (short.input, short.value) == (b"", b"15")


async def test_what_is_large_of_lost_calls_is_brought(store: Store) -> None:
    begun = await store.begin(call(input=LARGE))
    await store.hand_back(begun.seq, 1)
    (lost,) = await store.unstarted(1)
    assert lost.input == LARGE


async def test_of_large_requests_only_so_many_are_read_at_once_and_never_none(store: Store) -> None:
    await in_session(store, *(request(id, input=LARGE) for id in "abcd"))
    few = replace(wanted(limit=4), most_bytes=len(LARGE) + 1)
    assert [each.request for each in await store.requests(few)] == ["a", "b"]
    assert [each.request for each in await store.claim(few)] == ["a", "b"]
    assert [each.request for each in await store.claim(replace(few, most_bytes=1))] == ["c"]
    assert [each.request for each in await store.claim(few)] == ["d"]


async def test_the_requests_of_a_session_are_read_bit_by_bit_where_they_are_large(store: Store) -> None:
    huge = b'"' + b"x" * (MOST_BYTES // 4) + b'"'
    begun = await in_session(store, *(request(f"r{number}") for number in range(6)))
    for number in range(6):
        await store.beat([beat(request=f"r{number}")])
        await store.answer(answer(request=f"r{number}", ending=replace(LARGE_END, value=huge)))
    first = await store.session_requests("s", 1)
    rest = await store.session_requests("s", 1, first[-1].seq)
    assert [each.seq for each in (*first, *rest)] == [each.seq for each in begun]
    assert len(first) == 4
    assert await store.session_requests("s", 1, rest[-1].seq) == []


async def test_of_calls_that_wait_each_callers_oldest_come_first(store: Store) -> None:
    key = CallKey("default", "bob", "oxp", "b")
    held = {"waiting_for": "approval"}
    seqs = [(await store.begin(call(key=replace(KEY, call_id=f"a{number}"), **held))).seq for number in range(3)]
    other = (await store.begin(call(key=key, **held))).seq
    assert await store.waiting_calls("approval", None, 3) == ([seqs[0], other, seqs[1]], 4)
    assert await store.waiting_calls("approval", "default", 10) == ([seqs[0], other, *seqs[1:]], 4)
    assert await store.waiting_calls("approval", "elsewhere", 10) == ([], 0)
    assert await store.waiting_calls("authorization", None, 10) == ([], 0)
