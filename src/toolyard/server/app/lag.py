"""Names the tool that keeps the event loop waiting, in the log: one such tool makes every call of the server slow, and
nothing else would say which.

The loop ticks; a thread of its own looks whether the last tick is late. If it is, the loop's stack says which tool is
running on it, or else the busy threads say whose work is holding the interpreter.
"""

import asyncio
import logging
import sys
import threading
import time
from types import CodeType, FrameType

from ...catalogue import Catalogue
from ...runners.threads import Threads
from ...supervision import Supervisor

TICK_S = 0.1
LATE_S = 0.25
"""How late a tick is before anybody is named: shorter waits are also a garbage collection or a busy machine."""
QUIET_S = 60.0
"""How long a tool that was named is not named again."""
_log = logging.getLogger("toolyard.lag")


class LagWatch:
    """Watches the event loop of a server while it runs. To be used as a context manager on the loop's thread."""

    def __init__(self, catalogue: Catalogue, threads: Threads, supervisor: Supervisor) -> None:
        self._catalogue, self._threads, self._supervisor = catalogue, threads, supervisor
        self._warned: dict[str, float] = {}
        self._stopped = threading.Event()

    def __enter__(self) -> None:
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._last_tick = time.monotonic()
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._supervisor.thread("lag watch", self._watch)

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._timer.cancel()

    def _tick(self) -> None:
        self._last_tick = time.monotonic()
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _watch(self) -> None:
        while not self._stopped.wait(TICK_S):
            late = time.monotonic() - self._last_tick - TICK_S
            if late > LATE_S and self._loop.is_running():
                self._warn(late)

    def _warn(self, late: float) -> None:
        """Names whoever holds the loop: a tool on it, or else all tools that run in threads, of which one may."""
        # The thread's stack as it is now, without stopping it: CPython's own means for debuggers.
        on_loop = self._tool_on(sys._current_frames().get(self._loop_thread))
        if on_loop is not None:
            self._say(on_loop, f"{on_loop} has held the event loop for {late:.1f} s; every other call waits. "
                      'Make it await, or give it runs="thread" or runs="process"')  # fmt: skip
            return
        for run in list(self._threads.running.values()):
            name = run.tool.id
            self._say(name, f"{name} runs in a thread while the event loop is {late:.1f} s late. "
                      'If it keeps a processor busy, give it runs="process"')  # fmt: skip

    def _say(self, tool: str, sentence: str) -> None:
        now = time.monotonic()
        if now - self._warned.get(tool, -QUIET_S) >= QUIET_S:
            self._warned[tool] = now
            _log.warning(sentence)

    def _tool_on(self, frame: FrameType | None) -> str | None:
        """The tool whose function is somewhere on a stack."""
        codes = self._codes()
        while frame is not None:
            if (tool := codes.get(frame.f_code)) is not None:
                return tool
            frame = frame.f_back
        return None

    def _codes(self) -> dict[CodeType, str]:
        """Tools by the code of their functions. Made anew each time: tools come and go, and this is rare."""
        functions = ((getattr(tool.code, "function", None), tool.id) for tool in self._catalogue.all())
        return {function.__code__: id for function, id in functions if function is not None}
