"""Bodies, member by member: what is not JSON, and what is JSON but not what was asked for."""

from collections.abc import Callable

import pytest

from toolyard.model.errors import InvalidInput, MalformedRequest, RequestError
from toolyard.wires.json_body import MOST_PROBLEMS, Members, number, parse, parse_or_empty, text
from toolyard.wires.mcp.envelope import decode_message
from toolyard.wires.oxp import negotiation

from .refusals import problems

NOT_JSON = {
    "empty": b"",
    "blank": b" ",
    "cut_off": b'{"a": ',
    "nan": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "byte_order_mark": b"\xef\xbb\xbf{}",
    "invalid_utf_8": b'{"a": "\xff"}',
    "surrogate_in_utf_8": b'{"a": "\xed\xa0\x80"}',
    "lone_surrogate": b'{"a": "\\ud800"}',
    "lone_surrogate_in_a_name": b'{"\\udc00": 1}',
    "two_values": b"{} {}",
    "without_end": b"[" * 100_000,
    "endless_integer": b'{"a": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="not valid JSON"):
        parse(body)


def test_no_body_is_said_to_be_none() -> None:
    with pytest.raises(MalformedRequest, match="it is empty"):
        parse(b"")


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"5"])
def test_what_is_not_an_object_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(body).done()
    assert {problem.path: problem.sentence for problem in caught.value.problems} == {"body": "Must be an object"}


def test_a_number_that_nothing_can_hold_is_named_by_its_path() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(b'{"a": {"b": [1, -1e999]}, "c": 1e999}')
    assert {problem.path: problem.sentence for problem in caught.value.problems} == {
        "a.b[1]": "Must be a finite number",
        "c": "Must be a finite number",
    }
    with pytest.raises(InvalidInput) as caught:
        parse(b"1e999")
    assert [problem.path for problem in caught.value.problems] == ["body"]


def test_no_body_is_an_empty_object_where_it_may_be() -> None:
    parse_or_empty(b"").done()
    with pytest.raises(MalformedRequest):
        parse_or_empty(b" ")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    members = Members({"a": 1, "list": [{"b": 2}, 5, {}], "other": None})
    members.one("a", text)
    members.one("missing", text)
    for each in members.all_below("list"):
        each.one("b", text)
    assert problems(members.done) == {
        "a": "Must be a string",
        "missing": "Is required",
        "list[0].b": "Must be a string",
        "list[1]": "Must be an object",
        "list[2].b": "Is required",
        "other": "Is not a member of this object",
    }


def test_a_long_list_of_problems_is_cut() -> None:
    members = Members({f"m{i}": i for i in range(1000)})
    assert len(problems(members.done)) == MOST_PROBLEMS


@pytest.mark.parametrize("value", [True, "1", None, [], 10**400])
def test_a_number_is_a_finite_number(value: object) -> None:
    with pytest.raises(ValueError, match="finite"):
        number(value)
    assert number(-(10**300)) == -1e300


@pytest.mark.parametrize(
    ("read", "name"),
    [(parse, b"a"), (negotiation.parse, b"tool_id"), (decode_message, b"jsonrpc")],
    ids=["v1", "oxp", "mcp"],
)
def test_one_half_of_a_pair_is_not_a_body_that_was_cut_off(read: Callable[[bytes], object], name: bytes) -> None:
    body = b'{"%s":"\\uD8fF"}' % name
    for given, said in ((body, "it has one half of a surrogate pair"), (body[:-3], "Input data was truncated")):
        with pytest.raises(RequestError) as refused:
            read(given)
        assert said in f"{refused.value.message} {refused.value.developer_message}"
