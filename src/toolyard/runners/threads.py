"""In a thread: plain functions, so that one that waits does not hold up the others.

`loop.run_in_executor` costs three wake-ups a call. Here finished jobs collect in a queue of their own and
the loop is woken once for all of them. The pool grows only when jobs have waited a moment: short jobs
then share few threads, which is several times faster than waking a cold thread for each.

Callers take turns (`turns`). Whose job is next is decided on the loop, so that no lock is needed: a job goes to the
threads' queue once it has a seat, and there are as many seats as threads. It has its seat until its thread is done with
it, also where nobody waits for it any more: no thread can be stopped.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any

from ..model.raised import shown
from ..model.run import Run
from ..supervision import SupervisedThread, Supervisor
from .turns import Seats, turn_of

GROW_AFTER_S = 0.002
Job = tuple["asyncio.Future[Any]", Callable[[], Any], Hashable]
"""What is given its outcome, what is to be done, and whose it is."""
Done = tuple["asyncio.Future[Any]", Any, BaseException | None, Hashable]
"""The same, with what it returned or raised."""


class Threads:
    """A pool of threads for one event loop at a time. `for_newcomers` of them are for callers that have none."""

    waits_for_claim = has_foreign_schemas = can_ask = takes_meta = False
    place = "here, in a thread"

    def __init__(self, size: int, supervisor: Supervisor | None = None, *, for_newcomers: int = 0) -> None:
        self._size, self._supervisor = size, supervisor or Supervisor()
        self._seats: Seats[Job] = Seats(size, for_newcomers)
        self._jobs: deque[Job | None] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        """Rings for each job. A thread that dies takes a ring with it, and no job."""
        self._done: deque[Done] = deque()
        self._threads: list[SupervisedThread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waking = False
        self._growing = False
        self.running: dict[int, Run] = {}
        """The run of each busy thread: for naming who keeps the loop waiting."""

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        run.loop = loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        context, who = contextvars.copy_context(), turn_of(run.caller)
        job: Job = loop.create_future(), lambda: context.run(self._work, arguments, run), who
        if self._seats.take(who):
            self._begin(job)
        else:
            self._seats.join(who, job)
        try:
            return await job[0]
        except asyncio.CancelledError:
            self._seats.leave(who, job)
            raise

    async def close(self) -> None:
        """Lets the jobs that run end by themselves: the threads are daemons, and no thread can be stopped."""
        for _ in self._threads:
            self._put(None)
        self._threads.clear()

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """What ended too late for the loop before is nobody's any more, but its seats are free."""
        self._loop, self._waking = loop, False
        while self._done:
            self._seats.give_back(self._done.popleft()[-1])
        self._grow()

    def _begin(self, job: Job) -> None:
        self._put(job)
        if not self._growing and len(self._threads) < self._size:
            self._growing = True
            self._loop.call_later(GROW_AFTER_S if self._threads else 0, self._grow)  # type: ignore[union-attr]

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
            future, job, who = taken
            done: Done = (future, None, None, who)
            try:
                if not future.cancelled():  # given up before it began
                    done = (future, job(), None, who)
            except BaseException as error:  # the loop's side raises it again
                done = (future, None, error, who)
            self._finished(done)
            taken = future = job = done = None  # type: ignore[assignment]

    def _finished(self, done: Done) -> None:
        self._done.append(done)
        if not self._waking:
            self._waking = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)  # type: ignore[union-attr]
            except RuntimeError:
                pass  # the loop is closed: nobody waits

    def _deliver(self) -> None:
        self._waking = False
        while self._done:
            future, value, error, who = self._done.popleft()
            self._seats.give_back(who)
            if future.done():
                continue  # given up: cancelled or timed out
            if error is None:
                future.set_result(value)
            elif isinstance(error, StopIteration | GeneratorExit):  # to a coroutine these say something else
                future.set_exception(RuntimeError(f"tool raised {shown(error)}"))
            else:
                future.set_exception(error)
        while (following := self._seats.next()) is not None:
            self._begin(following)
