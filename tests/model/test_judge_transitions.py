"""Whatever state a call is in and whatever is written about it, at any time: the table of the lifecycle is kept, and
each of its moves is made."""

from collections.abc import Collection
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from toolyard.model.judge import ended_by, ending_move, is_unstarted, judge, runs, settle, was_made
from toolyard.model.lifecycle import CODES, ENDED, TRANSITIONS, Move, State, WaitingFor
from toolyard.model.record import Ending, Queue
from toolyard.model.writes import (
    Answer,
    Ask,
    ByNumber,
    CallState,
    Cancel,
    Claimant,
    Decision,
    Finish,
    GiveUp,
    GoBack,
    HandBack,
    HeartbeatWrite,
    LeaseTerms,
    NodeHandBack,
    NodeWrite,
    QuestionsClosed,
    Resolve,
    Restart,
    WaitForAccount,
    Write,
)

from ..text.soak import MANY
from .standings import (
    ADA,
    CANCEL,
    DONE,
    FAILED,
    LIMITS,
    NOW,
    SECOND,
    answer,
    beat,
    ended,
    hand_back,
    pending,
    processing,
)

BOB = Claimant("default", "bob")
moments = st.integers(0, 20).map(float)
maybe = st.none() | moments
attempts = st.integers(0, 4)
people = st.sampled_from([ADA, SECOND, BOB])
nodes = st.sampled_from(["a", "b"])
errors = st.sampled_from(
    [FAILED, Ending(State.ERROR, "something", 0.0), ended_by(Move.UNKNOWN, "who knows", "unknown")]
)
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
        waiting_for=draw(st.sampled_from(_waits(state, queue))),
        attempt=attempt,
        losses=draw(st.integers(0, attempt)),
        holder=(draw(nodes) if queue == "node" else draw(people).holder) if begun or answered else None,
        lease_until=draw(moments) if running and queue != "node" else None,
        run_until=draw(maybe) if running and queue != "node" else None,
        started_at=0.0 if attempt else None,
        finished_at=0.0 if state in ENDED else None,
        digest=draw(digests) if answered else None,
    )


def _waits(state: State, queue: Queue) -> list[WaitingFor | None]:
    if state is State.PENDING:
        return [None, WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION]
    return [None, WaitingFor.ANSWER] if state is State.PROCESSING and queue == "node" else [None]


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
        waiting_for=st.sampled_from([WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION]),
        ending=st.none() | st.just(ended_by(Move.REJECT, "no", "none")),
        queue_s=st.none() | st.just(5.0),
    ),
    st.builds(
        WaitForAccount,
        seq=st.just(1),
        attempt=attempts,
        waiting_for=st.just(WaitingFor.AUTHORIZATION),
        queue_s=st.just(5.0),
        ending=st.none() | errors,
    ),
    st.builds(Finish, st.just(1), attempts, nodes, endings | errors),
    st.builds(NodeHandBack, st.just(1), attempts, nodes),
    st.builds(Ask, st.just(1), attempts, nodes),
    st.just(QuestionsClosed(1)),
    st.builds(Restart, st.just(1), attempts, nodes),
    st.builds(GiveUp, st.just(1), attempts, nodes, errors),
    st.builds(Resolve, st.just(1), st.none() | endings),
    st.builds(GoBack, st.just(1), attempts),
)
anything = settings(max_examples=MANY, deadline=None)


def is_allowed(before: CallState, after: CallState) -> bool:
    """Whether the table has a way from one to the other. One write may be two moves: an answer that nobody claimed for
    claims first, and what lacks its account just after it was claimed gives that attempt back before it ends."""
    if before.state is after.state and before.attempt == after.attempt:
        return True
    between = [TRANSITIONS[before.state][move] for move in (Move.CLAIM, Move.WAIT) if move in TRANSITIONS[before.state]]
    return any(_leads(state, after) for state in (before.state, *between))


def _leads(state: State, after: CallState) -> bool:
    if after.state in ENDED:
        move = ending_move(state, Ending(after.state, after.code or "", 0.0))
        return TRANSITIONS[state].get(move) is after.state
    return after.state in TRANSITIONS[state].values()


def settled_for(call: CallState, write: Write, now: float, limits: LeaseTerms) -> CallState:
    """What the write finds: some are not preceded by what is overdue."""
    settled = None if isinstance(write, NodeWrite | GoBack) else settle(call, now, limits)
    return settled.standing if settled else call


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
    before, after = settled_for(call, write, now, limits), judge(call, write, now, limits).standing
    assert is_allowed(before, after)
    if isinstance(write, WaitForAccount):
        assert after.attempt == before.attempt - (before.state is State.PROCESSING and after != before)
        return
    if isinstance(write, GoBack):
        assert (after.attempt > before.attempt) is (before.state not in ENDED)
        return
    assert after.attempt - before.attempt in (0, 1)
    claims = before.state is State.PENDING or isinstance(write, Restart)
    assert after.attempt == before.attempt or claims, "only what nobody has is claimed"


@anything
@given(standings(ENDED), writes, moments, limits)
def test_an_end_is_the_end_but_for_a_person_who_resolves_it(
    call: CallState, write: Write, now: float, limits: LeaseTerms
) -> None:
    judged = judge(call, write, now, limits)
    if isinstance(write, Resolve) and call.code == CODES[Move.UNKNOWN]:
        assert judged.reason is None
        assert judged.standing.state is (State.PENDING if write.ending is None else write.ending.state)
        return
    assert (judged.standing, judged.changed, judged.ending) == (call, False, None)


@anything
@given(standings(), writes, moments, limits)
def test_a_refused_write_leaves_what_time_left(call: CallState, write: Write, now: float, limits: LeaseTerms) -> None:
    judged, settled = judge(call, write, now, limits), settle(call, now, limits)
    if judged.reason is None:
        return
    if isinstance(write, NodeWrite | GoBack):
        settled = None
    assert judged.standing == (settled.standing if settled else call)
    assert judged.changed is (settled is not None)
    assert judged.ending == (settled.ending if settled else None)


@anything
@given(standings(), writes, moments, limits, st.booleans())
def test_a_write_is_accepted_only_from_who_holds_or_claims(
    call: CallState, write: Write, now: float, limits: LeaseTerms, is_held: bool
) -> None:
    before, judged = settled_for(call, write, now, limits), judge(call, write, now, limits, is_held=is_held)
    accepted = judged.reason is None
    if isinstance(write, Finish | NodeHandBack | Ask):
        assert accepted is runs(call, write.attempt, write.node)
    elif isinstance(write, Restart | GiveUp):
        nobodys = is_unstarted(call, write.node, is_held=is_held)
        assert accepted is (nobodys and call.attempt == write.attempt)
    elif isinstance(write, WaitForAccount) and accepted:
        assert (before.waiting_for, before.attempt) == (None, write.attempt)
    if isinstance(write, ByNumber) or not accepted:
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
    if isinstance(write, Decision | WaitForAccount) and once.reason is None and twice.reason is None:
        return  # it waited, went on, and waits for the same once more
    if isinstance(write, GoBack):
        twice.standing.attempt = once.standing.attempt  # one more number that nobody is given
    assert asdict(twice.standing) == asdict(once.standing)


KNOWN_AGAIN = HandBack | Restart | GiveUp | Cancel | Resolve | Decision | WaitForAccount


@anything
@given(standings(), writes, moments, limits)
def test_a_write_that_was_made_is_known_again(call: CallState, write: Write, now: float, limits: LeaseTerms) -> None:
    once = judge(call, write, now, limits)
    if once.reason is None and isinstance(write, KNOWN_AGAIN):
        assert was_made(once.standing, write)


@anything
@given(standings(), writes, moments, limits)
def test_the_ending_is_given_exactly_when_the_call_ends(
    call: CallState, write: Write, now: float, limits: LeaseTerms
) -> None:
    judged = judge(call, write, now, limits)
    ends = judged.standing.state in ENDED and judged.changed
    assert (judged.ending is not None) is ends
    if judged.ending is not None:
        assert (judged.ending.state, judged.ending.code) == (judged.standing.state, judged.standing.code)
        assert judged.standing.finished_at == now
        assert (judged.standing.lease_until, judged.standing.waiting_for) == (None, None)


# --- each move of the table ------------------------------------------------------------------------------------------


def node_runs(**changes: Any) -> CallState:
    return processing(**{"queue": "node", "holder": "a", "lease_until": None} | changes)


APPROVAL, ACCOUNT, ANSWER = WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION, WaitingFor.ANSWER
NO = ended_by(Move.REJECT, "no", "none")
GONE = ended_by(Move.UNKNOWN, "who knows", "unknown")
NEVER = ended_by(Move.ABANDON, "too often", "unknown")
unknown = ended("outcome_unknown")

MADE: dict[tuple[State, Move], tuple[CallState, Write | None]] = {
    (State.PENDING, Move.CLAIM): (pending(), beat()),
    (State.PENDING, Move.RESTART): (pending(queue="node"), Restart(1, 0, "a")),
    (State.PENDING, Move.WAIT): (pending(), WaitForAccount(1, 0, ACCOUNT, 9.0)),
    (State.PENDING, Move.RESUME): (pending(waiting_for=APPROVAL), Decision(1, APPROVAL)),
    (State.PENDING, Move.GO_BACK): (pending(), GoBack(1, 7)),
    (State.PENDING, Move.FAIL): (pending(), WaitForAccount(1, 0, ACCOUNT, 9.0, FAILED)),
    (State.PENDING, Move.REJECT): (pending(waiting_for=APPROVAL), Decision(1, APPROVAL, NO)),
    (State.PENDING, Move.EXPIRE): (pending(queue_until=NOW), None),
    (State.PENDING, Move.CANCEL): (pending(), CANCEL),
    (State.PENDING, Move.ABANDON): (processing(), WaitForAccount(1, 1, ACCOUNT, 0.0, NEVER)),
    (State.PENDING, Move.UNKNOWN): (pending(queue="node", attempt=1), GiveUp(1, 1, "a", GONE)),
    (State.PROCESSING, Move.RENEW): (processing(), beat()),
    (State.PROCESSING, Move.RESTART): (node_runs(), Restart(1, 1, "b")),
    (State.PROCESSING, Move.ASK): (node_runs(), Ask(1, 1, "a")),
    (State.PROCESSING, Move.RESUME): (node_runs(waiting_for=ANSWER), QuestionsClosed(1)),
    (State.PROCESSING, Move.WAIT): (processing(), WaitForAccount(1, 1, ACCOUNT, 9.0)),
    (State.PROCESSING, Move.RELEASE): (processing(), hand_back()),
    (State.PROCESSING, Move.LOSE): (processing(lease_until=NOW), None),
    (State.PROCESSING, Move.GO_BACK): (processing(), GoBack(1, 7)),
    (State.PROCESSING, Move.COMPLETE): (processing(), answer()),
    (State.PROCESSING, Move.FAIL): (node_runs(), Finish(1, 1, "a", FAILED)),
    (State.PROCESSING, Move.EXPIRE): (processing(run_until=NOW), None),
    (State.PROCESSING, Move.CANCEL): (node_runs(), CANCEL),
    (State.PROCESSING, Move.ABANDON): (processing(lease_until=NOW, losses=2), None),
    (State.PROCESSING, Move.UNKNOWN): (node_runs(), Finish(1, 1, "a", GONE)),
    (State.ERROR, Move.COMPLETE): (unknown, Resolve(1, DONE)),
    (State.ERROR, Move.FAIL): (unknown, Resolve(1, FAILED)),
    (State.ERROR, Move.REOPEN): (unknown, Resolve(1, None)),
}
"""What makes each move; where nothing is written, it is time that does."""


def test_every_move_of_the_table_is_made_and_every_move_is_in_it() -> None:
    assert set(MADE) == {(state, move) for state, moves in TRANSITIONS.items() for move in moves}
    assert {move for _, move in MADE} == set(Move)
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize(("state", "move"), MADE, ids=lambda each: str(each))
def test_a_move_leads_where_the_table_says(state: State, move: Move) -> None:
    call, write = MADE[state, move]
    judged = settle(call, NOW, LIMITS) if write is None else judge(call, write, NOW, LIMITS)
    assert judged is not None
    assert (judged.reason, judged.changed) == (None, True)
    after = TRANSITIONS[state][move]
    assert judged.standing.state is after
    if after in ENDED:
        assert judged.standing.code == CODES[move]


def test_only_a_person_leads_out_of_an_end() -> None:
    assert frozenset({State.COMPLETE, State.ERROR}) == ENDED
    assert not TRANSITIONS[State.COMPLETE]
    assert set(TRANSITIONS[State.ERROR]) == {Move.COMPLETE, Move.FAIL, Move.REOPEN}


@pytest.mark.parametrize("state", [State.PENDING, State.PROCESSING])
def test_an_error_with_a_code_of_its_own_is_a_failure(state: State) -> None:
    assert ending_move(state, Ending(State.ERROR, "something", 0.0)) is Move.FAIL
    assert ending_move(State.PROCESSING, Ending(State.ERROR, "rejected", 0.0)) is Move.FAIL, "no person was asked"
