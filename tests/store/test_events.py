"""What happens in a session is told once, in order, and numbered without gaps."""

import asyncio

import msgspec

from toolyard.model.session import Event
from toolyard.model.writes import Claimant
from toolyard.store.contract import Store
from toolyard.store.values import ClaimFilter

from .calls import (
    DONE,
    REFERENCE,
    SECOND,
    UNKNOWN,
    answer,
    beat,
    hand_back,
    in_session,
    request,
    session,
    there,
    worker_call,
)
from .ledgers import TERMS, ManualClock, Opening

HOSTED = request("hosted", queue="node", tool="Kit.Tool", reference=REFERENCE)


async def told(store: Store, id: str = "s") -> list[str]:
    """Each event as a line."""
    return [line(event) for event in await store.events(id, 0, 1000)]


def line(event: Event) -> str:
    said = msgspec.json.decode(event.data)
    if event.kind == "session":
        return f"{event.number} {said['sessionId']} {said['status']}"
    assert event.kind == "request"
    return f"{event.number} {said['requestId']} {said['state']} {said['attempt']}"


async def test_the_life_of_a_request(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await store.beat([beat(), beat(progress=b"1")])
    await store.leave(hand_back())
    await store.beat([beat(SECOND)])
    await clock.advance(TERMS.lease_s)
    await store.expire(10)
    await store.answer(answer())
    assert await told(store) == [
        "1 r PENDING 0",
        "2 s awaiting_tools",
        "3 r PROCESSING 1",
        "4 r PENDING 1",
        "5 r PROCESSING 2",
        "6 r PENDING 2",
        "7 r COMPLETE 3",
        "8 s ready",
    ]
    assert there(await store.session("default", "ada", "s")).revision == 8


async def test_the_life_of_a_request_that_this_node_runs(store: Store, make_store: Opening) -> None:
    (begun,) = await in_session(store, HOSTED)
    await store.hand_back(begun.seq, 1)
    await store.restart(begun.seq, 1)
    later = await make_store.instead_of(store, "b")
    await later.restart(begun.seq, 2)
    await later.finish(begun.seq, 3, UNKNOWN)
    await later.resolve(begun.seq, None)
    await later.give_up(begun.seq, 3, UNKNOWN)
    await later.resolve(begun.seq, DONE)
    assert await told(later) == [
        "1 hosted PROCESSING 1",
        "2 s awaiting_tools",
        "3 hosted PENDING 1",
        "4 hosted PROCESSING 2",
        "5 hosted PROCESSING 3",
        "6 hosted ERROR 3",
        "7 s ready",
        "8 hosted PENDING 3",
        "9 s awaiting_tools",
        "10 hosted ERROR 3",
        "11 s ready",
        "12 hosted COMPLETE 3",
    ]


async def test_the_status_of_a_session_is_told_when_it_changes_and_only_then(store: Store) -> None:
    a, b = await in_session(store, request("a"), request("b"))
    await store.cancel(a.seq)
    await store.cancel(b.seq)
    await store.cancel(b.seq)
    assert await told(store) == [
        "1 a PENDING 0",
        "2 s awaiting_tools",
        "3 b PENDING 0",
        "4 a ERROR 0",
        "5 b ERROR 0",
        "6 s ready",
    ]


async def test_what_was_rejected_is_told_and_leaves_the_session_ready(store: Store) -> None:
    await in_session(store, request(ending=UNKNOWN))
    assert await told(store) == ["1 r ERROR 0"]


async def test_what_changes_nothing_is_not_told(store: Store) -> None:
    await in_session(store, request())
    await store.answer(answer())
    before = await told(store)
    await store.add_turn("s", [request()])
    await store.answer(answer())
    await store.answer(answer(digest=b"other"))
    await store.beat([beat(), beat(attempt=1)])
    await store.leave(hand_back())
    assert await told(store) == before


async def test_a_request_that_is_claimed_by_its_answer_is_told_as_what_it_became(store: Store) -> None:
    await in_session(store, request())
    await store.answer(answer())
    assert (await told(store))[2:] == ["3 r COMPLETE 1", "4 s ready"]


async def test_a_claim_of_what_was_lost_is_told(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await clock.advance(TERMS.lease_s)
    await store.beat([beat(SECOND)])
    assert (await told(store))[-1].endswith("r PROCESSING 2")


async def test_a_claim_of_requests_among_calls_for_workers_is_told(store: Store, clock: ManualClock) -> None:
    """Ada works on her session and serves a tool, too: she gets what is oldest, whichever it is."""
    both = Claimant("default", "ada", worker="both", serves=frozenset({REFERENCE}))
    await store.begin(worker_call("older"))
    await clock.advance(1)
    await in_session(store, request())
    await clock.advance(1)
    await store.begin(worker_call("newer"))
    claims = await store.claim(ClaimFilter(both, limit=2))
    assert [claim.key.call_id for claim in claims] == ["older", "r"]
    assert (await told(store))[2:] == ["3 r PROCESSING 1"]
    assert [claim.key.call_id for claim in await store.claim(ClaimFilter(both, limit=2))] == ["newer"]
    assert len(await told(store)) == 3


async def test_events_are_read_on_from_any_number(store: Store) -> None:
    await in_session(store, *(request(f"r{number}") for number in range(5)))
    every = await store.events("s", 0, 100)
    assert [event.number for event in every] == [1, 2, 3, 4, 5, 6]
    assert await store.events("s", 2, 100) == every[2:]
    assert await store.events("s", 2, 3) == every[2:5]
    assert await store.events("s", 6, 100) == []
    assert await store.events("t", 0, 100) == []


async def test_each_session_has_its_own(store: Store) -> None:
    await in_session(store, request("a"))
    await in_session(store, request("b", session="t"), id="t")
    assert await told(store, "t") == ["1 b PENDING 0", "2 t awaiting_tools"]


async def test_calls_outside_a_session_tell_nothing(store: Store) -> None:
    await store.create_session(session())
    await store.begin(worker_call())
    assert await told(store, "direct") == await told(store, "s") == []


async def test_events_have_no_gaps_whatever_happens_at_the_same_instant(store: Store) -> None:
    ids = [f"r{number}" for number in range(20)]
    begun = await in_session(store, *(request(id) for id in ids))
    await asyncio.gather(
        *(store.beat([beat(request=id)]) for id in ids),
        *(store.answer(answer(request=id)) for id in ids),
        *(store.leave(hand_back(request=id)) for id in ids),
        *(store.cancel(each.seq) for each in begun[::2]),
        *(store.add_turn("s", [request(f"more-{number}")]) for number in range(5)),
    )
    numbers = [event.number for event in await store.events("s", 0, 1000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert there(await store.session("default", "ada", "s")).revision == len(numbers)
    last: dict[str, str] = {}
    for event in await store.events("s", 0, 1000):
        said = msgspec.json.decode(event.data)
        if event.kind == "request":
            assert last.get(said["requestId"]) not in ("COMPLETE", "ERROR"), "nothing after the end"
            last[said["requestId"]] = said["state"]
    rows = await store.session_requests("s", None)
    assert last == {row.request: row.state for row in rows}
