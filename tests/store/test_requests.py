"""Those who work on a request say so, answer, or give it back; the store writes down what the rules say."""

import asyncio

import pytest

from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.model.writes import Claimant
from toolyard.store.contract import Store

from .calls import (
    ADA,
    BOB,
    DONE,
    FAILED,
    RETRY,
    SECOND,
    WORKER,
    answer,
    beat,
    hand_back,
    in_session,
    name,
    request,
    there,
    wanted,
    worker_call,
)
from .ledgers import TERMS, ManualClock

# --- heartbeats ----------------------------------------------------------------------------------


async def test_the_first_heartbeat_claims_and_the_next_renew(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    (first,) = await store.beat([beat(heartbeat=5.0)])
    assert (there(first).reason, there(first).attempt) == (None, 1)
    await clock.advance(10)
    (second,) = await store.beat([beat(attempt=1, heartbeat=4.0, progress=b'{"done":1}')])
    assert there(second).reason is None
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.attempt, row.holder) == (State.PROCESSING, 1, ADA.holder)
    assert (row.lease_until, row.seen_at) == (clock.now + TERMS.lease_s, clock.now)
    assert (row.heartbeat, row.progress, row.started_at) == (4.0, b'{"done":1}', clock.now - 10)


async def test_many_beats_have_a_verdict_each_in_order(store: Store) -> None:
    begun = await in_session(store, *(request(f"r{number}") for number in range(4)))
    await store.claim(wanted(limit=2))
    await store.claim(wanted(SECOND, limit=1))
    verdicts = await store.beat(
        [
            beat(attempt=1, request="r1"),
            beat(attempt=2, request="r0"),
            beat(request="nothing"),
            beat(request="r2"),
            beat(request="r3", claims=False),
            beat(attempt=1, request="r0"),
            beat(BOB, attempt=1, request="r0"),
            beat(attempt=1, request="r1", session="t"),
        ]
    )
    seqs = [each.seq for each in begun]
    reasons = [verdict and (seqs.index(verdict.seq), verdict.reason) for verdict in verdicts]
    assert reasons == [
        (1, None), (0, "stale_attempt"), None, (2, "held"), (3, "stale_attempt"), (0, None), None, None,
    ]  # fmt: skip
    assert await store.beat([]) == []


async def test_a_refused_beat_writes_nothing(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    before = await store.request(ADA, "s", "r")
    await clock.advance(1)
    await store.beat([beat(SECOND, progress=b"1"), beat(attempt=9, heartbeat=9.0)])
    assert await store.request(ADA, "s", "r") == before


async def test_of_many_first_heartbeats_at_the_same_instant_one_claims(store: Store) -> None:
    await in_session(store, request())
    people = [Claimant("default", "ada", worker=f"w{number}") for number in range(20)]
    verdicts = await asyncio.gather(*(store.beat([beat(who)]) for who in people))
    reasons = [there(verdict).reason for (verdict,) in verdicts]
    assert sorted(reasons, key=str) == [None] + ["held"] * 19
    assert there(await store.request(ADA, "s", "r")).attempt == 1


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [DONE, FAILED], ids=["a result", "an error"])
async def test_an_answer_ends_the_request_and_is_kept_as_it_was(
    store: Store, clock: ManualClock, ending: Ending
) -> None:
    await in_session(store, request(sealed=b"sealed"))
    await store.beat([beat()])
    await clock.advance(2)
    judged = there(await store.answer(answer(attempt=1, ending=ending)))
    assert (judged.reason, judged.changed) == (None, True)
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.code, row.value, row.error) == (ending.state, ending.code, ending.value, ending.error)
    assert (row.duration_ms, row.finished_at, row.attempt) == (ending.duration_ms, clock.now, 1)
    assert (row.sealed, row.lease_until) == (None, None)


async def test_an_answer_without_a_heartbeat_is_taken(store: Store) -> None:
    await in_session(store, request())
    assert there(await store.answer(answer())).reason is None
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.attempt, row.holder) == (State.COMPLETE, 1, ADA.holder)


async def test_the_same_answer_again_is_taken_and_nothing_is_written(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await store.answer(answer(attempt=1))
    before, events = await store.request(ADA, "s", "r"), await store.events("s", 0, 100)
    await clock.advance(1)
    for again in (answer(attempt=1), answer(), answer(attempt=1, ending=FAILED)):
        judged = there(await store.answer(again))
        assert (judged.reason, judged.changed) == (None, False)
    assert await store.request(ADA, "s", "r") == before
    assert await store.events("s", 0, 100) == events


async def test_another_answer_is_refused(store: Store) -> None:
    await in_session(store, request())
    await store.answer(answer())
    before = await store.request(ADA, "s", "r")
    assert there(await store.answer(answer(digest=b"other", ending=FAILED))).reason == "conflict"
    assert there(await store.answer(answer(attempt=1, digest=b"other"))).reason == "conflict"
    assert there(await store.answer(answer(SECOND))).reason == "completed"
    assert await store.request(ADA, "s", "r") == before


async def test_an_answer_from_an_attempt_that_was_superseded_is_stale(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await clock.advance(TERMS.lease_s)
    (judged,) = await store.beat([beat(SECOND)])
    assert there(judged).attempt == 2
    assert there(await store.answer(answer(attempt=1))).reason == "stale_attempt"
    assert there(await store.answer(answer())).reason == "held"
    assert there(await store.answer(answer(SECOND, 2, FAILED, b"second's"))).reason is None
    assert there(await store.answer(answer(attempt=1, digest=b"second's"))).reason == "stale_attempt"
    assert there(await store.request(ADA, "s", "r")).error == FAILED.error


async def test_of_many_answers_at_the_same_instant_one_is_kept(store: Store) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    bodies = [str(number).encode() for number in range(20)]
    endings = [Ending(State.COMPLETE, "success", 1.0, value=body) for body in bodies]
    judged = await asyncio.gather(
        *(store.answer(answer(attempt=1, ending=end, digest=end.value or b"")) for end in endings)
    )
    (won,) = [body for body, each in zip(bodies, judged, strict=True) if there(each).reason is None]
    assert sorted(there(each).reason or "" for each in judged) == [""] + ["conflict"] * 19
    assert there(await store.request(ADA, "s", "r")).value == won


async def test_a_failure_that_says_so_frees_the_key_of_a_call_but_not_of_a_sessions_request(store: Store) -> None:
    begun = await store.begin(worker_call())
    await store.claim(wanted(WORKER))
    await store.answer(answer(WORKER, 1, RETRY, request=await name(store, begun), session="direct"))
    again = await store.begin(worker_call())
    assert again.seq > 0, "the next call with that key is a new one"
    await in_session(store, request())
    await store.answer(answer(ending=RETRY))
    (known,) = await store.add_turn("s", [request()])
    assert there(known.known).state is State.ERROR, "a tool use has one result"


async def test_a_call_that_was_made_again_after_a_failure_has_a_request_of_its_own(store: Store) -> None:
    begun = await store.begin(worker_call())
    await store.claim(wanted(WORKER))
    await store.answer(answer(WORKER, 1, RETRY, request=await name(store, begun), session="direct"))
    await store.begin(worker_call())
    (second,) = await store.claim(wanted(WORKER))
    assert second.attempt == 1
    assert there(await store.answer(answer(WORKER, 1, request=there(second.request), session="direct"))).reason is None
    assert there(await store.row(second.seq)).state is State.COMPLETE
    assert there(await store.get("default", "ada", "call-1")).seq == second.seq


async def test_there_is_nothing_to_answer(store: Store) -> None:
    await in_session(store, request())
    assert await store.answer(answer(request="another")) is None
    assert await store.answer(answer(session="another")) is None


# --- given back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [None, 1])
async def test_what_is_given_back_is_anybodys(store: Store, attempt: int | None) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    judged = there(await store.leave(hand_back(attempt=attempt)))
    assert (judged.reason, judged.state) == (None, State.PENDING)
    row = there(await store.request(ADA, "s", "r"))
    assert (row.state, row.attempt, row.losses, row.holder, row.lease_until) == (State.PENDING, 1, 0, None, None)
    assert [each.attempt for each in await store.claim(wanted(SECOND))] == [2]


async def test_only_who_holds_it_gives_it_back(store: Store) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    assert there(await store.leave(hand_back(SECOND))).reason == "held"
    assert there(await store.leave(hand_back(attempt=2))).reason == "stale_attempt"
    assert await store.leave(hand_back(BOB, 1)) is None
    assert await store.leave(hand_back(request="another")) is None
    assert there(await store.request(ADA, "s", "r")).state is State.PROCESSING


async def test_given_back_twice_is_given_back_once(store: Store) -> None:
    await in_session(store, request())
    await store.beat([beat()])
    await store.leave(hand_back(attempt=1))
    assert there(await store.leave(hand_back(attempt=1))).reason == "stale_attempt"
    await store.beat([beat(SECOND)])
    assert there(await store.leave(hand_back(attempt=1))).reason == "stale_attempt"
    assert there(await store.request(ADA, "s", "r")).holder == SECOND.holder
