"""The walker itself: what it keeps, fills in, waits for and complains about."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from .rows import parse
from .runner import Reply
from .steps import Step, filled, request_of, step_of, steps_of
from .tokens import CALLERS
from .walking import events_of, kept_from, take_all


class Talker:
    """Answers with what it was given, one after another; the last one for ever."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.asked: list[Mapping[str, Any]] = []

    def __call__(self, base_url: str, request: Mapping[str, Any]) -> Reply:
        self.asked.append(request)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, headers, json.dumps(body).encode())


def step(**written: Any) -> Step:
    return step_of({"send": "GET /", "expect": 200, **written}, {})


def test_names_are_filled_in_wherever_they_stand() -> None:
    kept = {"session": "s-1", "attempt": 2}
    written = {"path/{session}": ["{attempt}", "no {attempt}", {"{session}": "{other}"}], "n": 1}
    assert filled(written, kept) == {"path/s-1": [2, "no 2", {"s-1": "{other}"}], "n": 1}


def test_a_step_sends_its_callers_key_unless_it_is_nobodys() -> None:
    assert request_of(step(), {})["headers"] == {"Authorization": f"Bearer {CALLERS['ada']}"}
    assert request_of(step(by="bob", headers={"A": "{n}"}), {"n": 5})["headers"] == {
        "Authorization": f"Bearer {CALLERS['bob']}",
        "A": "5",
    }
    assert request_of(step(by="nobody"), {})["headers"] == {}


def test_a_header_may_be_left_out() -> None:
    assert request_of(step(headers={"Content-Type": None}), {})["headers"]["Content-Type"] is None


def test_parts_of_a_reply_are_kept() -> None:
    keeping = step(keep={"id": "items[0].id", "attempt": "header:Toolyard-Attempt"})
    said = Reply(200, {"toolyard-attempt": "3"}, b'{"items": [{"id": 7}]}')
    assert kept_from(keeping, said) == {"id": 7, "attempt": "3"}


def test_what_one_step_keeps_the_next_one_sends_and_expects() -> None:
    talker = Talker(reply({"id": "s-1"}, 201), reply({"id": "s-1"}))
    steps = [
        step(send="POST /new", expect=201, keep={"id": "id"}),
        step(send="GET /{id}", expect={"status": 200, "json": {"id": "{id}"}}),
    ]
    assert take_all(steps, "", {}, talker) == []
    assert [request["path"] for request in talker.asked] == ["/new", "/s-1"]


def test_the_first_step_that_goes_wrong_is_named_and_the_last() -> None:
    talker = Talker(reply({}), reply({}, 404), reply({}))
    problems = take_all([step(), step(send="GET /{id}"), step()], "", {"id": "s-1"}, talker)
    assert problems[0] == "step 2, GET /s-1:"
    assert "expected 200, got 404" in problems[1]
    assert len(talker.asked) == 2


def test_a_step_is_taken_again_until_it_is_as_expected() -> None:
    talker = Talker(reply({"n": 1}), reply({"n": 1}), reply({"n": 2}))
    assert take_all([step(until=True, expect={"status": 200, "json": {"n": 2}})], "", {}, talker) == []
    assert len(talker.asked) == 3


def test_a_step_that_must_stay_so_ends_when_it_does_not() -> None:
    talker = Talker(reply({}), reply({}), reply({}, 409))
    assert take_all([step(during_s=5)], "", {}, talker)
    assert len(talker.asked) == 3
    assert take_all([step(during_s=0.1)], "", {}, Talker(reply({}))) == []


def test_steps_are_taken_while_another_is_awaited() -> None:
    wrong = {"send": "GET /b", "expect": 201}
    right = {"send": "GET /b", "expect": 200}
    assert take_all([step(meanwhile=[right, right])], "", {}, Talker(reply({}))) == []
    assert "step 1, GET /b:" in take_all([step(meanwhile=[wrong])], "", {}, Talker(reply({})))
    assert take_all([step(within_s=0)], "", {}, Talker(reply({}))) != []


def test_events_are_read_without_their_comments() -> None:
    lines = [b": hello\n", b"\n", b"id: 1\n", b"event: a\n", b'data: {"b": 1}\n', b"\n", b": still here\n", b"\n"]
    assert list(events_of(lines)) == [{"id": "1", "event": "a", "data": {"b": 1}}]


def test_a_body_may_have_to_be_the_whole_text() -> None:
    empty = {"status": 200, "text": ""}
    assert take_all([step(expect=empty)], "", {}, Talker(Reply(200, {}, b""))) == []
    assert take_all([step(expect=empty)], "", {}, Talker(Reply(200, {}, b"x"))) != []


def test_openings_stand_for_their_steps() -> None:
    openings = {"a": [{"send": "GET /a", "expect": 200}], "b": ["a", {"send": "GET /b", "expect": 200}]}
    steps = steps_of(["b", {"send": "GET /c", "expect": 200}], openings)
    assert [each.request["path"] for each in steps] == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    "written",
    [
        {"send": "GET", "expect": 200},
        {"send": "GET /"},
        {"send": "GET /", "expect": {"json": {}}},
        {"send": "GET /", "expect": {"status": 200, "jsno": {}}},
        {"send": "GET /", "expect": 200, "haeders": {}},
        {"send": "GET /", "expect": 200, "by": "eve"},
        {"send": "GET /", "expect": 200, "meanwhile": [{"send": "GET"}]},
    ],
)
def test_a_step_with_a_mistake_in_it_is_not_taken(written: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a step that cannot be taken"):
        step_of(written, {})


def test_a_row_of_steps_is_known_by_them() -> None:
    clause = "{id: A, level: MUST, where: w, says: s, decided: true}"
    row = "{id: R, clauses: [A], title: t, server: callers, steps: [start, {send: GET /b, expect: 200}]}"
    [read] = parse(
        "lifecycle", f"clauses: [{clause}]\nopenings: {{start: [{{send: GET /a, expect: 200}}]}}\nrows: [{row}]"
    ).rows
    assert (read.kind, len(read.steps)) == ("steps", 2)
    with pytest.raises(ValueError, match="row R"):
        parse("lifecycle", f"clauses: [{clause}]\nrows: [{{id: R, clauses: [A], title: t, kind: steps}}]")
