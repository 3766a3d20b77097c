"""Clients that leave: those who wait for them hear it, once, and only while there is no reply."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from toolyard.server.http.exchange import Exchange
from toolyard.wires.contract import Reply, Stream

from ..asking import Asked, run
from ..conftest import Talking
from ..talking import journal, route, said, shell

# -- to a client -----------------------------------------------------------------------------------


def close(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def say_no_more(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("leave", [close, reset, say_no_more])
def test_a_handler_hears_that_its_client_left(talker: Talking, leave: Any) -> None:
    name = f"heard-{leave.__name__}"
    with talker.line() as line:
        line.send(talker.request(f"/gone/{name}"))
        talker.wait_for(f"{name}.waiting")
        assert not talker.has(f"{name}.gone")
        leave(line.socket)
        talker.wait_for(f"{name}.gone")
        talker.wait_for(f"{name}.gone-too")
    talker.tell(f"{name}.go")


def test_a_client_that_stays_gets_its_reply(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/gone/stays"))
        talker.wait_for("stays.waiting")
        talker.tell("stays.go")
        assert line.reply().body == b"stayed"
        assert not talker.has("stays.gone")


@pytest.mark.parametrize("first", ["/gone", "/early"])
def test_leaving_after_the_reply_is_not_leaving(talker: Talking, first: str) -> None:
    """The next request on the connection hears it, so the server knows; the one that has its reply does not."""
    name = first[1:]
    with talker.line() as line:
        if first == "/gone":
            talker.tell(f"{name}-replied.go")
        line.send(talker.request(f"{first}/{name}-replied"))
        assert line.reply().status in (200, 202)
        line.send(talker.request(f"/gone/{name}-next"))
        talker.wait_for(f"{name}-next.waiting")
    talker.wait_for(f"{name}-next.gone")
    assert not talker.has(f"{name}-replied.gone")
    talker.tell(f"{name}-next.go")
    talker.tell(f"{name}-replied.go")


def test_who_asks_after_the_client_left_hears_it_too(talker: Talking) -> None:
    with talker.line() as line:
        line.send(talker.request("/nobody/late"))
        talker.wait_for("late.waiting")
    talker.wait_for("late.gone-before")


def test_a_client_that_has_said_too_much_is_noticed_when_it_leaves(direct: Talking) -> None:
    """Reading is paused while there are more requests than the one that is answered."""
    with direct.line() as line:
        line.send(direct.request("/gone/much") + direct.request("/told/nothing/now") * 20)
        direct.wait_for("much.waiting")
        line.send(direct.request("/told/nothing/now"))
    direct.wait_for("much.gone")
    direct.tell("much.go")


def test_a_client_with_a_large_body_is_noticed_when_it_leaves(unswept: Talking) -> None:
    """Reading is paused while so much has not been looked at."""
    with unswept.line() as line:
        line.send(unswept.request("/gone/large", "POST", json.dumps("x" * 300_000).encode()))
        unswept.wait_for("large.waiting")
    unswept.wait_for("large.gone")
    unswept.tell("large.go")


# -- through any ASGI server -----------------------------------------------------------------------


def test_a_handler_hears_what_the_server_says() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/gone/asgi")
        await journal.told("asgi.waiting")
        asked.leave()
        await journal.told("asgi.gone-too")
        journal.tell("asgi.go")
        await asked.end()
        assert asked.sent == []

    run(scenario)


def test_nobody_listens_for_what_nobody_asked_for() -> None:
    async def handle(exchange: Exchange) -> Reply:
        journal.tell("unasked.waiting")
        await journal.told("unasked.go")
        return said("stayed")

    async def scenario() -> None:
        asked = Asked(shell(route("GET", "/", handle)), "/")
        await journal.told("unasked.waiting")
        journal.tell("unasked.go")
        await asked.end()
        assert asked.times_received == 0

    run(scenario)


def test_nobody_listens_after_the_reply() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/gone/asgi-stays")
        await journal.told("asgi-stays.waiting")
        journal.tell("asgi-stays.go")
        await asked.end()
        asked.leave()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not journal.has("asgi-stays.gone")

    run(scenario)


def test_leaving_while_the_reply_is_sent_is_not_leaving() -> None:
    """As a server does that takes the reply's end for the client's."""
    asked: Asked

    async def leave(message: Any) -> None:
        if "body" not in message:
            return
        asked.leave()
        await asked.has_heard.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def scenario() -> None:
        nonlocal asked
        asked = Asked(shell(), "/gone/asgi-ends", send=leave)
        await journal.told("asgi-ends.waiting")
        journal.tell("asgi-ends.go")
        await asked.end()
        assert len(asked.sent) == 2
        assert not journal.has("asgi-ends.gone")

    run(scenario)


def test_leaving_after_an_early_answer_is_not_leaving() -> None:
    async def scenario() -> None:
        asked = Asked(shell(), "/early/asgi-early")
        await asked.messages(2)
        asked.leave()
        journal.tell("asgi-early.go")
        await asked.end()
        assert not journal.has("asgi-early.gone")

    run(scenario)


def test_leaving_after_an_early_stream_is_not_leaving() -> None:
    """The stream is over, and its handler goes on."""

    async def chunks() -> AsyncIterator[bytes]:
        yield b"all"

    async def handle(exchange: Exchange) -> Reply:
        exchange.when_gone(lambda: journal.tell("asgi-stream.gone"))
        exchange.answer(Stream(200, [], chunks()))
        await journal.told("asgi-stream.go")
        return said("late")

    async def scenario() -> None:
        asked = Asked(shell(route("GET", "/", handle)), "/")
        await asked.messages(3)
        asked.leave()
        await asked.has_heard.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        journal.tell("asgi-stream.go")
        await asked.end()
        assert not journal.has("asgi-stream.gone")

    run(scenario)


def test_a_server_that_repeats_itself_is_not_listened_to_for_ever() -> None:
    times = 0

    async def receive() -> dict[str, Any]:
        nonlocal times
        times += 1
        assert times < 10
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        """It is of no interest."""

    async def scenario() -> None:
        scope = {"type": "http", "method": "GET", "path": "/gone/repeated", "query_string": b"", "headers": []}
        task = asyncio.ensure_future(shell()(scope, receive, send))
        await journal.told("repeated.waiting")
        journal.tell("repeated.go")
        await task
        assert 0 < times < 10

    run(scenario)


def test_a_callback_is_called_once_whatever_others_do() -> None:
    calls = []

    async def handle(exchange: Exchange) -> Reply:
        left = asyncio.Event()
        exchange.when_gone(lambda: 1 / 0)
        exchange.when_gone(lambda: calls.append("called"))
        exchange.when_gone(left.set)
        await left.wait()
        return said("to nobody")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        asked = Asked(shell(route("GET", "/", handle)), "/")
        asked.leave()
        await asked.end()
        assert calls == ["called"]

    run(scenario)
