"""Keeps alive what runs beside the calls: every task and thread of a server that lives longer than one request is
started here, under a name.

One that dies of something nobody expected is logged with its traceback, makes the server unhealthy, and is started
again after a pause that doubles from death to death. When it has run for a while again, the server is healthy again.
What is supervised looks after its own items: an item that was lost with it is told so, and the others are done by the
next run.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
STEADY_S = 1.0
"""Who has run for so long after a death is well."""
_log = logging.getLogger("toolyard.supervision")


class Health:
    """Of one task or thread. Read from any thread."""

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
        """For how long to pause before the next start."""
        self._pause_s = FIRST_PAUSE_S if self._is_steady() else min(2 * self._pause_s, LONGEST_PAUSE_S)
        self.deaths += 1
        self._is_down = True
        return self._pause_s

    def _is_steady(self) -> bool:
        return time.monotonic() - self._began >= STEADY_S


class SupervisedTask:
    """Runs on the event loop until it returns or is stopped."""

    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.name, self.health, self._run = name, Health(), run
        self.is_over = self._is_stopped = False
        self._start_again: asyncio.TimerHandle | None = None
        self.task = self._started()

    async def stop(self) -> None:
        """Cancels it, and waits for its end."""
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
        error = None if task.cancelled() else task.exception()
        if self._is_stopped or (error is None and not task.cancelled()):
            self.is_over = True
            return
        pause_s = FIRST_PAUSE_S
        if error is not None:
            _log.error("%s died and is started again", self.name, exc_info=error)
            pause_s = self.health.dies()
        self._start_again = task.get_loop().call_later(pause_s, self._restart)

    def _restart(self) -> None:
        """A loop that ends cancels everything on it, which is no death: then this is not called any more."""
        if self.task.cancelled():
            _log.error("%s was cancelled by nobody who may, and is started again", self.name)
            self.health.dies()
        self.health.starts()
        self.task = self._started()


class SupervisedThread:
    """Runs in a daemon thread until it returns: its owner tells it to."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self.name, self.health, self._run = name, Health(), run
        self._is_released = threading.Event()
        self.thread = threading.Thread(target=self._keep, name=f"toolyard-{name}".replace(" ", "-"), daemon=True)
        self.thread.start()

    @property
    def is_over(self) -> bool:
        return not self.thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Whether it has returned, after it was told to, in that time. It does not rest any more between two runs."""
        self._is_released.set()
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def _keep(self) -> None:
        while True:
            try:
                self._run()
                break
            except BaseException:  # also what somebody else raises in this thread
                _log.exception("%s died and is started again", self.name)
                self._is_released.wait(self.health.dies())
            self.health.starts()


Supervised = SupervisedTask | SupervisedThread


class Supervisor:
    """Of a server, or of a store or log that is used without one."""

    def __init__(self) -> None:
        self._all: list[Supervised] = []

    @property
    def supervised(self) -> list[Supervised]:
        """All that are kept running now, in the order they were started."""
        self._all = [each for each in self._all if not each.is_over]
        return list(self._all)

    @property
    def ailing(self) -> list[str]:
        """The names of those that died and are not well yet."""
        return [each.name for each in self.supervised if each.health.is_ailing]

    def task(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> SupervisedTask:
        """On the running loop. `run` is called for each start."""
        made = SupervisedTask(name, run)
        self._all.append(made)
        return made

    def thread(self, name: str, run: Callable[[], None]) -> SupervisedThread:
        """`run` is called for each start, in the same thread."""
        made = SupervisedThread(name, run)
        self._all.append(made)
        return made
