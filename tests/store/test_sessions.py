"""Sessions are their owners'; a message's tool uses are recorded all or none, once."""

import asyncio

import pytest
from msgspec.structs import replace

from toolyard.model.errors import KeyConflict
from toolyard.model.lifecycle import State
from toolyard.store.contract import Store
from toolyard.store.values import Filter

from .calls import ADA, DONE, FAILED, REFERENCE, answer, call, in_session, request, session, there, wanted
from .ledgers import ManualClock, Opening


async def test_a_session_is_kept_as_it_was_made(store: Store, clock: ManualClock) -> None:
    await store.create_session(session())
    made = there(await store.session("default", "ada", "s"))
    assert made == replace(session(), created_at=clock.now)
    assert (made.revision, made.turn, made.open, made.status) == (0, 0, 0, "ready")


@pytest.mark.parametrize(("tenant", "subject"), [("default", "bob"), ("other", "ada"), ("", "")])
async def test_another_callers_session_is_not_there(store: Store, tenant: str, subject: str) -> None:
    await store.create_session(session())
    assert await store.session(tenant, subject, "s") is None
    assert await store.session("default", "ada", "t") is None


async def test_a_session_made_twice_is_made_once(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    before = await store.session("default", "ada", "s")
    await clock.advance(1)
    await store.create_session(session())
    assert await store.session("default", "ada", "s") == before


async def test_nobody_makes_a_session_of_anothers(store: Store) -> None:
    await store.create_session(session())
    await store.create_session(session(subject="bob", metadata={}))
    assert there(await store.session("default", "ada", "s")).metadata == {"about": "weather"}
    assert await store.session("default", "bob", "s") is None


async def test_a_session_is_there_after_a_restart(store: Store, make_store: Opening) -> None:
    await in_session(store, request())
    before = await store.session("default", "ada", "s")
    later = await make_store.instead_of(store, "b")
    assert await later.session("default", "ada", "s") == before
    assert [each.key.call_id for each in await later.session_requests("s", None)] == ["r"]


# --- a message's tool uses -----------------------------------------------------------------------


async def test_the_tool_uses_of_a_message_are_recorded_in_order(store: Store) -> None:
    begun = await in_session(store, request("c"), request("a"), request("b"))
    assert all(each.seq and each.known is None for each in begun)
    rows = await store.session_requests("s", None)
    assert [row.seq for row in rows] == [each.seq for each in begun]
    assert [(row.request, row.state, row.turn) for row in rows] == [(id, State.PENDING, 1) for id in "cab"]
    made = there(await store.session("default", "ada", "s"))
    assert (made.open, made.turn, made.status) == (3, 1, "awaiting_tools")


async def test_tools_of_the_server_run_at_once_and_what_was_rejected_has_ended(store: Store) -> None:
    hosted = request("hosted", queue="node", tool="Kit.Tool", reference=REFERENCE)
    await in_session(store, hosted, request("rejected", ending=FAILED), request("waits"))
    states = {row.request: (row.state, row.attempt) for row in await store.session_requests("s", 1)}
    assert states == {
        "hosted": (State.PROCESSING, 1),
        "rejected": (State.ERROR, 0),
        "waits": (State.PENDING, 0),
    }
    assert there(await store.session("default", "ada", "s")).open == 2


async def test_a_session_is_ready_when_all_have_ended(store: Store, clock: ManualClock) -> None:
    hosted = request("hosted", queue="node", tool="Kit.Tool", reference=REFERENCE)
    begun = await in_session(store, hosted, request("answered"), request("cancelled"), request("late", total_s=10.0))
    openings = []
    await store.finish(begun[0].seq, 1, DONE)
    openings.append(there(await store.session("default", "ada", "s")).open)
    await store.answer(answer(request="answered"))
    openings.append(there(await store.session("default", "ada", "s")).open)
    await store.cancel(begun[2].seq)
    openings.append(there(await store.session("default", "ada", "s")).open)
    assert there(await store.session("default", "ada", "s")).status == "awaiting_tools"
    await clock.advance(10)
    await store.expire(10)
    openings.append(there(await store.session("default", "ada", "s")).open)
    assert openings == [3, 2, 1, 0]
    assert there(await store.session("default", "ada", "s")).status == "ready"


async def test_a_lost_call_that_is_given_up_closes_its_session(store: Store, make_store: Opening) -> None:
    hosted = request("hosted", queue="node", tool="Kit.Tool", reference=REFERENCE)
    (begun,) = await in_session(store, hosted)
    later = await make_store.instead_of(store, "b")
    assert await later.give_up(begun.seq, 1, FAILED)
    assert there(await later.session("default", "ada", "s")).status == "ready"


async def test_the_same_message_again_changes_nothing(store: Store) -> None:
    first = await in_session(store, request("a"), request("b"))
    await store.answer(answer(request="a"))
    before = await store.session("default", "ada", "s"), await store.session_requests("s", None)
    again = await store.add_turn("s", [request("a"), request("b")])
    assert [each.seq for each in again] == [0, 0]
    assert [there(each.known).seq for each in again] == [each.seq for each in first]
    assert [there(each.known).state for each in again] == [State.COMPLETE, State.PENDING]
    assert (await store.session("default", "ada", "s"), await store.session_requests("s", None)) == before


async def test_what_is_new_in_a_message_is_added_to_what_is_known(store: Store) -> None:
    await in_session(store, request("a"))
    known, new = await store.add_turn("s", [request("a"), request("b")])
    assert there(known.known).key.call_id == "a"
    assert new.seq > 0
    assert [(row.request, row.turn) for row in await store.session_requests("s", None)] == [("a", 1), ("b", 1)]
    assert there(await store.session("default", "ada", "s")).open == 2


async def test_a_message_with_one_conflict_is_refused_as_a_whole(store: Store) -> None:
    await in_session(store, request("a"))
    before = await store.session("default", "ada", "s"), await store.events("s", 0, 100)
    for uses in (
        [request("new"), request("a", fingerprint=b"other")],
        [request("a", fingerprint=b"other"), request("new")],
        [request("new"), request("a", fingerprint=b"other"), request("newer")],
    ):
        with pytest.raises(KeyConflict):
            await store.add_turn("s", uses)
    assert [row.request for row in await store.session_requests("s", None)] == ["a"]
    assert (await store.session("default", "ada", "s"), await store.events("s", 0, 100)) == before
    assert (await store.add_turn("s", [request("new")]))[0].seq > 0, "nothing of it took a key"


async def test_an_id_that_stands_twice_in_one_message_is_one_tool_use(store: Store) -> None:
    first, second = await in_session(store, request("a"), request("a"))
    assert first.seq > 0
    assert (second.seq, there(second.known).seq) == (0, first.seq)
    assert there(await store.session("default", "ada", "s")).open == 1


async def test_an_id_that_stands_for_two_things_in_one_message_is_a_conflict(store: Store) -> None:
    await store.create_session(session())
    with pytest.raises(KeyConflict):
        await store.add_turn("s", [request("a"), request("a", fingerprint=b"other")])
    assert await store.session_requests("s", None) == []
    assert there(await store.session("default", "ada", "s")).status == "ready"


async def test_an_id_stands_for_itself_in_each_session(store: Store) -> None:
    await in_session(store, request("a"))
    (other,) = await in_session(store, request("a", session="t", fingerprint=b"other"), id="t")
    assert other.seq > 0
    assert (await store.begin(call("a"))).seq > 0, "and outside any"


async def test_the_same_message_many_times_at_the_same_instant_is_taken_once(store: Store) -> None:
    await store.create_session(session())
    uses = ["a", "b", "c"]
    begun = await asyncio.gather(*(store.add_turn("s", [request(id) for id in uses]) for _ in range(20)))
    assert sum(each.seq > 0 for each_of in begun for each in each_of) == 3
    assert [row.request for row in await store.session_requests("s", None)] == uses
    made = there(await store.session("default", "ada", "s"))
    assert (made.open, made.turn) == (3, 1)


async def test_messages_that_conflict_at_the_same_instant_are_taken_whole_or_not(store: Store) -> None:
    await store.create_session(session())
    messages = [[request("same", fingerprint=mark), request(f"own-{mark.decode()}")] for mark in (b"1", b"2", b"3")]
    taken = await asyncio.gather(*(store.add_turn("s", uses) for uses in messages), return_exceptions=True)
    assert sum(isinstance(each, KeyConflict) for each in taken) == 2
    assert len(await store.session_requests("s", None)) == 2


async def test_a_message_without_tool_uses_changes_nothing(store: Store) -> None:
    await store.create_session(session())
    assert await store.add_turn("s", []) == []
    made = there(await store.session("default", "ada", "s"))
    assert (made.turn, made.revision) == (0, 0)


# --- turns ---------------------------------------------------------------------------------------


async def test_a_turn_is_over_when_nothing_is_open(store: Store) -> None:
    await in_session(store, request("a"))
    await store.add_turn("s", [request("b")])
    assert there(await store.session("default", "ada", "s")).turn == 1, "while something is open, it is the same"
    await store.answer(answer(request="a"))
    await store.answer(answer(request="b"))
    await store.add_turn("s", [request("a"), request("b")])
    assert there(await store.session("default", "ada", "s")).turn == 1, "what is known is not new"
    await store.add_turn("s", [request("b"), request("c")])
    assert there(await store.session("default", "ada", "s")).turn == 2
    assert [row.request for row in await store.session_requests("s", 1)] == ["a", "b"]
    assert [row.request for row in await store.session_requests("s", 2)] == ["c"]
    assert await store.session_requests("s", 3) == []
    assert [row.request for row in await store.session_requests("s", None)] == ["a", "b", "c"]


async def test_a_turn_in_which_everything_was_rejected_is_one_all_the_same(store: Store) -> None:
    await in_session(store, request("a", ending=FAILED))
    await store.add_turn("s", [request("b", ending=FAILED)])
    assert [row.turn for row in await store.session_requests("s", None)] == [1, 2]
    assert there(await store.session("default", "ada", "s")).status == "ready"


async def test_requests_of_one_session_only(store: Store) -> None:
    await in_session(store, request("a"))
    await in_session(store, request("b", session="t"), id="t")
    assert [row.request for row in await store.session_requests("s", None)] == ["a"]
    assert await store.session_requests("u", None) == []


async def test_what_came_with_a_message_is_a_call_like_any_other(store: Store) -> None:
    await in_session(store, request())
    assert there(await store.get("default", "ada", "r")).session == "s"
    assert [each.key.call_id for each in await store.listed(Filter("default", "ada"))] == ["r"]
    assert [each.request for each in await store.claim(wanted(ADA))] == ["r"]
