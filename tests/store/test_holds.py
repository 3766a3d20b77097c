"""A call may wait for something from its beginning: nobody runs it before that has come, and one decision counts."""

import asyncio
import json

import pytest

from toolyard.model.judge import ended_by
from toolyard.model.lifecycle import Move, State, WaitingFor
from toolyard.model.record import Ending
from toolyard.model.writes import Decision, WaitForAccount
from toolyard.store.contract import Store
from toolyard.store.values import Filter

from .calls import WORKER, call, hand_back, in_session, request, there, wanted, worker_call
from .ledgers import TERMS, ManualClock, Opening

APPROVAL, AUTHORIZATION = WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION
NO = ended_by(Move.REJECT, "Ada said no", "none")


async def test_what_waits_is_run_by_nobody_until_it_may(store: Store) -> None:
    begun = await store.begin(call(waiting_for="approval", queue_s=60.0))
    row = there(await store.row(begun.seq))
    assert (row.state, row.waiting_for, row.attempt, row.holder) == (State.PENDING, "approval", 0, None)
    assert await store.unstarted(10) == []
    assert await store.restart(begun.seq, 0) is None
    assert [each.seq for each in await store.listed(Filter(None, waiting_for=APPROVAL))] == [begun.seq]
    judged = there(await store.release_wait(Decision(begun.seq, APPROVAL)))
    assert (judged.reason, judged.standing.waiting_for) == (None, None)
    assert [each.seq for each in await store.unstarted(10)] == [begun.seq]
    assert await store.listed(Filter(None, waiting_for=APPROVAL)) == []
    assert await store.restart(begun.seq, 0) == 1


async def test_one_decision_counts(store: Store) -> None:
    begun = await store.begin(call(waiting_for="approval", queue_s=60.0))
    decisions = [
        Decision(begun.seq, APPROVAL),
        Decision(begun.seq, APPROVAL, NO),
        Decision(begun.seq, APPROVAL),
    ]
    judged = await asyncio.gather(*map(store.release_wait, decisions))
    assert [there(each).reason is None for each in judged].count(True) == 1


async def test_a_no_ends_it_and_the_reason_stays(store: Store) -> None:
    begun = await store.begin(call(waiting_for="approval", queue_s=60.0))
    judged = there(await store.release_wait(Decision(begun.seq, APPROVAL, NO)))
    assert judged.reason is None
    row = there(await store.row(begun.seq))
    assert (row.state, row.code, row.waiting_for, row.effects) == (State.ERROR, "rejected", None, "none")
    assert b"Ada said no" in (row.error or b"")
    assert there(await store.release_wait(Decision(begun.seq, APPROVAL))).reason == "failed"


async def test_what_waits_for_another_thing_or_for_nothing_is_not_decided(store: Store) -> None:
    begun = await store.begin(call(waiting_for="authorization", queue_s=60.0))
    running = await store.begin(call("other"))
    assert there(await store.release_wait(Decision(begun.seq, APPROVAL))).reason == "conflict"
    assert there(await store.release_wait(Decision(running.seq, APPROVAL))).reason == "conflict"
    assert there(await store.row(begun.seq)).waiting_for == "authorization"
    assert await store.release_wait(Decision(10**9, APPROVAL)) is None


async def test_nobody_waits_for_ever(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call(waiting_for="approval", queue_s=60.0))
    await clock.advance(61)
    assert there(await store.release_wait(Decision(begun.seq, APPROVAL))).reason == "abandoned"
    await store.expire(10)
    assert there(await store.row(begun.seq)).code == "timed_out"


async def test_a_workers_call_can_be_claimed_once_it_may_run_and_for_so_long(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(waiting_for="approval", queue_s=60.0))
    assert await store.claim(wanted(WORKER)) == []
    await clock.advance(59)
    await store.release_wait(Decision(begun.seq, APPROVAL, queue_s=30.0))
    await clock.advance(29)
    assert await store.expire(10) == 0
    assert [each.seq for each in await store.claim(wanted(WORKER))] == [begun.seq]


@pytest.mark.parametrize("ending", [None, NO])
async def test_what_waits_outlives_its_server(store: Store, make_store: Opening, ending: object) -> None:
    begun = await store.begin(call(waiting_for="approval", queue_s=60.0))
    later = await make_store.instead_of(store, "b")
    assert there(await later.row(begun.seq)).waiting_for == "approval"
    await later.release_wait(Decision(begun.seq, APPROVAL, ending))  # type: ignore[arg-type]
    assert [each.seq for each in await later.unstarted(10)] == ([begun.seq] if ending is None else [])


async def test_a_sessions_request_says_that_it_waits(store: Store) -> None:
    (begun,) = await in_session(store, request(queue="node", waiting_for="approval"))
    (waiting,) = await store.session_requests("s", None)
    assert (waiting.state, waiting.waiting_for) == (State.PENDING, "approval")
    await store.release_wait(Decision(begun.seq, APPROVAL, NO))
    kinds = [each.kind for each in await store.events("s", 0, 100)]
    assert kinds.count("request") == 2


async def test_what_was_to_begin_waits_for_what_it_lacks(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(call(waiting_for="approval", queue_s=60.0))
    await store.release_wait(Decision(begun.seq, APPROVAL))
    await store.hold(WaitForAccount(begun.seq, 0, AUTHORIZATION, 60.0))
    row = there(await store.row(begun.seq))
    assert (row.state, row.waiting_for, row.attempt) == (State.PENDING, "authorization", 0)
    assert await store.unstarted(10) == []
    assert there(await store.hold(WaitForAccount(begun.seq, 0, AUTHORIZATION, 60.0))).reason == "stale_attempt"
    await clock.advance(61)
    await store.expire(10)
    ended = there(await store.row(begun.seq))
    assert (ended.code, ended.effects) == ("timed_out", "none")
    assert b"Nobody connected the account that the call needs in time" in (ended.error or b"")


async def test_a_claim_that_nobody_was_given_does_not_count(store: Store) -> None:
    begun = await store.begin(worker_call())
    (claim,) = await store.claim(wanted(WORKER))
    await store.hold(WaitForAccount(begun.seq, claim.attempt, AUTHORIZATION, 60.0))
    row = there(await store.row(begun.seq))
    assert (row.state, row.waiting_for, row.attempt, row.holder) == (State.PENDING, "authorization", 0, None)
    assert await store.claim(wanted(WORKER)) == []
    await store.release_wait(Decision(begun.seq, AUTHORIZATION, queue_s=60.0))
    assert [each.attempt for each in await store.claim(wanted(WORKER))] == [1]


async def test_what_waits_after_an_attempt_does_not_wait_for_ever_either(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(on_lost="rerun"))
    (first,) = await store.claim(wanted(WORKER))
    await store.leave(hand_back(WORKER, first.attempt, request=there(first.request), session="direct"))
    (claim,) = await store.claim(wanted(WORKER))
    await store.hold(WaitForAccount(begun.seq, claim.attempt, AUTHORIZATION, 60.0))
    await clock.advance(61)
    await store.expire(10)
    ended = there(await store.row(begun.seq))
    assert (ended.code, ended.effects, ended.attempt) == ("timed_out", "unknown", 1)


@pytest.mark.parametrize("claims", [False, True])
async def test_what_cannot_wait_for_what_it_lacks_ends_and_frees_its_key(store: Store, claims: bool) -> None:
    lacking = Ending(State.ERROR, "tool_failed", 0.0, error=b"{}", releases_key=True)
    new = worker_call if claims else call
    begun = await store.begin(new() if claims else new(waiting_for="approval", queue_s=60.0))
    if claims:
        await store.claim(wanted(WORKER))
    else:
        await store.release_wait(Decision(begun.seq, APPROVAL))
    await store.hold(WaitForAccount(begun.seq, int(claims), AUTHORIZATION, 60.0, lacking))
    row = there(await store.row(begun.seq))
    assert (row.state, row.code, row.effects, row.attempt) == (State.ERROR, "tool_failed", "none", 0)
    assert (await store.begin(new())).seq not in (0, begun.seq)


async def test_a_claim_that_was_lost_meanwhile_is_not_held_back(store: Store, clock: ManualClock) -> None:
    begun = await store.begin(worker_call(on_lost="rerun"))
    await store.claim(wanted(WORKER))
    await clock.advance(TERMS.lease_s)
    await store.expire(10)
    (second,) = await store.claim(wanted(WORKER))
    assert there(await store.hold(WaitForAccount(begun.seq, 1, AUTHORIZATION, 60.0))).reason == "stale_attempt"
    assert there(await store.row(begun.seq)).attempt == second.attempt


async def test_a_session_is_told_what_its_request_waits_for(store: Store) -> None:
    (begun,) = await in_session(store, request(queue="node", waiting_for="authorization"))
    await store.release_wait(Decision(begun.seq, AUTHORIZATION, queue_s=60.0, then=APPROVAL))
    told = [json.loads(each.data) for each in await store.events("s", 0, 100) if each.kind == "request"]
    assert [each.get("waitingFor") for each in told] == ["authorization", "approval"]
