"""Writes of one kind, made together.

A durable commit costs a flush of the disk, and a statement a way to the server and back, for one row or for hundreds.
So while a batch is on its way, what comes meanwhile waits for the next. Where so much waits that it is a large batch of
its own, waiting gains nothing any more: then a second one is sent at the same time, if the kind of write allows it.
Nobody is told that a write is done before the commit that holds it is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from ...model.errors import InternalError, RequestError, ToolyardError
from ...supervision import SupervisedTask, Supervisor
from .connections import store_down

MOST_AT_ONCE = 500
LARGE = 100
"""So many writes are a large batch: with more in one, each of them is hardly cheaper."""
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024
_log = logging.getLogger("toolyard.ledger")
W = TypeVar("W")
R = TypeVar("R")
Tell = Callable[["asyncio.Future[Any]", Sequence[Any]], None]
Group = tuple[Sequence[W], "asyncio.Future[Any]", Tell]
"""What was submitted together, who waits for it, and how it is told of what became of it."""


class Batches(Generic[W, R]):
    """`make` writes any number of them, and gives what became of each; it raises only what concerns all. `size` is how
    many bytes there are to one, and `lanes` how many batches may be on their way at the same time."""

    def __init__(
        self,
        name: str,
        make: Callable[[list[W]], Awaitable[Sequence[R | ToolyardError]]],
        size: Callable[[W], int] = lambda write: 0,
        lanes: int = 1,
    ) -> None:
        self.name, self._make, self._size = name, make, size
        self._waiting: deque[Group[W]] = deque()
        self._count = 0
        """How many writes wait."""
        self._lanes = [_Lane[W](LARGE if number else 0) for number in range(lanes)]
        self._kept: list[SupervisedTask] = []

    def start(self, supervisor: Supervisor) -> None:
        name = f"ledger writes: {self.name}"
        self._kept = [
            supervisor.task(f"{name}, {number}" if number > 1 else name, partial(self._run, lane))
            for number, lane in enumerate(self._lanes, 1)
        ]

    def submit(self, writes: Sequence[W]) -> "asyncio.Future[list[R]]":
        """Done when they are durable, with what became of each; or with what one of them failed with."""
        return self._submit(writes, _tell)

    def submit_one(self, write: W) -> "asyncio.Future[R]":
        """Done when it is durable, with what became of it."""
        return self._submit((write,), _tell_one)

    def _submit(self, writes: Sequence[W], tell: Tell) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((writes, done, tell))
        self._count += len(writes)
        for lane in self._lanes:
            if self._count >= lane.least and not lane.is_called.is_set():
                lane.is_called.set()
        return done

    async def close(self) -> None:
        """After everything that was submitted."""
        while left := [done for _, done, _ in self._not_told() if not done.done()]:
            await asyncio.wait(left)
        for kept in self._kept:
            await kept.stop()

    def _not_told(self) -> list[Group[W]]:
        return [*(group for lane in self._lanes for group in lane.under_way), *self._waiting]

    async def _run(self, lane: "_Lane[W]") -> None:
        lane.is_called = asyncio.Event()
        try:
            while True:
                while self._waiting and self._count >= lane.least:
                    await self._next(lane)
                await lane.is_called.wait()
                lane.is_called.clear()
        finally:
            lost = store_down("a write was given up; whether it was made is not known")
            lane.tell([lost] * sum(len(writes) for writes, _, _ in lane.under_way))

    async def _next(self, lane: "_Lane[W]") -> None:
        """As many of those that wait as go together."""
        writes, size = list[W](), 0
        while self._waiting and len(writes) < MOST_AT_ONCE and size < MOST_BYTES_AT_ONCE:
            group = self._waiting.popleft()
            lane.under_way.append(group)
            writes += group[0]
            for write in group[0]:
                size += self._size(write)
        self._count -= len(writes)
        lane.tell(await self._together(writes))

    async def _together(self, writes: list[W]) -> Sequence[R | ToolyardError]:
        """In one go; where something is wrong with one of them, each alone, so that it fails alone."""
        try:
            return await self._make(writes)
        except RequestError as refused:
            if len(writes) == 1:
                return [refused]
        except ToolyardError as error:
            return [error] * len(writes)
        except Exception as defect:  # whatever one of them raises, the others are written
            if len(writes) == 1:
                _log.exception("a write of %s failed", self.name)
                return [_defect(defect)]
        return [outcome for write in writes for outcome in await self._together([write])]


class _Lane(Generic[W]):
    """One batch after the other: it begins one when at least so many writes wait."""

    def __init__(self, least: int) -> None:
        self.least = least
        self.under_way: list[Group[W]] = []
        self.is_called = asyncio.Event()

    def tell(self, outcomes: Sequence[Any]) -> None:
        """Whoever waits for what was under way hears what became of it."""
        start = 0
        for writes, done, tell in self.under_way:
            if not done.done():  # otherwise nobody waits any more
                tell(done, outcomes[start : start + len(writes)])
            start += len(writes)
        self.under_way = []


def _defect(defect: Exception) -> InternalError:
    error = InternalError("The call could not be recorded", developer_message=repr(defect))
    error.__cause__ = defect
    return error


def _tell(done: "asyncio.Future[list[R]]", outcomes: Sequence[R | ToolyardError]) -> None:
    made: list[R] = []
    for outcome in outcomes:
        if isinstance(outcome, ToolyardError):
            done.set_exception(outcome)
            return
        made.append(outcome)
    done.set_result(made)


def _tell_one(done: "asyncio.Future[R]", outcomes: Sequence[R | ToolyardError]) -> None:
    (outcome,) = outcomes
    if isinstance(outcome, ToolyardError):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
