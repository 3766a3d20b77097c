"""Large reads of one caller go on two at a time, and wait while its clients do not read what they were sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from toolyard.model.caller import Caller
from toolyard.model.channel import nothing
from toolyard.server.http.connection_limits import ConnectionLimits, ReadTimeouts
from toolyard.server.http.exchange import Exchange, Gone
from toolyard.server.http.fast_path import FastPath
from toolyard.server.http.reply_budget import LARGE_REPLY, MOST_READS, MOST_UNSENT, ReplyBudget
from toolyard.server.http.shell import Shell
from toolyard.server.http.uvicorn_protocol import polite
from toolyard.wires.contract import Reply, Stream

from ..talking import route, said, shell
from .test_turns import Line, on_a_loop


def exchange(subject: str) -> tuple[Exchange, Line]:
    line = Line()
    made = Exchange({"query_string": b""}, "/", {}, None, line)
    made.caller = Caller("t", subject)
    return made, line


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def begun(budget: ReplyBudget, subject: str) -> "tuple[Exchange, Line, asyncio.Task[Any]]":
    made, line = exchange(subject)
    return made, line, asyncio.create_task(budget.read(made))


@on_a_loop
async def test_so_many_of_a_caller_read_at_once_and_the_rest_wait_for_them_alone() -> None:
    budget = ReplyBudget()
    reads = [begun(budget, "a") for _ in range(MOST_READS + 2)]
    others = begun(budget, "b")
    await settle()
    assert [task.done() for _, _, task in reads] == [True] * MOST_READS + [False] * 2
    assert others[2].done()
    reads[0][0].end()
    reads[0][0].end()
    await settle()
    assert [task.done() for _, _, task in reads] == [True] * (MOST_READS + 1) + [False]
    reads[1][2].result().give()
    reads[1][0].end()
    await settle()
    assert reads[-1][2].done()


@on_a_loop
async def test_who_leaves_waits_no_longer_and_takes_nobodys_place() -> None:
    budget = ReplyBudget()
    reads = [begun(budget, "a") for _ in range(MOST_READS + 2)]
    await settle()
    _, line, gone = reads[MOST_READS]
    for leave in line.leaves:
        leave()
    with pytest.raises(Gone):
        await gone
    reads[0][0].end()
    await settle()
    assert reads[-1][2].done()


@on_a_loop
async def test_nothing_is_begun_for_a_caller_with_too_much_unread() -> None:
    budget = ReplyBudget()
    made, _ = exchange("a")
    sent = [budget.hold(made.caller, MOST_UNSENT // 2) for _ in range(3)]
    waiting = asyncio.create_task(budget.room(made))
    _, _, reading = begun(budget, "a")
    _, _, others = begun(budget, "b")
    await settle()
    assert (waiting.done(), reading.done(), others.done()) == (False, False, True)
    sent.pop()()
    await settle()
    assert not waiting.done()  # there is as much as there may be
    sent.pop()()
    await settle()
    assert waiting.done()
    assert reading.done()
    assert not budget.full


@on_a_loop
async def test_what_was_read_without_a_place_is_kept_where_there_is_one() -> None:
    budget = ReplyBudget()
    exchanges = [exchange("a")[0] for _ in range(MOST_READS + 1)]
    assert [budget.may_keep(each, LARGE_REPLY + 1) for each in exchanges] == [True] * MOST_READS + [False]
    assert budget.may_keep(exchanges[-1], LARGE_REPLY)
    assert budget.may_keep(exchange("b")[0], LARGE_REPLY + 1)
    exchanges[0].end()
    assert budget.may_keep(exchanges[-1], LARGE_REPLY + 1)
    for each in exchanges:
        each.end()
    sent = budget.hold(exchanges[0].caller, MOST_UNSENT)
    assert not budget.may_keep(exchange("a")[0], LARGE_REPLY + 1)
    sent()
    assert budget.may_keep(exchange("a")[0], LARGE_REPLY + 1)


@asynccontextmanager
async def served(app: Shell) -> AsyncIterator[int]:
    """The port at which uvicorn serves it."""
    protocol = polite(FastPath(app), ReadTimeouts(), 65536, ("GET",), ConnectionLimits())
    config = uvicorn.Config(app, http=protocol, log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config=config, server_state=state, app_state={}),
        "127.0.0.1", 0,
    )  # fmt: skip
    async with server:
        yield server.sockets[0].getsockname()[1]
        for task in list(state.tasks):
            task.cancel()


@on_a_loop
async def test_what_is_unread_of_a_stream_counts_too() -> None:
    held: list[int] = []

    async def chunks() -> AsyncIterator[bytes]:
        yield b"x" * 2**25

    async def answer(_: Exchange) -> Stream:
        return Stream(200, [], chunks(), has_an_end=True)

    app = shell(route("GET", "/stream", answer))
    app.replies.hold = lambda caller, size: (held.append(size), nothing)[1]  # type: ignore[method-assign,func-returns-value]
    async with served(app) as port:
        read, ask = await asyncio.open_connection("127.0.0.1", port)
        ask.write(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await read.readuntil(b"\r\n\r\n")
        while not held:
            await asyncio.sleep(0)
        assert held[0] > LARGE_REPLY
        ask.close()


@on_a_loop
async def test_what_is_unread_counts_as_its_own_requests_whichever_task_replies() -> None:
    """An early reply may come from the task of another caller's request."""
    held: list[tuple[str, int]] = []
    waiting: dict[str, Exchange] = {}
    own = {b"a": Caller("t", "a"), b"b": Caller("t", "b")}

    async def wait(exchange: Exchange) -> Reply:
        waiting["a"] = exchange
        await asyncio.Event().wait()
        raise AssertionError

    async def answer(_: Exchange) -> Reply:
        waiting["a"].answer(Reply(200, b"x" * 2**25, []))
        return said("b")

    app = shell(route("GET", "/wait", wait), route("GET", "/answer", answer))
    app._admit = lambda scope, exchange: own[exchange.headers[b"x-caller"]]
    app.replies.hold = lambda caller, size: (held.append((caller.subject, size)), nothing)[1]  # type: ignore[method-assign,func-returns-value]
    async with served(app) as port:
        _, ask = await asyncio.open_connection("127.0.0.1", port)
        ask.write(b"GET /wait HTTP/1.1\r\nhost: localhost\r\nx-caller: a\r\n\r\n")
        while not waiting:
            await asyncio.sleep(0)
        read, tell = await asyncio.open_connection("127.0.0.1", port)
        tell.write(b"GET /answer HTTP/1.1\r\nhost: localhost\r\nx-caller: b\r\n\r\n")
        await read.readuntil(b"\r\n\r\n")
        assert [subject for subject, _ in held] == ["a"]
        ask.close()
        tell.close()
