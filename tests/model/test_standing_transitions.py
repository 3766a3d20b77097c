"""Whatever a call stands like and whatever is written about it, at any time: the table of the lifecycle is kept."""

from collections.abc import Collection
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from toolyard.model.judge import ended_by, judge, settle
from toolyard.model.lifecycle import CODES, ENDED, TRANSITIONS, Move, State
from toolyard.model.record import Ending, Queue
from toolyard.model.writes import (
    Answer,
    ByNumber,
    CallState,
    Cancel,
    Claimant,
    Decision,
    HandBack,
    HeartbeatWrite,
    LeaseTerms,
    WaitForAccount,
    Write,
)

from ..text.soak import MANY
from .standings import ADA, DONE, FAILED, SECOND

BOB = Claimant("default", "bob")
moments = st.integers(0, 20).map(float)
maybe = st.none() | moments
attempts = st.integers(0, 4)
people = st.sampled_from([ADA, SECOND, BOB])
endings = st.sampled_from([DONE, FAILED, Ending(State.ERROR, "something", 0.0)])
limits = st.builds(LeaseTerms, lease_s=st.sampled_from([1.0, 5.0]), max_attempts=st.integers(1, 4))
digests = st.sampled_from([b"one", b"other"])
ERRORS = ["tool_failed", *(CODES[move] for move in (Move.REJECT, Move.EXPIRE, Move.CANCEL, Move.ABANDON, Move.UNKNOWN))]


@st.composite
def standings(draw: st.DrawFn, states: Collection[State] = tuple(State)) -> CallState:
    """Any that a ledger can hold."""
    state = draw(st.sampled_from(sorted(states)))
    begun = state in (State.PROCESSING, State.COMPLETE)
    attempt = draw(st.integers(1 if begun else 0, 3))
    running = state is State.PROCESSING
    queue = draw(st.sampled_from(get_args(Queue)))
    answered = state is State.COMPLETE or (state is State.ERROR and attempt > 0 and draw(st.booleans()))
    return CallState(
        seq=1,
        tenant="default",
        subject="ada",
        session="s",
        request="r",
        reference="Kit.Tool@1.0.0",
        queue=queue,
        on_lost=draw(st.sampled_from(["rerun", "unknown"])),
        run_s=draw(st.none() | st.just(7.0)),
        created_at=0.0,
        deadline_at=draw(maybe),
        queue_until=draw(maybe),
        state=state,
        code=_code(state, draw(st.sampled_from(ERRORS))),
        waiting_for=draw(st.sampled_from([None, "approval"])) if state is State.PENDING else None,
        attempt=attempt,
        losses=draw(st.integers(0, attempt)),
        holder=draw(people).holder if begun or answered else None,
        lease_until=draw(moments) if running else None,
        run_until=draw(maybe) if running else None,
        started_at=0.0 if attempt else None,
        finished_at=0.0 if state in ENDED else None,
        digest=draw(digests) if answered else None,
    )


def _code(state: State, error: str) -> str | None:
    return {State.COMPLETE: "success", State.ERROR: error}.get(state)


writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(
        HeartbeatWrite,
        session=st.just("s"),
        request=st.just("r"),
        who=people,
        attempt=st.none() | attempts,
        heartbeat=maybe,
        progress=st.none() | st.just(b"1"),
        claims=st.booleans(),
    ),
    st.builds(
        Answer,
        session=st.just("s"),
        request=st.just("r"),
        who=people,
        ending=endings,
        digest=digests,
        attempt=st.none() | attempts,
    ),
    st.builds(HandBack, session=st.just("s"), request=st.just("r"), who=people, attempt=st.none() | attempts),
    st.just(Cancel(1)),
    st.builds(
        Decision,
        seq=st.just(1),
        waiting_for=st.sampled_from(["approval", "answer"]),
        ending=st.none() | st.just(ended_by(Move.REJECT, "no", "none")),
        queue_s=st.none() | st.just(5.0),
    ),
    st.builds(
        WaitForAccount,
        seq=st.just(1),
        attempt=attempts,
        waiting_for=st.just("authorization"),
        queue_s=st.just(5.0),
        ending=st.none() | endings.filter(lambda ending: ending.state is State.ERROR),
    ),
)
anything = settings(max_examples=MANY, deadline=None)


def is_allowed(before: CallState, after: CallState) -> bool:
    """Whether the table has a way from one to the other, by the move whose code it ended with."""
    if before.state is after.state and before.attempt == after.attempt:
        return True
    steps = [
        move
        for move, state in TRANSITIONS[before.state].items()
        if state is after.state and (state not in ENDED or CODES.get(move) == after.code)
    ]
    if after.code not in CODES.values() and after.state is State.ERROR:
        steps += [Move.FAIL] if Move.FAIL in TRANSITIONS[before.state] else []  # a code of the tool's own
    return bool(steps)


@anything
@given(standings(), moments, limits)
def test_time_takes_only_ways_that_the_table_has(call: CallState, now: float, limits: LeaseTerms) -> None:
    settled = settle(call, now, limits)
    if settled is not None:
        assert settled.changed
        assert is_allowed(call, settled.standing)
        assert settled.standing.attempt == call.attempt
        assert settle(settled.standing, now, limits) is None, "all that time has done, at once"


@anything
@given(standings(), writes, moments, limits)
def test_writes_take_only_ways_that_the_table_has(
    call: CallState, write: Write, now: float, limits: LeaseTerms
) -> None:
    settled = settle(call, now, limits)
    before = settled.standing if settled else call
    after = judge(call, write, now, limits).standing
    assert is_allowed(before, after)
    if isinstance(write, WaitForAccount):
        assert after.attempt == before.attempt - (before.state is State.PROCESSING and after != before)
        return
    assert after.attempt - before.attempt in (0, 1)
    assert after.attempt == before.attempt or before.state is State.PENDING, "only what nobody has is claimed"


@anything
@given(standings(ENDED), writes, moments, limits)
def test_an_end_is_the_end(call: CallState, write: Write, now: float, limits: LeaseTerms) -> None:
    judged = judge(call, write, now, limits)
    assert (judged.standing, judged.changed, judged.ending) == (call, False, None)


@anything
@given(standings(), writes, moments, limits)
def test_a_refused_write_leaves_what_time_left(call: CallState, write: Write, now: float, limits: LeaseTerms) -> None:
    judged, settled = judge(call, write, now, limits), settle(call, now, limits)
    if judged.reason is None:
        return
    assert judged.standing == (settled.standing if settled else call)
    assert judged.changed is (settled is not None)
    assert judged.ending == (settled.ending if settled else None)


@anything
@given(standings(), writes, moments, limits)
def test_a_write_is_accepted_only_from_who_holds_or_claims(
    call: CallState, write: Write, now: float, limits: LeaseTerms
) -> None:
    settled = settle(call, now, limits)
    before, judged = settled.standing if settled else call, judge(call, write, now, limits)
    if isinstance(write, WaitForAccount) and judged.reason is None:
        assert (before.waiting_for, before.attempt) == (None, write.attempt)
    if isinstance(write, ByNumber) or judged.reason is not None:
        return
    assert before.waiting_for is None
    claims = before.state is State.PENDING and write.attempt is None
    holds = before.state is not State.PENDING and (
        write.attempt == before.attempt if write.attempt is not None else write.who.holder == before.holder
    )
    assert claims or holds
    if before.state in ENDED:
        assert isinstance(write, Answer)
        assert (write.digest, judged.changed) == (before.digest, False)


@anything
@given(standings(), writes, moments, limits)
def test_a_write_made_twice_has_its_effect_once(call: CallState, write: Write, now: float, limits: LeaseTerms) -> None:
    once = judge(call, write, now, limits)
    twice = judge(once.standing, write, now, limits)
    if isinstance(write, HeartbeatWrite) and once.reason is None and once.standing.attempt != call.attempt:
        assert twice.reason is None, "its claim holds, and the second renews it"
    if isinstance(write, Answer) and once.reason is None:
        assert (twice.reason, twice.changed) == (None, False)
    assert asdict(twice.standing) == asdict(once.standing)


@anything
@given(standings(), writes, moments, limits)
def test_the_ending_is_given_exactly_when_the_call_ends(
    call: CallState, write: Write, now: float, limits: LeaseTerms
) -> None:
    judged = judge(call, write, now, limits)
    ends = call.state not in ENDED and judged.standing.state in ENDED
    assert (judged.ending is not None) is ends
    if judged.ending is not None:
        assert (judged.ending.state, judged.ending.code) == (judged.standing.state, judged.standing.code)
        assert judged.standing.finished_at == now
        assert (judged.standing.lease_until, judged.standing.waiting_for) == (None, None)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_nothing_leads_out_of_an_end(state: State) -> None:
    assert not TRANSITIONS[state]
