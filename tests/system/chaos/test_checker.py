"""The checker sees each promise broken. The histories here are as small as they can be."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from .checker import check
from .history import Claimed, Effect, Ended, Event, History, Named, Odd, Peeked, Row, Taken, Told, Untold

CALL = Named("alice", "oxp", "c")
VALUE: dict[str, Any] = {"run": "r", "process": "node-a.1", "began": 11.0, "caller": "alice"}
ENDED = Ended(VALUE, duration_ms=5.0)
TOLD = Told(CALL, "oxp", ENDED, 12.0)
EFFECT = Effect("c", "Here.Once", "m", "r", "node-a.1", 7, 11.0, "alice")
ROW = Row(
    1, "alice", "oxp", "c", "Here.Once@1.0.0", "unknown", "node", None, None, b'{"mark":"m"}', "COMPLETE", "success",
    1, 0, "a", 10.0, 5.0, msgspec.json.encode(VALUE), None,
)  # fmt: skip
UNKNOWN = replace(ROW, state="ERROR", code="outcome_unknown", value=None, error=b'{"message":"?","can_retry":false}')
BOBS = replace(ROW, seq=2, subject="bob", value=msgspec.json.encode(VALUE | {"run": "s", "caller": "bob"}))
EFFECTS = "effects twice, or values without one"
BOBS_EFFECT = replace(EFFECT, run="s", caller="bob")


def history(
    *events: Event, rows: tuple[Row, ...] = (ROW,), effects: tuple[Effect, ...] = (EFFECT,)
) -> dict[str, list[str]]:
    found = check(History(list(events), list(effects), list(rows)))
    return {name: lines for name, lines in found.items() if lines}


def valued(row: Row, **members: Any) -> Row:
    return replace(row, value=msgspec.json.encode(VALUE | members))


def test_what_is_as_it_should_be_is_not_objected_to() -> None:
    again = replace(TOLD, how="session", ended=Ended(VALUE))
    there = Peeked("bob", "/v1/calls/c", 404, "")
    assert history(TOLD, again, there, Taken(CALL), Taken(CALL, 1, VALUE), Claimed(CALL, 1, "x")) == {}
    assert history(TOLD, rows=(ROW, BOBS), effects=(EFFECT, BOBS_EFFECT)) == {}
    assert history(rows=(UNKNOWN,)) == {}, "it may have had its effect"
    assert history(rows=(UNKNOWN,), effects=()) == {}, "or not"


def test_a_call_may_have_been_tried_before() -> None:
    retry = replace(ROW, state="ERROR", value=None, error=b'{"message":"not this time","can_retry":true}')
    told = replace(TOLD, ended=Ended(None, "not this time", True))
    assert history(told, TOLD, rows=(retry, replace(ROW, seq=2))) == {}


@pytest.mark.parametrize(
    "row", [None, replace(ROW, duration_ms=6.0), UNKNOWN, valued(ROW, run="s"), replace(ROW, call_id="d")]
)
def test_what_was_told_and_is_not_in_the_ledger_is_lost(row: Row | None) -> None:
    found = history(TOLD, rows=() if row is None else (row,))
    assert "alice's oxp/c was told" in found["acknowledged and lost"][0]


@pytest.mark.parametrize("event", [Taken(CALL, 2, VALUE), Taken(CALL, 1, VALUE | {"run": "s"}), Claimed(CALL, 2, "x")])
def test_what_was_taken_otherwise_is_lost(event: Event) -> None:
    assert list(history(event)) == ["acknowledged and lost"]


def test_a_message_that_is_not_in_the_ledger_is_lost() -> None:
    found = history(Taken(replace(CALL, family="ses_1")))
    assert found == {"acknowledged and lost": ["alice's ses_1/c was acknowledged, but is not in the ledger"]}


def test_two_tellings_that_differ() -> None:
    other = Told(CALL, "otc", Ended(None, "The call was cancelled", False), 13.0)
    assert "alice's oxp/c was told" in history(TOLD, other)["two outcomes of one call"][0]


def test_two_rows_of_one_key() -> None:
    found = history(rows=(ROW, replace(ROW, seq=2)))
    assert "in the ledger 2 times" in found["two outcomes of one call"][0]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (valued(ROW, attempt=2), "of attempt 1, its value of attempt 2"),
        (valued(ROW, began=9.5), "began 0.500 s before attempt 1"),
        (valued(replace(ROW, seq=2, call_id="d"), process="node-b.1"), "a completed calls with values from"),
    ],
)
def test_a_value_of_another_attempt(row: Row, why: str) -> None:
    found = history(rows=(row,) if row.seq == 1 else (ROW, row))
    assert list(found) == ["late writes that won"]
    assert why in found["late writes that won"][0]


def test_an_attempt_that_two_have() -> None:
    found = history(Claimed(CALL, 1, "x"), Claimed(CALL, 1, "y"))
    assert found == {"late writes that won": ["alice's oxp/c: attempt 1 was given to x and y"]}


@pytest.mark.parametrize("row", [ROW, UNKNOWN])
def test_an_effect_that_happened_twice(row: Row) -> None:
    (line,) = history(rows=(row,), effects=(EFFECT, replace(EFFECT, run="s", process="node-b.1")))[EFFECTS]
    assert "had its effect 2 times, by node-a.1 (run r) and node-b.1 (run s)" in line
    assert history(rows=(replace(row, on_lost="rerun"),), effects=(EFFECT, replace(EFFECT, run="s"))) == {}


def test_what_may_not_be_run_again_went_on_after_it_was_lost() -> None:
    assert "was lost and went on: attempt 2" in history(rows=(replace(ROW, attempt=2, losses=1),))[EFFECTS][0]
    assert history(rows=(replace(ROW, attempt=2),)) == {}, "the first may have been given back before it began"
    assert history(rows=(replace(ROW, attempt=2, losses=1, on_lost="rerun"),)) == {}


def test_the_effects_of_two_callers_at_a_worker_are_told_apart_by_the_request() -> None:
    rows = replace(ROW, queue="worker", request="c"), replace(BOBS, queue="worker", request="c~2")
    effects = replace(EFFECT, caller=""), replace(BOBS_EFFECT, caller="", call_id="c~2")
    assert history(rows=rows, effects=effects) == {}
    assert EFFECTS in history(rows=rows, effects=(*effects, effects[0]))


def test_a_value_without_an_effect() -> None:
    assert "which had no effect" in history(effects=())[EFFECTS][0]


@pytest.mark.parametrize("state", ["PENDING", "PROCESSING"])
def test_a_call_that_is_left_open(state: str) -> None:
    found = history(rows=(replace(ROW, state=state, code=None, value=None),))
    assert f"is left {state}" in found["calls that never ended"][0]


def test_a_caller_who_is_never_told() -> None:
    assert history(Untold("bob", "c")) == {"calls that never ended": ["bob was never told how c ended"]}


def test_a_caller_who_is_told_what_is_anothers() -> None:
    bobs = replace(TOLD, call=Named("bob", "oxp", "c"))
    found = history(TOLD, bobs, rows=(ROW, replace(ROW, seq=2, subject="bob")), effects=(EFFECT, EFFECT))
    assert [line[:30] for line in found["walls that were seen through"]] == [
        "bob's oxp/c was told what is a",
        "run r was told to alice's oxp/",
    ]


@pytest.mark.parametrize("status", [200, 403, 409])
def test_a_caller_who_learns_that_there_is_something(status: int) -> None:
    found = history(Peeked("bob", "/v1/calls/c", status, "{}"))
    assert found == {"walls that were seen through": [f"bob looked for /v1/calls/c and was told {status} {{}}"]}


def test_an_odd_answer() -> None:
    assert list(history(Odd("bob", "Here.Once", 500, "{}"))) == ["answers that nobody should get"]
