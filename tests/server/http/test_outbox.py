"""Replies of one turn of the loop are written together: in order, none of them lost, and nobody waits for a request
that waits itself."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolyard.server.http import fast_path, outbox
from toolyard.server.http.outbox import LARGEST, MOST_TOGETHER, Outbox
from toolyard.server.http.uvicorn_protocol import Cycle, PoliteProtocol
from toolyard.wires.contract import Reply

from .connection import Line, connection


@pytest.fixture(autouse=True)
def _there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy may stand still for longer than replies are collected."""
    monkeypatch.setattr(outbox, "LONGEST_S", 60.0)


class Written:
    """A transport that notes what is written to it, in a list that it may share with others."""

    def __init__(self, name: str, all_written: list[tuple[str, bytes]]) -> None:
        self.name, self.all_written, self.closing = name, all_written, False

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.all_written.append((self.name, data))

    def is_closing(self) -> bool:
        return self.closing


def in_a_loop(test: Callable[[Outbox, list[tuple[str, bytes]], Callable[[str], Any]], Any]) -> None:
    async def run() -> None:
        written: list[tuple[str, bytes]] = []
        await test(Outbox(), written, lambda name: Written(name, written))

    asyncio.run(run())


def test_a_request_that_came_alone_is_answered_at_once() -> None:
    async def alone(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        box.put(to("a"), b"1")
        assert written == [("a", b"1")]

    in_a_loop(alone)


def test_those_that_came_together_are_answered_when_the_last_one_is() -> None:
    async def together(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        for left, name in ((2, "a"), (1, "b")):
            box.starting = left
            box.put(to(name), b"1")
            assert written == []
        box.starting = 0
        box.put(to("c"), b"1")
        assert [name for name, _ in written] == ["a", "b", "c"]

    in_a_loop(together)


def test_replies_are_not_collected_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "LONGEST_S", -1.0)

    async def slow(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        box.starting = 2
        box.put(to("a"), b"1")
        assert written == [("a", b"1")]

    in_a_loop(slow)


def test_nobody_waits_for_one_that_waits() -> None:
    async def last_one_waits(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        box.starting = 1
        box.put(to("a"), b"1")
        box.starting = 0  # the other one has started, and is not done
        await asyncio.sleep(0)
        assert written == [("a", b"1")]

    in_a_loop(last_one_waits)


def test_a_request_that_never_starts_holds_up_one_turn() -> None:
    async def lost(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        box.starting = 1
        box.put(to("a"), b"1")
        await asyncio.sleep(0)
        box.put(to("a"), b"2")
        assert written == [("a", b"1"), ("a", b"2")]

    in_a_loop(lost)


def test_few_wait_for_one_another_and_large_ones_never() -> None:
    async def many(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        box.starting = 100
        for _ in range(MOST_TOGETHER):
            box.put(to("a"), b"1")
        assert written == []
        box.put(to("b"), b"1")
        assert len(written) == MOST_TOGETHER + 1
        box.put(to("a"), b"2")
        box.put(to("a"), b"3" * (LARGEST + 1))
        assert [data[:1] for _, data in written[-2:]] == [b"2", b"3"]

    in_a_loop(many)


def test_a_connection_that_cannot_be_written_to_costs_the_others_nothing() -> None:
    async def broken(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        def fail(data: bytes) -> None:
            raise RuntimeError("the handler is closed")

        box.starting = 1
        bad = to("a")
        bad.write = fail
        box.put(bad, b"1")
        box.put(to("b"), b"1")
        box.flush()
        assert written == [("b", b"1")]

    in_a_loop(broken)


def test_a_client_that_has_left_costs_the_others_nothing() -> None:
    async def left(box: Outbox, written: list[tuple[str, bytes]], to: Callable[[str], Any]) -> None:
        box.starting = 1
        gone = to("a")
        box.put(gone, b"1")
        box.put(to("b"), b"1")
        gone.closing = True
        box.flush()
        assert written == [("b", b"1")]

    in_a_loop(left)


# -- on a connection ---------------------------------------------------------------------------------

REQUEST = b"POST /tools/call HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


async def with_a_reply_in_the_outbox(then: Callable[[PoliteProtocol], None]) -> Line:
    """A connection whose reply waits for another one's, when something else happens to it."""

    async def answer(cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
        cycle.outbox.starting = 1
        fast_path.write(cycle, Reply(200, b"the reply", []))
        tasks.discard(cycle.task)

    protocol, line = connection(answer)
    protocol.data_received(REQUEST)
    await asyncio.sleep(0)
    assert line.written == b""
    then(protocol)
    return line


@pytest.mark.parametrize(
    "then",
    [
        lambda protocol: protocol.data_received(b"this is not HTTP\r\n\r\n"),
        lambda protocol: protocol.eof_received(),
        lambda protocol: protocol.shutdown(),
    ],
    ids=["unreadable", "end of file", "shutdown"],
)
def test_a_reply_is_written_before_its_connection_ends(then: Callable[[PoliteProtocol], None]) -> None:
    line = asyncio.run(with_a_reply_in_the_outbox(then))
    assert line.written.startswith(b"HTTP/1.1 200")
    assert b"the reply" in line.written


@pytest.mark.parametrize(
    "reply", [Reply(200, b"last", []), Reply(200, b"x" * 10**6, []), Reply(200, b"a", [], (b"b",))]
)
def test_a_reply_that_ends_its_connection_comes_after_the_others(reply: Reply) -> None:
    async def answer(cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
        cycle.outbox.starting = 1
        cycle.outbox.put(cycle.transport, b"before ")
        cycle.keep_alive = False
        fast_path.write(cycle, reply)
        tasks.discard(cycle.task)

    async def run() -> Line:
        protocol, line = connection(answer)
        protocol.data_received(REQUEST)
        await asyncio.sleep(0)
        return line

    line = asyncio.run(run())
    assert line.is_closing()
    assert line.written.startswith(b"before HTTP/1.1 200")
    assert line.written.endswith(b"".join((reply.body, *reply.more)))
