"""Supervises what runs in the background: every task and thread of a server that lives longer than one request is
started here, under a name.

One that dies of an exception nobody expected is logged with its traceback, makes the server unhealthy, and is started
again after a pause that doubles from death to death. Once it has run steadily for a while, the server is healthy again.
The work items are the task's own matter: whoever waits for an item that was lost with a run is told so by the task
itself, and the next run takes the others.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
STEADY_S = 1.0
"""A task or thread that has run for so long since its last start is healthy."""
_log = logging.getLogger("toolyard.supervision")


class Health:
    """The health of one supervised task or thread: how often it died, and whether it runs steadily now. It may be read
    from any thread."""

    def __init__(self) -> None:
        self.deaths = 0
        self._pause_s, self._began = FIRST_PAUSE_S, time.monotonic()
        self._is_down = False

    @property
    def is_ailing(self) -> bool:
        return self.deaths > 0 and (self._is_down or not self._is_steady())

    def starts(self) -> None:
        self._began, self._is_down = time.monotonic(), False

    def dies(self) -> float:
        """Counts a death. Returns how many seconds to pause before the next start."""
        # After a steady run this is a new trouble, and the pauses begin anew.
        self._pause_s = FIRST_PAUSE_S if self._is_steady() else min(2 * self._pause_s, LONGEST_PAUSE_S)
        self.deaths += 1
        self._is_down = True
        return self._pause_s

    def _is_steady(self) -> bool:
        return time.monotonic() - self._began >= STEADY_S


class SupervisedTask:
    """A task on the event loop that is started again whenever it dies, until it returns or is stopped."""

    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.name, self.health, self._run = name, Health(), run
        self.is_over = self._is_stopped = False
        self._start_again: asyncio.TimerHandle | None = None
        self.task = self._started()

    async def stop(self) -> None:
        """Cancels the task, and waits for its end."""
        self._is_stopped = True
        if self._start_again is not None:
            self._start_again.cancel()
        self.task.cancel()
        await asyncio.wait((self.task,))
        self.is_over = True

    def _started(self) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self._run(), name=self.name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Called when a run of the task is done: returned, stopped, cancelled by a stranger, or dead."""
        error = None if task.cancelled() else task.exception()
        if self._is_stopped or (error is None and not task.cancelled()):
            self.is_over = True
            return
        # A cancelled task counts as dead only in `_restart`: a loop that shuts down cancels every task on it, and then
        # the timer below never fires.
        pause_s = FIRST_PAUSE_S
        if error is not None:
            _log.error("%s died and is started again", self.name, exc_info=error)
            pause_s = self.health.dies()
        self._start_again = task.get_loop().call_later(pause_s, self._restart)

    def _restart(self) -> None:
        if self.task.cancelled():
            _log.error("%s was cancelled by nobody who may, and is started again", self.name)
            self.health.dies()
        self.health.starts()
        self.task = self._started()


class SupervisedThread:
    """A daemon thread whose function is started again whenever it dies, until it returns. Threads cannot be cancelled:
    the owner has its own way to make the function return, and then calls `join`."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self.name, self.health, self._run = name, Health(), run
        self._is_released = threading.Event()
        self.thread = threading.Thread(target=self._keep, name=f"toolyard-{name}".replace(" ", "-"), daemon=True)
        self.thread.start()

    @property
    def is_over(self) -> bool:
        return not self.thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Waits for the thread to end, after its owner told it to. Returns whether it did in that time."""
        self._is_released.set()  # ends a pause between two runs at once
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def _keep(self) -> None:
        while True:
            try:
                self._run()
                break
            except BaseException:  # also an exception that other code has raised asynchronously in this thread
                _log.exception("%s died and is started again", self.name)
                self._is_released.wait(self.health.dies())
            self.health.starts()


Supervised = SupervisedTask | SupervisedThread


class Supervisor:
    """All supervised tasks and threads of one server, or of a store or audit log that is used without a server."""

    def __init__(self) -> None:
        self._all: list[Supervised] = []

    @property
    def supervised(self) -> list[Supervised]:
        """All tasks and threads that are kept running now, in the order they were started."""
        self._all = [each for each in self._all if not each.is_over]
        return list(self._all)

    @property
    def ailing(self) -> list[str]:
        """The names of the tasks and threads that died and do not run steadily yet. Health checks report them."""
        return [each.name for each in self.supervised if each.health.is_ailing]

    def task(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> SupervisedTask:
        """Starts a supervised task on the running event loop. `run` is called anew for each start."""
        task = SupervisedTask(name, run)
        self._all.append(task)
        return task

    def adopt(self, thread: SupervisedThread) -> None:
        """Looks after a thread that was started before, such as that of the process's log."""
        self._all.append(thread)

    def thread(self, name: str, run: Callable[[], None]) -> SupervisedThread:
        """Starts a supervised thread. `run` is called anew for each start, in the same thread."""
        thread = SupervisedThread(name, run)
        self._all.append(thread)
        return thread
