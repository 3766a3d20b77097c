"""Replies that come bit by bit: whole, closed as soon as nobody listens, and never cut off quietly."""

import asyncio
import json
import signal
import socket
from typing import Any

import pytest

from tests.system.hardening.raw import DEADLINE_S
from toolyard.server.http.exchange import Exchange
from toolyard.server.http.streams import BrokenOff
from toolyard.wires.contract import ALWAYS, Stream

from ..asking import Asked, run
from ..conftest import Talking
from ..talking import FLOOD, PIECE, journal, kept, route, said, shell, two


def body(chunk: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": chunk, "more_body": more}


# -- to a client -----------------------------------------------------------------------------------


def test_chunks_come_when_they_are_there(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/stream/whole"))
        head = line.reply()
        assert head.status == 200
        assert head.headers["transfer-encoding"] == "chunked"
        assert head.headers["content-type"] == "text/event-stream"
        assert line.chunk() == b"one"
        talker.tell("whole.go")
        assert (line.chunk(), line.chunk()) == (b"two", b"")


def test_a_connection_serves_on_after_a_stream(talker: Talking) -> None:
    talker.tell("before.go")
    with talker.line() as line:
        line.send(talker.request("/stream/before") + talker.request("/told/nothing/now"))
        line.reply()
        assert [line.chunk() for _ in range(3)] == [b"one", b"two", b""]
        assert line.reply().body == b"no"
        line.send(talker.request("/told/before.closed/now"))
        assert line.reply().body == b"yes"


def test_a_head_is_only_a_head(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/stream/head", "HEAD"))
        head = line.reply(with_body=False)
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
        line.send(talker.request("/told/head.started/now"))
        assert line.reply().body == b"no"


def test_an_old_client_gets_no_chunks(direct: Talking) -> None:
    direct.tell("old.go")
    with direct.line() as line:
        line.send(direct.request("/stream/old").replace(b"HTTP/1.1", b"HTTP/1.0"))
        head = line.reply()
        assert "transfer-encoding" not in head.headers
        assert head.is_last
        assert line.wait_until_closed() == b"onetwo"


def test_a_stream_is_closed_when_its_client_leaves(talker: Talking) -> None:
    """It waits for what never comes."""
    with talker.line() as line:
        line.send(talker.request("/stream/left"))
        line.reply()
        assert line.chunk() == b"one"
    talker.wait_for("left.closed")


def test_a_client_that_will_say_no_more_has_left(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/stream/half"))
        line.reply()
        assert line.chunk() == b"one"
        line.socket.shutdown(socket.SHUT_WR)
        talker.wait_for("half.closed")
        assert line.wait_until_closed() == b""


def test_a_client_that_leaves_is_noticed_though_nobody_reads_what_it_said_last(direct: Talking) -> None:
    with direct.line() as line:
        line.send(direct.request("/stream/deaf") + direct.request("/told/nothing/now") * 20)
        line.reply()
        assert line.chunk() == b"one"
        line.send(direct.request("/told/nothing/now"))
    direct.wait_for("deaf.closed")


def test_a_client_with_a_large_body_is_noticed_when_it_leaves(unswept: Talking) -> None:
    with unswept.line() as line:
        line.send(unswept.request("/stream/large", "POST", json.dumps("x" * 300_000).encode()))
        line.reply()
        assert line.chunk() == b"one"
    unswept.wait_for("large.closed")


def test_a_slow_reader_slows_the_stream(talker: Talking) -> None:
    """Without a brake it would be over after as many turns of the loop as it has chunks."""
    with talker.line() as line:
        line.send(talker.request("/flood/slow"))
        line.reply()
        assert not any(talker.has("slow.over") for _ in range(2 * FLOOD))
        for _ in range(FLOOD):
            assert line.chunk() == PIECE
        assert line.chunk() == b""
    assert talker.has("slow.over")


def test_a_stream_is_closed_when_its_client_leaves_without_reading(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/flood/unread"))
        line.reply()
        assert line.chunk() == PIECE
    talker.wait_for("unread.closed")
    assert not talker.has("unread.over")


@pytest.mark.parametrize("path", ["/broken/stream", "/cancelled/stream"])
def test_a_stream_that_fails_has_no_proper_end(talker: Talking, path: str) -> None:
    with talker.line() as line:
        line.send(talker.request(path))
        line.reply()
        assert line.chunk() == b"one"
        assert line.wait_until_closed() == b""
    log = talker.logged(f"GET {talker.prefix}{path} broke off")
    assert "returned without completing" not in log


def test_the_log_says_why_a_stream_failed(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/broken/why"))
        line.wait_until_closed()
    talker.logged("RuntimeError: why failed on purpose")


def test_open_streams_do_not_hold_up_the_end(stoppable: Talking) -> None:
    """They come to a proper end, and the server does not wait for its grace time."""
    with stoppable.line() as first, stoppable.line() as second:
        for line, name in ((first, "first"), (second, "second")):
            line.send(stoppable.request(f"/stream/{name}"))
            line.reply()
            assert line.chunk() == b"one"
        stoppable.process.send_signal(signal.SIGTERM)
        for line in (first, second):
            assert line.chunk() == b""
            assert line.wait_until_closed() == b""
        stoppable.process.wait(DEADLINE_S)


def test_a_stream_that_would_begin_at_the_end_is_told_when_to_come_back(stoppable: Talking) -> None:
    with stoppable.line() as idle, stoppable.line() as line:
        idle.send(stoppable.request("/told/nothing/now"))
        assert idle.reply().body == b"no"
        asked = stoppable.request("/stream/late", "POST", b"{}")
        line.send(asked[:-1])
        assert stoppable.ask("/told/nothing/now").body == b"no"
        stoppable.process.send_signal(signal.SIGTERM)
        assert idle.wait_until_closed() == b""
        line.send(asked[-1:])
        reply = line.reply()
        assert (reply.status, reply.headers["retry-after"], reply.headers["connection"]) == (400, "1", "close")
        assert line.wait_until_closed() == b""
        stoppable.process.wait(DEADLINE_S)


# -- through any ASGI server -----------------------------------------------------------------------


def test_a_stream_is_a_start_and_bodies() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/stream/parts")
        start, one = await asked.messages(2)
        assert (start["type"], start["status"]) == ("http.response.start", 200)
        assert start["headers"] == [(b"content-type", b"text/event-stream"), *ALWAYS]
        assert one == body(b"one")
        journal.tell("parts.go")
        await asked.end()
        assert asked.sent[2:] == [body(b"two"), body(b"", more=False)]

    run(scenario)


def test_a_head_starts_nothing() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/stream/asgi-head", "HEAD")
        await asked.end()
        assert asked.sent[1:] == [body(b"", more=False)]
        assert not journal.has("asgi-head.started")

    run(scenario)


def test_a_stream_is_closed_when_the_server_says_that_its_client_left() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/stream/asgi-left")
        await asked.messages(2)
        asked.leave()
        await asked.end()
        assert journal.has("asgi-left.closed")
        assert len(asked.sent) == 2

    run(scenario)


def test_a_stream_is_closed_when_sending_fails() -> None:
    async def refuse(message: Any) -> None:
        if message.get("body"):
            raise OSError

    async def scenario() -> None:
        asked = Asked(shell(), "/stream/unsendable", send=refuse)
        await asked.end()
        assert journal.has("unsendable.closed")
        assert len(asked.sent) == 1

    run(scenario)


def test_a_stream_that_fails_is_an_error_to_the_server() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/broken/asgi")
        with pytest.raises(BrokenOff):
            await asked.end()
        assert asked.sent[1:] == [body(b"one")]

    run(scenario)


def test_a_stream_is_closed_when_its_task_is_cancelled() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/stream/asgi-cancelled")
        await asked.messages(2)
        asked.task.cancel()
        await journal.told("asgi-cancelled.closed")
        with pytest.raises(asyncio.CancelledError):
            await asked.end()

    run(scenario)


def test_a_stream_is_closed_when_its_task_is_cancelled_in_the_middle_of_a_chunk() -> None:
    async def handle(exchange: Exchange) -> Stream:
        return Stream(200, [], kept(two("in-the-middle")))

    async def scenario() -> None:
        is_sending = asyncio.Event()

        async def hold(message: Any) -> None:
            if message.get("body"):
                is_sending.set()
                await journal.told("in-the-middle.never")

        asked = Asked(shell(route("GET", "/", handle)), "/", send=hold)
        await is_sending.wait()
        asked.task.cancel()
        await journal.told("in-the-middle.closed")

    run(scenario)


def test_all_streams_are_ended_at_once() -> None:
    async def scenario() -> None:
        served = shell()
        open_ones = [Asked(served, f"/stream/ended-{number}") for number in range(3)]
        for asked in open_ones:
            await asked.messages(2)
        await served.streams.end_endless()
        for asked in open_ones:
            await asked.end()
            assert asked.sent[-1] == body(b"", more=False)
        later = Asked(served, "/stream/ended-later")
        await later.end()
        assert later.sent[0]["status"] == 400
        assert not journal.has("ended-later.started")

    run(scenario)


@pytest.mark.parametrize(("why", "messages"), [("answered", 2), ("left", 0), ("over", 2)])
def test_a_stream_that_nobody_gets_is_closed(why: str, messages: int) -> None:
    """Its handler has looked at the first chunk already."""
    name = f"unwanted-{why}"

    async def handle(exchange: Exchange) -> Stream:
        chunks = kept(two(name))
        assert await anext(chunks) == b"one"
        if why == "answered":
            exchange.answer(said("early"))
        if why == "left":
            exchange.when_gone(lambda: journal.tell(f"{name}.gone"))
            await journal.told(f"{name}.gone")
        return Stream(200, [], chunks)

    async def scenario() -> None:
        served = shell(route("GET", "/stream", handle))
        if why == "over":
            await served.streams.end_endless()
        asked = Asked(served, "/stream")
        if why == "left":
            asked.leave()
        await asked.end()
        assert journal.has(f"{name}.closed")
        assert len(asked.sent) == messages

    run(scenario)
