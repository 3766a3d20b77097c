"""Clients that take their time: each is answered 408 or left within the limits, and nobody else waits for them."""

import json
import time
from contextlib import ExitStack

import pytest

from .raw import DEADLINE_S, Closed, Connection, assert_refused, assert_serves, call, connected, request

GOOD = call("Kit.Echo", value="hi")
HEAD, _, BODY = GOOD.partition(b"\r\n\r\n")
HALF_A_HEADER = GOOD[: GOOD.index(b"Content-Length")]
HALF_A_BODY = GOOD[:-5]
CHUNKED = request("POST", "/tools/call", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})


def test_a_request_that_does_not_go_on_is_answered_408(impatient: str) -> None:
    starts = [
        GOOD[:1],
        GOOD[:10],
        HALF_A_HEADER,
        HEAD + b"\r\n",
        HEAD + b"\r\n\r\n",
        HALF_A_BODY,
        CHUNKED,
        CHUNKED + b"5\r\n{",
        CHUNKED + b"2\r\n{}\r\n0\r\n",
        b"\r\n",
        HEAD.replace(b"POST", b"GET").replace(b"/tools/call", b"/tools") + b"\r\n\r\n{",
    ]
    with ExitStack() as stack:
        slow = {start: stack.enter_context(connected(impatient)) for start in starts}
        for start, connection in slow.items():
            connection.send(start)
        for start, connection in slow.items():
            reply = connection.reply()
            assert_refused(reply, 408)
            assert reply.is_last, start
            assert connection.wait_until_closed() == b"", start
    assert_serves(impatient)


def test_a_client_that_never_says_anything_is_left(impatient: str) -> None:
    with connected(impatient) as connection:
        assert connection.wait_until_closed() == b""


def test_a_client_that_says_nothing_after_its_answer_is_left(impatient: str) -> None:
    with connected(impatient) as connection:
        connection.send(GOOD)
        assert connection.reply().status == 200
        assert connection.wait_until_closed() == b""


def test_a_client_whose_body_comes_after_its_answer_is_left_too(impatient: str) -> None:
    with connected(impatient) as connection:
        connection.send(request("POST", "/nothing", {"Content-Length": "2"}))
        assert_refused(connection.reply(), 404)
        connection.send(b"{}")
        assert connection.wait_until_closed() == b""


def test_a_client_that_does_not_send_the_body_it_was_answered_for_is_left(impatient: str) -> None:
    with connected(impatient) as connection:
        connection.send(request("POST", "/nothing", {"Content-Length": "2"}) + b"{")
        assert_refused(connection.reply(), 404)
        assert connection.wait_until_closed() == b""


@pytest.mark.parametrize("start", [b"GET /health HTTP/1.1\r\nX: ", HEAD + b"\r\n\r\n", CHUNKED])
def test_a_client_that_sends_byte_by_byte_is_not_waited_for(impatient: str, start: bytes) -> None:
    with connected(impatient) as connection:
        connection.send(start)
        reply = trickle(connection, b" " if start is not CHUNKED else b"1\r\n \r\n")
        assert b" 408 " in reply


def trickle(connection: Connection, drop: bytes) -> bytes:
    """Sends a drop whenever nothing has come for a moment, until the server ends it; what the server said."""
    connection.socket.settimeout(0.02)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            return connection.wait_until_closed()
        except TimeoutError:
            connection.send(drop)
    raise AssertionError("the server still listens")


def test_others_are_served_meanwhile(impatient: str) -> None:
    starts = [b"", HALF_A_HEADER, HALF_A_BODY, CHUNKED] * 25
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(impatient)) for _ in starts]
        for connection, start in zip(slow, starts, strict=True):
            connection.send(start)
        for number in range(100):
            with connected(impatient) as quick:
                quick.send(call("Kit.Echo", value=number))
                assert quick.reply().json["value"] == number
        assert all(b" 200 " not in connection.wait_until_closed() for connection in slow)


@pytest.mark.parametrize("start", [HALF_A_HEADER, HALF_A_BODY])
def test_a_slow_second_request_does_not_cost_the_first_its_answer(impatient: str, start: bytes) -> None:
    """The first one's tool takes longer than any limit; that time has passed is seen by another client."""
    with connected(impatient) as patient, connected(impatient) as other:
        patient.send(call("Kit.Wait") + start)
        other.send(HALF_A_HEADER)
        assert_refused(other.reply(), 408)
        with connected(impatient) as opener:
            opener.send(call("Kit.Open"))
            assert opener.reply().status == 200
        assert patient.reply().json["value"] == "opened"
        assert b" 200 " not in patient.wait_until_closed()


def test_a_tool_may_take_longer_than_a_request(impatient: str) -> None:
    with connected(impatient) as patient:
        patient.send(call("Kit.Wait"))
        with connected(impatient) as other:
            other.send(HALF_A_BODY)
            assert_refused(other.reply(), 408)
        with connected(impatient) as opener:
            opener.send(call("Kit.Open"))
            assert opener.reply().status == 200
        assert patient.reply().json["value"] == "opened"


def test_a_body_in_pieces_is_whole_when_the_last_one_is_there(impatient: str) -> None:
    with connected(impatient) as connection:
        for start in range(0, len(GOOD), 7):
            connection.send(GOOD[start : start + 7])
        assert json.loads(connection.reply().body)["value"] == "hi"


def test_the_limits_begin_anew_with_each_request(impatient: str) -> None:
    """A connection that is used all the time outlives them."""
    deadline = time.monotonic() + 1.5
    with connected(impatient) as connection:
        while time.monotonic() < deadline:
            connection.send(GOOD)
            try:
                assert connection.reply().status == 200
            except Closed:
                pytest.fail("a busy connection was ended")
