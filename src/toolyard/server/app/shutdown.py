"""How a process ends: what runs has its time, and then the process ends, whatever a tool holds on to.

`LastResort` is every server's; `Shutdown` is that of a server over pipes, which has no uvicorn to handle signals.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from ..http.log_writer import wait_for_log

CLOSING_S = 5.0
"""How long what the tools share may take to be closed, after calls have had their time."""


class LastResort:
    """Ends the process some time after it was asked to, whatever holds the process up: a tool, a disk that does not
    answer, a thread that died. It needs nothing of the server, and nothing of the loop: a thread of its own waits and
    exits."""

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s
        # Not an Event, whose lock a signal's handler could find held by the very thread that it interrupted.
        self._asked: SimpleQueue[None] = SimpleQueue()
        self.code = 1
        """The exit code if the process has to be ended."""
        threading.Thread(target=self._watch, name="toolyard-ending", daemon=True).start()

    def ask(self) -> None:
        """Begins the time. May be called from any thread, or a signal's handler, whatever that interrupted."""
        self._asked.put(None)

    def _watch(self) -> None:
        self._asked.get()
        time.sleep(self.after_s)
        wait_for_log()
        os._exit(self.code)  # sys.exit would end this thread alone


class Shutdown:
    """The end of a server over pipes, asked for by the end of its input, or by a signal. At the second signal, or one
    after the input has ended, nobody waits any longer: that is how clients hurry a server that they have closed."""

    def __init__(self, grace_s: float, when_asked: Callable[[], None], when_over: Callable[[], None]) -> None:
        """`when_asked` is called when the end is first asked for, `when_over` when calls have had their time, both on
        the loop."""
        self._grace_s, self._when_asked, self._when_over = grace_s, when_asked, when_over
        self._loop = asyncio.get_running_loop()
        self._is_asked = False
        self.last_resort = LastResort(grace_s + CLOSING_S)

    def at_signals(self) -> None:
        """Asks for the end at SIGTERM and SIGINT. To be called in the main thread. Python's own handlers are used and
        not the loop's, which a tool may be holding up: then at least the last resort is asked."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ask(self._signalled))

    def ask(self) -> None:
        """Asks for the end, from any thread."""
        self._ask(self._begin)

    def _ask(self, on_the_loop: Callable[[], None]) -> None:
        self.last_resort.ask()
        try:
            self._loop.call_soon_threadsafe(on_the_loop)
        except RuntimeError:
            pass  # the loop is closed: it has ended

    def _signalled(self) -> None:
        if self._is_asked:
            self._when_over()
        else:
            self._begin()

    def _begin(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_later(self._grace_s, self._when_over)
            self._when_asked()
