"""What nodes write about the calls that they run themselves, what a person writes about one whose outcome is unknown,
and when a call's key is free again."""

from typing import Any

import pytest
from msgspec.structs import replace

from toolyard.model.judge import ended_by, frees_key, is_unstarted, judge, runs, settle, was_made
from toolyard.model.lifecycle import CODES, Move, State, WaitingFor
from toolyard.model.record import Ending
from toolyard.model.writes import (
    DIRECT,
    Ask,
    CallState,
    Decision,
    Finish,
    GiveUp,
    NodeHandBack,
    QuestionsClosed,
    Resolve,
    Restart,
    WaitForAccount,
    Write,
)

from .standings import CANCEL, DONE, FAILED, LIMITS, NOW, ended, hand_back, judged, pending, processing, there

UNKNOWN = ended_by(Move.UNKNOWN, "who knows", "unknown")
APPROVAL, ACCOUNT, ANSWER = WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION, WaitingFor.ANSWER


def running(**changes: Any) -> CallState:
    """A call that node `a` runs, its second attempt."""
    given = {"queue": "node", "holder": "a", "attempt": 2, "losses": 1, "lease_until": None, "progress": b"1"}
    return processing(**given | changes)


def waiting(**changes: Any) -> CallState:
    """A call that is a node's to run, and that none runs."""
    return pending(**{"queue": "node", "attempt": 2, "losses": 1} | changes)


# --- the fence of the node that runs it ------------------------------------------------------------------------------

LATE: dict[str, tuple[CallState, int, str, str]] = {
    "the attempt before": (running(), 1, "a", "stale_attempt"),
    "an attempt to come": (running(), 3, "a", "stale_attempt"),
    "another node": (running(), 2, "b", "stale_attempt"),
    "it was handed back": (waiting(), 2, "a", "stale_attempt"),
    "it is a worker's": (running(queue="worker"), 2, "a", "stale_attempt"),
    "it was cancelled": (ended("cancelled", queue="node", holder="a", attempt=2), 2, "a", "cancelled"),
    "its time was over": (ended("timed_out", queue="node", holder="a", attempt=2), 2, "a", "abandoned"),
}


@pytest.mark.parametrize("write", [Finish, NodeHandBack, Ask])
@pytest.mark.parametrize(("call", "attempt", "node", "reason"), LATE.values(), ids=LATE)
def test_who_does_not_run_it_any_more_is_too_late(
    write: Any, call: CallState, attempt: int, node: str, reason: str
) -> None:
    ending = (DONE,) if write is Finish else ()
    now = judged(call, write(1, attempt, node, *ending))
    assert (now.reason, now.changed, now.ending, now.standing) == (reason, False, None, call)
    assert not runs(call, attempt, node)


@pytest.mark.parametrize("ending", [DONE, FAILED, UNKNOWN])
@pytest.mark.parametrize("waits", [None, ANSWER])
def test_who_runs_it_ends_it_and_its_own_measure_counts(ending: Ending, waits: WaitingFor | None) -> None:
    now = judged(running(waiting_for=waits), Finish(1, 2, "a", ending))
    assert (now.reason, now.ending) == (None, ending), "also where it took no time"
    call = now.standing
    assert (call.state, call.code, call.effects) == (ending.state, ending.code, ending.effects)
    assert (call.finished_at, call.waiting_for, call.holder, call.attempt) == (NOW, None, "a", 2)


def test_a_result_that_comes_a_moment_after_the_deadline_counts_unless_somebody_noticed() -> None:
    late = running(deadline_at=NOW)
    assert judged(late, Finish(1, 2, "a", DONE)).standing.state is State.COMPLETE
    noticed = there(settle(late, NOW, LIMITS)).standing
    assert judged(noticed, Finish(1, 2, "a", DONE)).reason == "abandoned"


def test_what_a_node_hands_back_is_any_nodes_and_not_lost() -> None:
    call = judged(running(waiting_for=ANSWER), NodeHandBack(1, 2, "a")).standing
    assert (call.state, call.holder, call.waiting_for) == (State.PENDING, None, None)
    assert (call.attempt, call.losses) == (2, 1)
    assert is_unstarted(call, "b", is_held=False)


def test_a_run_that_asks_waits_where_it_is_until_it_is_answered() -> None:
    asks = judged(running(), Ask(1, 2, "a")).standing
    assert (asks.state, asks.waiting_for, asks.holder) == (State.PROCESSING, ANSWER, "a")
    assert judged(asks, QuestionsClosed(1)).standing == running()


@pytest.mark.parametrize(
    "call", [running(), waiting(waiting_for=APPROVAL)], ids=["it asks nothing", "it has not begun"]
)
def test_an_answer_lets_nothing_else_go_on(call: CallState) -> None:
    now = judged(call, QuestionsClosed(1))
    assert (now.reason, now.standing) == ("conflict", call)


# --- calls that nobody runs ------------------------------------------------------------------------------------------

NOBODYS = {
    "handed back": (waiting(), 1),
    "approved, and never begun": (waiting(attempt=0, losses=0), 0),
    "lost with its node": (running(), 2),
    "lost while it asked": (running(waiting_for=ANSWER), 2),
}


@pytest.mark.parametrize(("call", "losses"), NOBODYS.values(), ids=NOBODYS)
def test_what_nobody_runs_is_started_once_and_a_loss_is_counted(call: CallState, losses: int) -> None:
    assert is_unstarted(call, "b", is_held=False)
    now = judged(call, Restart(1, call.attempt, "b"))
    assert (now.reason, now.ending) == (None, None)
    after = now.standing
    assert (after.state, after.holder, after.started_at, after.waiting_for) == (State.PROCESSING, "b", NOW, None)
    assert (after.attempt, after.losses) == (call.attempt + 1, losses)
    assert judged(after, Restart(1, call.attempt, "c")).reason == "stale_attempt"


@pytest.mark.parametrize(("call", "losses"), NOBODYS.values(), ids=NOBODYS)
def test_what_nobody_runs_is_given_up_once(call: CallState, losses: int) -> None:
    now = judged(call, GiveUp(1, call.attempt, "b", UNKNOWN))
    assert (now.reason, now.ending) == (None, UNKNOWN)
    assert (now.standing.state, now.standing.code, now.standing.losses) == (State.ERROR, "outcome_unknown", losses)
    assert judged(now.standing, GiveUp(1, call.attempt, "b", FAILED)).reason == "abandoned"


SOMEBODYS: dict[str, tuple[CallState, str]] = {
    "this node runs it": (running(holder="b"), "held"),
    "it waits for a person": (waiting(waiting_for=APPROVAL), "waiting"),
    "it waits for an account": (waiting(waiting_for=ACCOUNT), "waiting"),
    "it is a worker's": (waiting(queue="worker"), "held"),
    "it is a session's": (waiting(queue="session"), "held"),
    "it has ended": (ended("tool_failed", queue="node", attempt=2), "failed"),
}


@pytest.mark.parametrize(("call", "reason"), SOMEBODYS.values(), ids=SOMEBODYS)
def test_what_is_somebodys_is_neither_started_nor_given_up(call: CallState, reason: str) -> None:
    assert not is_unstarted(call, "b", is_held=False)
    for write in (Restart(1, 2, "b"), GiveUp(1, 2, "b", UNKNOWN)):
        now = judged(call, write)
        assert (now.reason, now.changed, now.standing) == (reason, False, call)


def test_what_a_node_runs_that_is_alive_is_not_lost() -> None:
    assert not is_unstarted(running(), "b", is_held=True)
    assert judge(running(), Restart(1, 2, "b"), NOW, LIMITS, is_held=True).reason == "held"
    assert judge(running(), GiveUp(1, 2, "b", UNKNOWN), NOW, LIMITS, is_held=True).reason == "held"
    assert is_unstarted(waiting(), "b", is_held=True), "what was handed back nobody holds"


# --- a person resolves what nobody knows -----------------------------------------------------------------------------

unknown = ended("outcome_unknown", effects="unknown", digest=b"body", finished_at=NOW - 1)


@pytest.mark.parametrize("ending", [DONE, FAILED])
def test_a_person_says_how_it_ended(ending: Ending) -> None:
    now = judged(unknown, Resolve(1, ending))
    assert (now.reason, now.ending) == (None, ending)
    assert (now.standing.state, now.standing.code, now.standing.finished_at) == (ending.state, ending.code, NOW)
    assert judged(now.standing, Resolve(1, DONE)).reason in ("completed", "failed"), "once"


def test_a_person_has_it_run_once_more() -> None:
    call = judged(unknown, Resolve(1, None)).standing
    assert (call.state, call.code, call.finished_at) == (State.PENDING, None, None)
    assert (call.effects, call.digest, call.holder, call.attempt) == (None, None, None, unknown.attempt)


def test_what_runs_once_more_has_the_rest_of_its_time_or_all_of_it_again() -> None:
    in_time = replace(unknown, created_at=NOW - 10, deadline_at=NOW + 5)
    assert judged(in_time, Resolve(1, None)).standing.deadline_at == NOW + 5
    late = replace(unknown, created_at=NOW - 60, deadline_at=NOW)
    assert judged(late, Resolve(1, None)).standing.deadline_at == NOW + 60
    assert judged(unknown, Resolve(1, None)).standing.deadline_at is None


OTHERS = {
    "completed": processing(state=State.COMPLETE, code="success"),
    "completed under a strange code": processing(state=State.COMPLETE, code="outcome_unknown"),
    "failed": ended("tool_failed"),
    "cancelled": ended("cancelled"),
    "running": running(),
    "waiting": pending(),
}


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("ending", [None, DONE])
def test_only_what_nobody_knows_is_resolved(call: CallState, ending: Ending | None) -> None:
    now = judged(call, Resolve(1, ending))
    assert now.reason is not None
    assert (now.changed, now.standing) == (False, call)


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("session", "frees"), [(None, True), (DIRECT, True), ("s", False)])
def test_an_outcome_that_says_so_frees_the_key_but_a_tool_use_of_a_session_has_one_result(
    session: str | None, frees: bool
) -> None:
    assert frees_key(session, replace(FAILED, releases_key=True)) is frees
    assert not frees_key(session, FAILED)


# --- writes whose fate was not known ---------------------------------------------------------------------------------

NOT_MADE: list[tuple[CallState, Write]] = [
    (processing(), hand_back(attempt=1)),
    (pending(attempt=2), hand_back(attempt=1)),
    (running(), Restart(1, 2, "a")),
    (running(), GiveUp(1, 2, "a", UNKNOWN)),
    (ended(CODES[Move.UNKNOWN], attempt=3), GiveUp(1, 2, "a", UNKNOWN)),
    (ended("timed_out"), CANCEL),
    (unknown, Resolve(1, None)),
    (unknown, Resolve(1, DONE)),
    (pending(waiting_for=APPROVAL), Decision(1, APPROVAL)),
    (pending(waiting_for=APPROVAL), Decision(1, APPROVAL, FAILED)),
    (pending(), WaitForAccount(1, 0, ACCOUNT, 9.0)),
    (ended("cancelled"), Decision(1, APPROVAL)),
    (running(), Finish(1, 2, "a", DONE)),
]


@pytest.mark.parametrize(("call", "write"), NOT_MADE, ids=lambda each: type(each).__name__)
def test_a_write_is_not_taken_for_made_where_nothing_shows_it(call: CallState, write: Write) -> None:
    assert not was_made(call, write)
