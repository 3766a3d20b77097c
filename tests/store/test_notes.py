"""Small things are kept for a caller under a name for a while, and what was told of a call as long as the call."""

import asyncio

import pytest

from toolyard.model.caller import Caller
from toolyard.store.contract import Store
from toolyard.store.values import Filter, Note

from .calls import DONE, LARGE, call, ran
from .ledgers import RETENTION, ManualClock, Opening

PLACE = ("session", "default", "ada", "one")


async def test_a_note_is_there_until_its_time_is_over(store: Store, clock: ManualClock) -> None:
    assert await store.note(*PLACE) is None
    await store.put_note(Note(*PLACE, b"data"), 60.0)
    assert await store.note(*PLACE) == b"data"
    await clock.advance(59)
    assert await store.note(*PLACE) == b"data"
    await clock.advance(1)
    assert await store.note(*PLACE) is None


async def test_a_note_takes_the_place_of_the_one_before(store: Store, clock: ManualClock) -> None:
    await store.put_note(Note(*PLACE, b"first"), 60.0)
    await clock.advance(50)
    await store.put_note(Note(*PLACE, LARGE), 60.0)
    await store.put_note(Note(*PLACE, LARGE), 60.0)
    await clock.advance(50)
    assert await store.note(*PLACE) == LARGE
    await store.put_note(Note(*PLACE, b"last"), 5.0)
    await clock.advance(6)
    assert await store.note(*PLACE) is None
    await store.put_note(Note(*PLACE, b"new"), 5.0)
    assert await store.note(*PLACE) == b"new"


@pytest.mark.parametrize("part", range(4), ids=["kind", "tenant", "subject", "name"])
async def test_another_callers_note_is_not_there(store: Store, part: int) -> None:
    await store.put_note(Note(*PLACE, b"data"), 60.0)
    other = tuple("other" if index == part else value for index, value in enumerate(PLACE))
    kind, tenant, subject, name = other
    assert await store.note(kind, tenant, subject, name) is None
    assert not await store.drop_note(kind, tenant, subject, name)
    await store.put_note(Note(kind, tenant, subject, name, b"theirs"), 60.0)
    assert await store.note(*PLACE) == b"data"
    assert await store.note(kind, tenant, subject, name) == b"theirs"


async def test_a_note_is_dropped_once(store: Store, clock: ManualClock) -> None:
    await store.put_note(Note(*PLACE, b"data"), 60.0)
    assert await store.drop_note(*PLACE)
    assert await store.note(*PLACE) is None
    assert not await store.drop_note(*PLACE)
    await store.put_note(Note(*PLACE, b"data"), 60.0)
    await clock.advance(60)
    assert not await store.drop_note(*PLACE), "it was gone"


async def test_of_several_notes_that_are_added_at_once_one_is(store: Store, clock: ManualClock) -> None:
    added = await asyncio.gather(*(store.add_note(Note(*PLACE, b"%d" % number), 60.0) for number in range(8)))
    assert added.count(True) == 1
    assert await store.note(*PLACE) == b"%d" % added.index(True)
    await clock.advance(60)
    assert await store.add_note(Note(*PLACE, b"next"), 60.0), "the one before was gone"
    assert await store.note(*PLACE) == b"next"
    assert await store.drop_note(*PLACE)
    assert await store.add_note(Note(*PLACE, b"last"), 60.0)


async def test_notes_outlive_a_start(store: Store, make_store: Opening) -> None:
    await store.put_note(Note(*PLACE, b"data"), 60.0)
    assert await (await make_store.instead_of(store, "b")).note(*PLACE) == b"data"


async def test_notes_that_are_over_are_removed_a_few_at_a_time(store: Store, clock: ManualClock) -> None:
    for number in range(5):
        await store.put_note(Note("session", "default", "ada", f"old-{number}", b"data"), 10.0 + number)
    await store.put_note(Note(*PLACE, b"kept"), 1000.0)
    await clock.advance(20)
    assert await store.sweep(3) == 0, "they are no calls"
    await clock.advance(-20)
    left = [await store.note("session", "default", "ada", f"old-{number}") for number in range(5)]
    assert left == [None, None, None, b"data", b"data"]
    await clock.advance(20)
    await store.sweep(3)
    await clock.advance(-20)
    assert await store.note("session", "default", "ada", "old-4") is None
    assert await store.note(*PLACE) == b"kept"


# --- events of calls -------------------------------------------------------------------------------


async def test_what_was_told_of_a_call_is_found_in_order_from_any_point(store: Store) -> None:
    one, two = await store.begin(call("one")), await store.begin(call("two"))
    await store.add_call_events([(one.seq, 2, b"b"), (two.seq, 1, b"other"), (one.seq, 1, b"a")])
    await store.add_call_events([(one.seq, 11, b"d"), (one.seq, 3, b"c")])
    await store.add_call_events([])
    assert await store.call_events(one.seq, 0) == [(1, b"a"), (2, b"b"), (3, b"c"), (11, b"d")]
    assert await store.call_events(one.seq, 2) == [(3, b"c"), (11, b"d")]
    assert await store.call_events(one.seq, 11) == []
    assert await store.call_events(two.seq, 0) == [(1, b"other")]


async def test_an_event_that_is_there_stays(store: Store) -> None:
    begun = await store.begin(call())
    await store.add_call_events([(begun.seq, 1, b"first"), (begun.seq, 1, b"second")])
    await store.add_call_events([(begun.seq, 1, b"third"), (begun.seq, 2, b"next")])
    assert await store.call_events(begun.seq, 0) == [(1, b"first"), (2, b"next")]


async def test_events_go_with_their_call_and_do_not_come_after_it(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call())
    await store.add_call_events([(begun.seq, 1, b"a")])
    await store.finish(begun.seq, 1, DONE)
    await store.add_call_events([(begun.seq, 2, b"the end")])
    await clock.advance(RETENTION.calls_s + 1)
    kept = await store.begin(call("kept"))
    await store.add_call_events([(kept.seq, 1, b"kept")])
    assert await store.sweep(10) == 1
    await store.add_call_events([(begun.seq, 3, b"late")])
    assert await store.call_events(begun.seq, 0) == []
    assert await store.call_events(kept.seq, 0) == [(1, b"kept")]


async def test_what_is_kept_because_of_a_users_calls_goes_with_them(store: Store) -> None:
    """But not while the call lives that it is about."""
    begun = await store.begin(call("running", user_id="uma"))
    await store.put_note(Note("decision", "default", "", "running", b"yes", "uma", begun.seq), 60.0)
    for tenant, name, user in (("default", "a", "uma"), ("acme", "b", "uma"), ("default", "c", "vic")):
        assert await store.add_note(Note("given", tenant, "ada", name, b"text", user), 60.0)
    await store.put_note(Note("given", "default", "ada", "d", b"text", "uma"), 60.0)
    await store.put_note(Note("given", "default", "ada", "d", b"newer", "vic"), 60.0)
    assert await store.erase("default", "uma") == 0
    assert await store.note("decision", "default", "", "running") == b"yes"
    assert await store.note("given", "default", "ada", "a") is None
    assert await store.note("given", "acme", "ada", "b") == b"text"
    assert await store.note("given", "default", "ada", "c") == b"text"
    assert await store.note("given", "default", "ada", "d") == b"newer", "another user's took its place"
    await store.finish(begun.seq, 1, DONE)
    assert await store.erase(None, "uma") == 1
    assert await store.note("decision", "default", "", "running") is None
    assert await store.note("given", "acme", "ada", "b") is None


async def test_a_caller_who_names_no_user_is_the_user(store: Store) -> None:
    for call_id, user in (("own", None), ("others", "uma")):
        begun = await store.begin(call(call_id, user_id=user))
        await store.finish(begun.seq, 1, DONE)
    await store.record([ran("fast", 1)])
    own = ran("own fast", 1)
    own[1].caller = Caller("default", "ada")
    await store.record([own])
    assert await store.erase("default", "ada") == 2
    assert {each.key.call_id for each in await store.listed(Filter(None))} == {"others", "fast"}
