"""Requests with large bodies take turns, and callers among themselves."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from toolyard.model.caller import Caller
from toolyard.server.http.exchange import Exchange, Gone
from toolyard.server.http.turns import ROUNDS, Turns


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 30))

    return run


class Line:
    """A client that can leave."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []

    def answer(self, reply: Any) -> None: ...

    def when_gone(self, callback: Any) -> None:
        self.leaves.append(callback)


class Requests:
    """Each notes when its turn began and ended."""

    def __init__(self) -> None:
        self.turns, self.notes = Turns(), list[str]()
        self.lines: dict[str, Line] = {}

    def start(self, name: str, work: Any = None) -> "asyncio.Task[None]":
        self.lines[name] = line = Line()
        exchange = Exchange({"query_string": b""}, "/", {}, None, line)
        exchange.caller = Caller("t", name[0])
        return asyncio.create_task(self._run(name, exchange, work))

    async def _run(self, name: str, exchange: Exchange, work: Any) -> None:
        await self.turns.wait(exchange)
        with self.turns.held():
            self.notes.append(name)
            await (work or asyncio.sleep)(0)
            self.notes.append(name)


@on_a_loop
async def test_one_is_worked_on_at_a_time_and_callers_take_turns() -> None:
    requests = Requests()
    await asyncio.gather(*(requests.start(name) for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1")))
    assert requests.notes[::2] == requests.notes[1::2] == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


@on_a_loop
async def test_between_two_turns_the_loop_goes_round() -> None:
    requests, seen = Requests(), list[int]()
    running = asyncio.gather(*(requests.start(name) for name in ("a1", "a2")))
    while not running.done():
        seen.append(len(requests.notes))
        await asyncio.sleep(0)
    assert seen.count(2) >= ROUNDS


@on_a_loop
async def test_a_request_that_only_waits_holds_nobody_up() -> None:
    requests, answered = Requests(), asyncio.Event()

    async def work(_: float) -> None:
        await answered.wait()

    waiting = requests.start("a1", work)
    await asyncio.gather(*(requests.start(name) for name in ("a2", "b1")))
    assert not waiting.done()
    answered.set()
    await waiting
    assert requests.notes == ["a1", "a2", "a2", "b1", "b1", "a1"]
    await requests.start("c1")


@on_a_loop
async def test_whoever_leaves_or_is_stopped_loses_its_turn_and_nobody_elses() -> None:
    requests = Requests()
    running = [requests.start(name) for name in ("a1", "a2", "a3", "b1")]
    await asyncio.sleep(0)
    for leave in requests.lines["a2"].leaves:
        leave()
    running[2].cancel()
    done = await asyncio.gather(*running, return_exceptions=True)
    assert isinstance(done[1], Gone)
    assert isinstance(done[2], asyncio.CancelledError)
    assert requests.notes == ["a1", "a1", "b1", "b1"]


@on_a_loop
async def test_a_turn_that_came_as_its_request_was_stopped_goes_to_the_next() -> None:
    requests = Requests()
    running = [requests.start(name) for name in ("a1", "b1", "c1")]
    while "a1" not in requests.notes[1:]:
        await asyncio.sleep(0)
    turn = requests.turns._waiting["t", "b"][0]
    while not turn.done():
        await asyncio.sleep(0)
    running[1].cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert requests.notes == ["a1", "a1", "c1", "c1"]
