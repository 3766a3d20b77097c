"""Bodies that are no JSON, or JSON that is no call."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from toolyard.wires.oxp.messages import OTC_1_0, OTC_DRAFT, OXP_1_0

from .raw import Reply, ask, refusal, request

MAX_DEPTH = 64
PATHS = ["/tools/call", "/call", "/oxp/tools/call", "/otc/tools/call", "/otc/draft/call"]
GOOD: dict[str, Any] = {
    "tool_id": "Kit.Echo",
    "call_id": "c1",
    "trace_id": "t1",
    "input": {"value": 1},
    "context": {
        "authorization": [{"id": "google", "token": "t"}],
        "secrets": [{"id": "KEY", "value": "s"}],
        "user_id": "u1",
        "user_info": {"name": "n"},
    },
}
FORMS = {
    "/tools/call": GOOD,
    "/oxp/tools/call": {"$schema": OXP_1_0, "request": GOOD},
    "/otc/tools/call": {"$schema": OTC_1_0, "request": GOOD},
    "/otc/draft/call": {"$schema": OTC_DRAFT, "request": GOOD},
}


def post(server: str, body: bytes, *statuses: int, path: str = "/tools/call") -> Reply:
    return refusal(server, request("POST", path, {"Content-Length": str(len(body))}, body), *statuses)


def echo(value: str) -> bytes:
    """A call whose value is written as a test likes."""
    return f'{{"tool_id": "Kit.Echo", "input": {{"value": {value}}}}}'.encode()


def value_of(server: str, body: bytes) -> Any:
    reply = ask(server, request("POST", "/tools/call", body=body))
    assert reply.json["success"], reply
    return reply.json["value"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"\x00",
        b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
        json.dumps(GOOD).encode("utf-16"),
        json.dumps(GOOD).encode("utf-32"),
        b'{"tool_id": "\xff"}',
        b'{"tool_id": "\xc3"}',
        b'{"tool_id": "\xed\xa0\x80"}',
        b'{"tool_id": "a\x00"}',
        b'{"tool_id": "a\nb"}',
        b"{tool_id: 1}",
        b"{'tool_id': 'Kit.Echo'}",
        b'{"tool_id": "Kit.Echo",}',
        b'{"tool_id" "Kit.Echo"}',
        b'{"tool_id": "Kit.Echo"',
        b'{"tool_id": "Kit.Echo"} x',
        json.dumps(GOOD).encode() * 2,
        b'/* */ {"tool_id": "Kit.Echo"}',
        b"tool_id=Kit.Echo",
        b"<call/>",
        b"null",
        b"true",
        b"1",
        b"-",
        b"01",
        b"1" * 5000,
        b'"text"',
        b"[]",
        b"[{}]",
        b"{}",
    ],
)
def test_a_body_that_is_no_call_is_refused(server: str, path: str, body: bytes) -> None:
    post(server, body, 400, path=path)


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "1e999",
        "-1e999",
        "1" * 5000,
        "-" + "1" * 5000,
        "1" * 100_000,
        "1e" + "9" * 5000,
        "+1",
        ".5",
        "1.",
        "0x10",
        "1_000",
        r'"\ud800"',
        r'"\udc00"',
        r'"\ud800\u0041"',
        r'{"\ud800": 1}',
        r'"\x41"',
        r'"\u12"',
        "undefined",
        "True",
    ],
)
def test_a_value_that_json_does_not_have_is_refused(server: str, value: str) -> None:
    post(server, echo(value), 400)


@pytest.mark.parametrize(
    "number", ["0", "-0.0", "1e308", "1e-400", str(2**53 + 1), str(2**63), str(-(2**64)), str(10**308)]
)
def test_a_number_that_json_has_is_taken(server: str, number: str) -> None:
    assert value_of(server, echo(number)) == json.loads(number)


def test_a_number_too_large_for_the_parameter_is_422(server: str) -> None:
    body = json.dumps({"tool_id": "Kit.Half", "input": {"number": 9 * 10**308}}).encode()
    assert post(server, body, 422).json["parameter_errors"]


def test_a_number_of_more_digits_than_any_float_is_refused_unread(server: str) -> None:
    post(server, echo(str(10**400)), 400)


@pytest.mark.parametrize("bracket", ["[]", '{"a":}'])
def test_json_may_be_nested_as_deeply_as_it_says_and_no_deeper(server: str, bracket: str) -> None:
    opening, closing = bracket[:-1], bracket[-1]

    def nested(levels: int) -> bytes:
        """Within two levels of the call itself and one of a list with much else in it."""
        return echo("[" + "[], " * MAX_DEPTH + opening * (levels - 3) + "1" + closing * (levels - 3) + "]")

    assert value_of(server, nested(MAX_DEPTH))
    assert "nested" in post(server, nested(MAX_DEPTH + 1), 400).json["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'[{"a":' * 100_000,
        b'[{"a":' * 100_000 + b"1" + b"}]" * 100_000,
        b"[" * 100_000 + b"}" * 100_000,
        b"]" * 100_000 + b"[" * 100_000,
        echo("[" * 100_000),
        echo("[" * 100_000 + "]" * 100_000),
        b"[" * 100 + b'"' + rb"\"" * 1_000_000,
        b"[" * 100 + b'"' * 1_000_001,
        b"[" * 100 + b"\\" * 1_000_001,
        (b"[" * 60 + b"]" * 60) * 20_000,
    ],
    ids=[
        "arrays",
        "arrays, closed",
        "objects",
        "objects, closed",
        "both",
        "both, closed",
        "closed wrongly",
        "closed first",
        "in a call",
        "in a call, closed",
        "then a text of quotes that does not end",
        "then quotes",
        "then backslashes",
        "many times",
    ],
)
def test_json_that_is_nested_too_deeply_is_refused_at_once(server: str, path: str, body: bytes) -> None:
    post(server, body, 400, path=path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 10_000, r"\"[" * 10_000, "\\" * 9_999, '"[' * 10_000])
def test_brackets_in_a_text_are_not_nesting(server: str, text: str) -> None:
    assert value_of(server, echo(json.dumps(text))) == text
    assert value_of(server, echo(json.dumps({text: [text]}))) == {text: [text]}


def test_a_very_long_text_is_taken(server: str) -> None:
    text = "ä🙂\x00\n" * 100_000
    assert value_of(server, echo(json.dumps(text))) == text


def test_of_a_member_that_is_there_twice_the_last_one_counts(server: str) -> None:
    body = b'{"tool_id": "Kit.Nothing", "input": {"value": 1, "value": 2}, "tool_id": "Kit.Echo"}'
    assert value_of(server, body) == 2


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every member whose type is fixed: all but what is in `input` and `user_info`."""
    yield path
    if path and path[-1] in ("input", "user_info"):
        return
    for key, member in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(member, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], other: Any) -> Any:
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], other)  # type: ignore[index]
    return copy


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize("path", FORMS)
def test_a_member_of_another_type_is_refused(server: str, path: str) -> None:
    good = FORMS[path]
    assert ask(server, request("POST", path, body=json.dumps(good).encode())).status == 200
    for place in places(good):
        for other in (None, True, 1, 1.5, "", "text", [], [1], {}, {"a": 1}):
            if type(other) is type(at(good, place)) and place not in ((), ("request",)):
                continue
            body = json.dumps(replaced(good, place, other)).encode()
            reply = post(server, body, 400, path=path)
            assert reply.json["developer_message"], place


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("name", ["extra", "Tool_id", "toolId", "", "inputs ", "__proto__"])
def test_a_member_nobody_knows_is_refused(server: str, path: str, name: str) -> None:
    good = FORMS[path]
    for place in [(), ("request",)] if "request" in good else [()]:
        body = replaced(good, place, {**at(good, place), name: 1})
        post(server, json.dumps(body).encode(), 400, path=path)


@pytest.mark.parametrize("path", ["/tools/call", "/oxp/tools/call", "/otc/tools/call"])
def test_the_drafts_other_name_for_input_is_known_to_the_draft_alone(server: str, path: str) -> None:
    call = {"tool_id": "Kit.Echo", "inputs": {"value": 1}}
    post(server, json.dumps({"request": call}).encode(), 400, path=path)
    post(server, json.dumps(call).encode(), 400, path=path)
    draft = ask(server, request("POST", "/otc/draft/call", body=json.dumps({"request": call}).encode()))
    assert draft.json["output"] == {"value": 1}


@pytest.mark.parametrize("call_id", ["", "x" * 257, "a\nb", "\x00", "\x7f", "\x85", "🙂" * 257])
def test_a_call_id_that_cannot_be_is_refused(server: str, call_id: str) -> None:
    post(server, json.dumps({**GOOD, "call_id": call_id}).encode(), 400)


@pytest.mark.parametrize("call_id", ["x", "🙂" * 256, " ", '"', "</script>", "ä"])
def test_any_other_call_id_is_echoed(server: str, call_id: str) -> None:
    reply = ask(server, request("POST", "/tools/call", body=json.dumps({**GOOD, "call_id": call_id}).encode()))
    assert reply.json["call_id"] == call_id


@pytest.mark.parametrize(
    "tool_id",
    ["", ".", "Kit", "Kit.", "Kit.Echo@", "Kit.Echo@1.0", "Kit.Echo@1.0.0\n", "Kit.Echo@１", "K" * 100_000, "\x00"],
)
def test_a_tool_id_that_is_none_is_refused(server: str, tool_id: str) -> None:
    post(server, json.dumps({"tool_id": tool_id}).encode(), 400)


@pytest.mark.parametrize(
    "body", [b"{", b"1" * 5000, b"[" * 100_000, b"null", b'{"$schema": 1}', b'{"$schema": "x"}', b"\xff"]
)
@pytest.mark.parametrize("path", ["/tools", "/oxp/tools", "/otc/tools", "/otc/draft/tools"])
def test_the_body_of_a_get_is_held_to_the_same(server: str, path: str, body: bytes) -> None:
    refusal(server, request("GET", path, body=body), 400)


@pytest.mark.parametrize(
    "query", ["$schema=", "$schema=x", "%24schema=%ff", "versions=", "versions=%00", "versions=old"]
)
def test_a_query_that_is_not_understood_is_refused(server: str, query: str) -> None:
    refusal(server, request(path=f"/tools?{query}"), 400)


@pytest.mark.parametrize("version", ["2.0", "1.1", "", "1.0.0.0", "one", "1.0\xff", "１"])
def test_a_version_of_oxp_nobody_knows_is_refused(server: str, version: str) -> None:
    refusal(server, request(path="/tools", headers={"OXP-Version": version.encode().decode("latin-1")}), 400)
