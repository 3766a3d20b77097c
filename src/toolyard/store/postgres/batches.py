"""Writes of one kind, made together.

A durable commit costs a flush of the disk, and a statement a way to the server and back, for one row or for hundreds.
So while a batch is on its way, what comes meanwhile waits for the next. Nobody is told that a write is done before the
commit that holds it is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from ...model.errors import InternalError, RequestError, ToolyardError
from ...supervision import SupervisedTask, Supervisor
from .connections import store_down

MOST_AT_ONCE = 500
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024
_log = logging.getLogger("toolyard.ledger")
W = TypeVar("W")
R = TypeVar("R")
Group = tuple[Sequence[W], "asyncio.Future[list[R]]"]
"""What was submitted together."""


class Batches(Generic[W, R]):
    """`make` writes any number of them, and gives what became of each; it raises only what concerns all. `size` is how
    many bytes there are to one."""

    def __init__(
        self,
        name: str,
        make: Callable[[list[W]], Awaitable[Sequence[R | ToolyardError]]],
        size: Callable[[W], int] = lambda write: 0,
    ) -> None:
        self.name, self._make, self._size = name, make, size
        self._waiting: deque[Group[W, R]] = deque()
        self._under_way: list[Group[W, R]] = []
        self._there = asyncio.Event()
        self._kept: SupervisedTask | None = None

    def start(self, supervisor: Supervisor) -> None:
        self._kept = supervisor.task(f"ledger writes: {self.name}", self._run)

    def submit(self, writes: Sequence[W]) -> "asyncio.Future[list[R]]":
        """Done when they are durable, with what became of each; or with what one of them failed with."""
        done: asyncio.Future[list[R]] = asyncio.get_running_loop().create_future()
        self._waiting.append((writes, done))
        self._there.set()
        return done

    async def close(self) -> None:
        """After everything that was submitted."""
        while left := [done for _, done in (*self._under_way, *self._waiting) if not done.done()]:
            await asyncio.wait(left)
        if self._kept is not None:
            await self._kept.stop()

    async def _run(self) -> None:
        self._there = asyncio.Event()
        try:
            while True:
                while self._waiting:
                    await self._next()
                await self._there.wait()
                self._there.clear()
        finally:
            lost = store_down("a write was given up; whether it was made is not known")
            for _, done in self._under_way:
                _tell(done, [lost])
            self._under_way = []

    async def _next(self) -> None:
        """As many of those that wait as go together."""
        writes, size = list[W](), 0
        while self._waiting and len(writes) < MOST_AT_ONCE and size < MOST_BYTES_AT_ONCE:
            group = self._waiting.popleft()
            self._under_way.append(group)
            writes += group[0]
            for write in group[0]:
                size += self._size(write)
        outcomes, start = await self._together(writes), 0
        for made, done in self._under_way:
            _tell(done, outcomes[start : start + len(made)])
            start += len(made)
        self._under_way = []

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


def _defect(defect: Exception) -> InternalError:
    error = InternalError("The call could not be recorded", developer_message=repr(defect))
    error.__cause__ = defect
    return error


def _tell(done: "asyncio.Future[list[R]]", outcomes: Sequence[R | ToolyardError]) -> None:
    if done.done():
        return  # nobody waits any more
    made: list[R] = []
    for outcome in outcomes:
        if isinstance(outcome, ToolyardError):
            done.set_exception(outcome)
            return
        made.append(outcome)
    done.set_result(made)
