"""The log: which request a line is about, and no credentials in it."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from toolyard.server.http.exchange import Exchange
from toolyard.server.http.logs import JsonLines, TextLines, current
from toolyard.text.excerpts import without_credentials
from toolyard.text.hidden import has_hidden

from ..scene import Nobody

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("toolyard.x", logging.WARNING, "f", 1, message, (), None)


def exchange(headers: dict[bytes, bytes]) -> Exchange:
    return Exchange({"query_string": b"", "client": None}, "/tools/call", headers, None, Nobody.__new__(Nobody))


@pytest.fixture
def request_id() -> Iterator[str]:
    before = current.set(exchange({b"x-request-id": b"monday-7", b"traceparent": TRACE}))
    yield "monday-7"
    current.reset(before)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("key ty_0123456789abcdef used", "key [hidden] used"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [hidden]"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic [hidden]"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln b", "a [hidden] b"),
        ("postgresql://ada:hunter2@db/yard", "postgresql://[hidden]@db/yard"),
        ("nothing to hide: party_time, bearer of news", "nothing to hide: party_time, bearer of news"),
    ],
)
def test_what_looks_like_a_credential_is_hidden(said: str, shown: str) -> None:
    assert without_credentials(said) == shown
    assert without_credentials(TextLines().format(record(said))).endswith(shown)


def test_a_line_names_its_request_and_trace(request_id: str) -> None:
    line = TextLines().format(record("hello"))
    assert line.endswith(f"hello [request={request_id} path=/tools/call trace=0af7651916cd43dd8448eb211c80319c]")


def test_as_json_it_is_an_object(request_id: str) -> None:
    said = json.loads(JsonLines().format(record('"quoted" ty_0123456789abcdef')))
    assert said["message"] == '"quoted" [hidden]'
    assert (said["level"], said["request"], said["path"]) == ("warning", request_id, "/tools/call")


@pytest.mark.parametrize("given", [b"", b"a b", b"x" * 200, b"\xff", b"a\nb"])
def test_a_request_without_a_name_that_can_be_shown_gets_one(given: bytes) -> None:
    made = exchange({b"x-request-id": given})
    assert made.id == made.id
    assert len(made.id) == 32


ESCAPES = "a\x1b[2J\x9b8m\u202eexe\u2066\U000e0041"


def test_a_line_does_nothing_to_a_terminal() -> None:
    try:
        raise RuntimeError(ESCAPES)
    except RuntimeError:
        failed = logging.LogRecord(ESCAPES, logging.ERROR, "f", 1, "%s\nmore", (ESCAPES,), sys.exc_info())
    text = TextLines().format(failed)
    assert not has_hidden(text)
    assert text.count("\\u{1B}[2J\\u{9B}8m\\u{202E}exe\\u{2066}\\u{E0041}") == 3
    as_json = JsonLines().format(failed)
    assert not has_hidden(as_json)
    assert json.loads(as_json)["message"] == f"{ESCAPES}\nmore"
    assert f"RuntimeError: {ESCAPES}" in json.loads(as_json)["exception"]


def test_what_a_client_put_into_an_address_cannot_look_like_another_line() -> None:
    before = current.set(Exchange({"query_string": b""}, f"/x\n{ESCAPES}", {}, None, Nobody.__new__(Nobody)))
    try:
        line = TextLines().format(record("hello"))
    finally:
        current.reset(before)
    assert len(line.splitlines()) == 1
    assert "path=/x\\u{A}a\\u{1B}[2J" in line


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_a_request_that_is_called_like_a_key_is_not_named_in_the_log(lines: logging.Formatter) -> None:
    before = current.set(exchange({b"x-request-id": b"ty_0123456789abcdef"}))
    try:
        assert "0123456789abcdef" not in lines.format(record("hello"))
    finally:
        current.reset(before)
