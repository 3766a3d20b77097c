"""Writes of one kind, made together.

A durable commit costs a flush of the disk, and a statement a way to the server and back, for one row or for hundreds.
So while a batch is on its way, what comes meanwhile waits for the next. Nobody is told that a write is done before the
commit that holds it is.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from ..model.errors import InternalError, RequestError, ToolyardError

MOST_AT_ONCE = 500
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024
W = TypeVar("W")
R = TypeVar("R")
Group = tuple[Sequence[W], "asyncio.Future[list[R]]"]
"""What was submitted together."""


class Batches(Generic[W, R]):
    """`make` writes any number of them, and gives what became of each; it raises only what concerns all. `size` is how
    many bytes there are to one."""

    def __init__(
        self,
        make: Callable[[list[W]], Awaitable[Sequence[R | ToolyardError]]],
        size: Callable[[W], int] = lambda write: 0,
    ) -> None:
        self._make, self._size = make, size
        self._waiting: deque[Group[W, R]] = deque()
        self._under_way: list[Group[W, R]] = []
        self._working: asyncio.Task[None] | None = None

    def submit(self, writes: Sequence[W]) -> "asyncio.Future[list[R]]":
        """Done when they are durable, with what became of each; or with what one of them failed with."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[R]] = loop.create_future()
        self._waiting.append((writes, done))
        if self._working is None:
            self._working = loop.create_task(self._work())
            self._working.add_done_callback(self._ended)
        return done

    async def close(self) -> None:
        """After everything that was submitted."""
        while self._working is not None:
            await asyncio.wait((self._working,))

    async def _work(self) -> None:
        while self._waiting:
            writes, size = list[W](), 0
            while self._waiting and len(writes) < MOST_AT_ONCE and size < MOST_BYTES_AT_ONCE:
                self._under_way.append(self._waiting.popleft())
                writes += self._under_way[-1][0]
                size += sum(self._size(write) for write in self._under_way[-1][0])
            outcomes, start = await self._together(writes), 0
            for group, done in self._under_way:
                _tell(done, outcomes[start : start + len(group)])
                start += len(group)
            self._under_way = []
        self._working = None  # before anybody who was told can come again

    def _ended(self, work: "asyncio.Task[None]") -> None:
        """Nobody is left waiting, even where the work ended by a defect of ours."""
        if work.cancelled() or work.exception() is None:
            return
        self._working = None
        defect = InternalError("The call could not be recorded", developer_message=repr(work.exception()))
        defect.__cause__ = work.exception()
        for _, done in (*self._under_way, *self._waiting):
            _tell(done, [defect])
        self._under_way = []
        self._waiting.clear()

    async def _together(self, writes: list[W]) -> Sequence[R | ToolyardError]:
        """In one go; where something is wrong with one of them, each alone, so that it fails alone."""
        try:
            return await self._make(writes)
        except RequestError as refused:
            if len(writes) == 1:
                return [refused]
        except ToolyardError as error:
            return [error] * len(writes)
        return [outcome for write in writes for outcome in await self._together([write])]


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
