"""Requests with large bodies take turns, and callers among themselves."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from toolyard.model.caller import Caller
from toolyard.server.http.exchange import Exchange, Gone
from toolyard.server.http.turns import DENSE_BODY, LARGE_BODY, MOST_S, MOST_VALUES, ROUNDS, Turns, takes_turns


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


def test_who_takes_the_loop_for_long_leaves_it_to_others_for_half_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_s = iter([0.0, 0.6, 1.0, 1.001, 2.0, 9.0])
    monkeypatch.setattr("toolyard.server.http.turns.time.thread_time", lambda: next(taken_s))

    async def scenario() -> None:
        loop, left_s = asyncio.get_running_loop(), list[float]()

        def call_later(delay: float, callback: Callable[..., object], *arguments: object) -> asyncio.Handle:
            if callback == requests.turns._give:
                left_s.append(delay)
            return loop.call_soon(callback, *arguments)

        requests = Requests()
        monkeypatch.setattr(loop, "call_later", call_later)
        await asyncio.gather(*(requests.start(name) for name in ("a1", "a2", "a3")))
        for _ in range(2 * ROUNDS):
            await asyncio.sleep(0)
        assert left_s == [0.3, MOST_S], "a thousandth of a second is not worth it, and no more than that is enough"
        assert len(requests.notes) == 6

    asyncio.run(scenario())


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
    requests, given = Requests(), list["asyncio.Future[None]"]()
    first = requests.start("a1")
    stopped = asyncio.create_task(requests.turns.wait_for(Caller("t", "b"), given.append))
    running = [first, stopped, requests.start("c1")]
    while not given or not given[0].done():
        await asyncio.sleep(0)
    stopped.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert requests.notes == ["a1", "a1", "c1", "c1"]


def test_a_body_of_many_values_takes_turns_though_it_is_not_large() -> None:
    dense = b"[" + b"1," * (MOST_VALUES + 1) + b"1]"
    dense += b" " * (DENSE_BODY - len(dense) + 1)
    text = b'"' + b"x" * (LARGE_BODY - 2) + b'"'
    assert (takes_turns(dense), takes_turns(text), takes_turns(text + b" ")) == (True, False, True)
