"""In a thread: plain functions, so that one that waits does not hold up the others.

`loop.run_in_executor` costs three wake-ups a call. Here finished jobs collect in a queue of their own and
the loop is woken once for all of them. The pool grows only when jobs have waited a moment: short jobs
then share few threads, which is several times faster than waking a cold thread for each.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ..model.raised import shown
from ..model.run import Run
from ..supervision import SupervisedThread, Supervisor

GROW_AFTER_S = 0.002
Job = tuple["asyncio.Future[Any]", Callable[[], Any]]


class Threads:
    """A pool of threads for one event loop at a time."""

    waits_for_claim = has_foreign_schemas = can_ask = False
    place = "here, in a thread"

    def __init__(self, size: int, supervisor: Supervisor | None = None) -> None:
        self._size, self._supervisor = size, supervisor or Supervisor()
        self._jobs: deque[Job | None] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        """Rings for each job. A thread that dies takes a ring with it, and no job."""
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._threads: list[SupervisedThread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waking = False
        self._growing = False
        self.running: dict[int, Run] = {}
        """The run of each busy thread: for naming who keeps the loop waiting."""

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        context = contextvars.copy_context()
        return await self.submit(lambda: context.run(self._work, arguments, run))

    def submit(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        loop = self._loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._put((future, job))
        if not self._growing and len(self._threads) < self._size:
            self._growing = True
            loop.call_later(GROW_AFTER_S if self._threads else 0, self._grow)
        return future

    async def close(self) -> None:
        """Lets the jobs that run end by themselves: the threads are daemons, and no thread can be stopped."""
        for _ in self._threads:
            self._put(None)
        self._threads.clear()

    def _put(self, job: Job | None) -> None:
        self._jobs.append(job)
        self._bell.put(None)

    def _work(self, arguments: dict[str, Any], run: Run) -> Any:
        code = run.tool.code
        me = threading.get_ident()
        self.running[me] = run
        try:
            value = code.invoke(arguments, run)
            if hasattr(value, "__await__"):
                raise TypeError(f"{run.tool.id} is a plain function that returned an awaitable; make it async def")
            return code.dump(value)
        finally:
            del self.running[me]

    def _grow(self) -> None:
        """One more thread for each job still waiting."""
        self._growing = False
        for _ in range(min(len(self._jobs), self._size - len(self._threads))):
            self._threads.append(self._supervisor.thread(f"tool thread {len(self._threads)}", self._serve))

    def _next(self) -> Job | None:
        while True:
            self._bell.get()
            try:
                return self._jobs.popleft()
            except IndexError:
                continue  # rung for one that another thread took

    def _serve(self) -> None:
        self._bell.put(None)
        while (taken := self._next()) is not None:
            future, job = taken
            if future.cancelled():
                continue  # given up before it began
            outcome: tuple[asyncio.Future[Any], Any, BaseException | None]
            try:
                outcome = (future, job(), None)
            except BaseException as error:  # the loop's side raises it again
                outcome = (future, None, error)
            self._finished(outcome)
            taken = future = job = outcome = None  # type: ignore[assignment]

    def _finished(self, outcome: tuple["asyncio.Future[Any]", Any, BaseException | None]) -> None:
        self._done.append(outcome)
        if not self._waking:
            self._waking = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)  # type: ignore[union-attr]
            except RuntimeError:
                pass  # the loop is closed: nobody waits

    def _deliver(self) -> None:
        self._waking = False
        while self._done:
            future, value, error = self._done.popleft()
            if future.done():
                continue  # given up: cancelled or timed out
            if error is None:
                future.set_result(value)
            elif isinstance(error, StopIteration | GeneratorExit):  # to a coroutine these say something else
                future.set_exception(RuntimeError(f"tool raised {shown(error)}"))
            else:
                future.set_exception(error)
