"""What callers leave behind is counted, in rows and in bytes, and what is removed gives its room back."""

import pytest

from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, Ending
from toolyard.model.worker import WorkerRecord
from toolyard.store.contract import Store
from toolyard.store.values import Held, Note

from .calls import ADA, DONE, LARGE, UNKNOWN, answer, call, in_session, ran, request, session, wanted, worker_call
from .ledgers import RETENTION, TERMS, ManualClock, Opening

MOST = 2**40
CHARGE = 1024
"""For a call, beside what it brought."""


async def stored(store: Store, who: tuple[str, str] = ("default", "ada")) -> int:
    """How many bytes are kept for a caller: the most for which it is full."""
    least, most = 0, MOST
    while least < most:
        middle = (least + most + 1) // 2
        callers, _ = await store.full(middle, MOST)
        least, most = (middle, most) if who in callers else (least, middle - 1)
    return least


async def count(store: Store, what: Held, most: int = 10, besides: str = "") -> tuple[int, int]:
    """Of the caller, and of its tenant."""
    mine = await store.count_held(what, "default", "ada", most, besides)
    return mine, await store.count_held(what, "default", None, most, besides)


async def test_nothing_is_kept_for_a_stranger(store: Store) -> None:
    assert await store.full(1, 1) == (set(), set())
    for what in ("mcp_sessions", "sessions", "waiting_calls", "workers"):
        assert await count(store, what) == (0, 0)


@pytest.mark.parametrize("result", [b"15", LARGE, b"x" * 2000])
async def test_a_call_is_charged_for_its_input_and_for_a_result_that_is_large(store: Store, result: bytes) -> None:
    begun = await store.begin(call(input=LARGE))
    assert await stored(store) == CHARGE + len(LARGE)
    assert await store.finish(begun.seq, 1, Ending(State.COMPLETE, "success", 1.5, value=result)) is None
    assert await stored(store) == CHARGE + len(LARGE) + (len(result) if len(result) > CHARGE else 0)


async def test_a_call_is_charged_for_a_failure_that_is_large(store: Store) -> None:
    begun = await store.begin(call(input=b"{}"))
    await store.finish(begun.seq, 1, Ending(State.ERROR, "tool_failed", 1.5, error=b"x" * 3000))
    assert await stored(store) == CHARGE + 2 + 3000


async def test_calls_that_ran_before_they_are_recorded_are_charged_for_together(store: Store) -> None:
    long = {"a": "y" * 300_000}
    await store.record([ran("one", 1), ran("two", 10**2000), ran("three", 3, long)])
    sizes = len(b'{"a":1}') * 2 + 2001 + len(b'{"a":""}') + 300_000
    assert await stored(store) == 3 * CHARGE + sizes


async def test_what_a_worker_says_is_charged_to_who_called(store: Store) -> None:
    await in_session(store, request("r"))
    before = await stored(store)
    (claimed,) = await store.claim(wanted(ADA))
    told = await stored(store)
    assert told > before, "an event says that it was claimed"
    await store.answer(answer(ADA, claimed.attempt, ending=Ending(State.COMPLETE, "success", 1.0, value=LARGE)))
    assert await stored(store) > told + len(LARGE)


async def test_what_is_swept_gives_its_room_back(store: Store, clock: ManualClock) -> None:
    await store.record([ran("one", 1), ran("two", 10**2000, {"a": "y" * 300_000})])
    begun = await store.begin(call(input=LARGE))
    await store.ask(begun.seq, 1, "name", b"x" * 500)
    await store.answer_questions(begun.seq, {"name": b"y" * 700})
    await store.add_call_events([(begun.seq, 1, b"z" * 900)])
    await store.finish(begun.seq, 1, Ending(State.COMPLETE, "success", 1.5, value=LARGE))
    await in_session(store, request("r"))
    (claimed,) = await store.claim(wanted(ADA))
    await store.answer(answer(ADA, claimed.attempt))
    await store.put_note(Note("some", "default", "ada", "one", LARGE), 10.0)
    assert await stored(store) > 3 * len(LARGE)
    await clock.advance(RETENTION.calls_s + 1)
    await store.sweep(100)
    await store.sweep(100)
    assert await store.full(1, 1) == (set(), set())


async def test_a_result_that_is_taken_back_is_no_longer_charged_for(store: Store) -> None:
    begun = await store.begin(call(input=b"{}"))
    unknown = Ending(UNKNOWN.state, UNKNOWN.code, 0.0, error=b"x" * 5000, effects="unknown")
    await store.finish(begun.seq, 1, unknown)
    assert await stored(store) == CHARGE + 2 + 5000
    await store.resolve(begun.seq, None)
    assert await stored(store) == CHARGE + 2


async def test_a_note_is_charged_for_as_it_is_now(store: Store) -> None:
    place = ("some", "default", "ada", "one")
    await store.put_note(Note(*place, b"x" * 1000), 60.0)
    first = await stored(store)
    await store.put_note(Note(*place, b"x" * 3000), 60.0)
    assert await stored(store) == first + 2000
    assert await store.add_note(Note(*place, b""), 60.0) is False
    assert await stored(store) == first + 2000
    await store.drop_note(*place)
    assert await stored(store) == 0


async def test_a_session_is_charged_for_its_tools(store: Store) -> None:
    await store.create_session(session("s", metadata={"about": "x" * 10_000}))
    kept = await stored(store)
    assert kept > 10_000
    await store.create_session(session("s", metadata={"about": "x" * 10_000}))
    assert await stored(store) == kept, "it is the same one"


async def test_a_tenant_has_what_its_callers_have(store: Store) -> None:
    await store.begin(call("a", input=b"x" * 5000))
    await store.begin(call("b", input=b"x" * 5000, key=CallKey("default", "bob", "oxp", "b")))
    assert await store.full(8000, 8000) == (set(), {"default"})
    assert await store.full(6000, 80_000) == ({("default", "ada"), ("default", "bob")}, set())


@pytest.mark.needs_nodes
async def test_it_is_the_same_on_every_node(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    await store.begin(call("a", input=b"x" * 5000))
    await other.begin(call("b", input=b"x" * 5000))
    assert await stored(store) == await stored(other) == 2 * (CHARGE + 5000)


async def test_what_was_there_is_still_counted_after_a_restart(store: Store, make_store: Opening) -> None:
    await store.begin(call(input=LARGE))
    await store.close()
    again = await make_store("again")
    assert await stored(again) == CHARGE + len(LARGE)


async def test_sessions_are_counted_no_further_than_need_be(store: Store) -> None:
    for id in "stu":
        await store.create_session(session(id))
    await store.create_session(session("v", subject="bob"))
    await store.create_session(session("w", tenant="other"))
    assert await count(store, "sessions") == (3, 4)
    assert await count(store, "sessions", 2) == (2, 2)


async def test_mcp_sessions_are_counted_while_they_are_open(store: Store, clock: ManualClock) -> None:
    for name, keep_s in (("one", 10.0), ("two", 100.0)):
        await store.put_note(Note("mcp session", "default", "ada", name, b"{}"), keep_s)
    await store.put_note(Note("hold", "default", "ada", "three", b"{}"), 100.0)
    assert await count(store, "mcp_sessions") == (2, 2)
    await clock.advance(11)
    assert await count(store, "mcp_sessions") == (1, 1)
    await store.drop_note("mcp session", "default", "ada", "two")
    assert await count(store, "mcp_sessions") == (0, 0)


async def test_workers_are_counted_while_they_live(store: Store, clock: ManualClock) -> None:
    for name in ("one", "two"):
        await store.put_worker(WorkerRecord("default", "ada", name, b"[]"))
    assert await count(store, "workers") == (2, 2)
    assert await count(store, "workers", besides="one") == (1, 1)
    await clock.advance(TERMS.lease_s + 1)
    assert await count(store, "workers") == (0, 0)


async def test_calls_that_wait_are_counted_until_they_begin_or_end(store: Store) -> None:
    await store.begin(worker_call("one"))
    held = await store.begin(call("two", waiting_for="approval"))
    begun = await store.begin(call("three"))
    await in_session(store, request("r"), request("q"))
    assert await count(store, "waiting_calls") == (4, 4), "what runs does not wait"
    await store.claim(wanted(ADA, limit=2))
    await store.cancel(held.seq)
    await store.finish(begun.seq, 1, DONE)
    assert await count(store, "waiting_calls") == (1, 1)
