"""Where the tools of a worker meet the test: each tool says that it has come, and waits to be told to go on.

Both wait for what happens, over a socket: no one guesses how long anything takes. A tool whose process is killed is
heard to leave.
"""

import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEADLINE_S = 30.0


class Visit:
    """A tool that has come."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._file = link, link.makefile("rw")
        self.name, pid = self._file.readline().split()
        self.pid = int(pid)

    def go_on(self, told: str = "done") -> None:
        self._file.write(f"{told}\n")
        self._file.close()
        self._link.close()

    def says(self) -> str:
        """The next thing it says; nothing, once it has left."""
        return self._file.readline().strip()


class Stage:
    """Who comes, in the order they come in."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self._visits: queue.SimpleQueue[Visit] = queue.SimpleQueue()
        threading.Thread(target=self._receive, daemon=True).start()

    def visit(self) -> Visit:
        """Waits for the next one."""
        return self._visits.get(timeout=DEADLINE_S)

    def is_empty(self) -> bool:
        return self._visits.empty()

    def _receive(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            link.settimeout(DEADLINE_S)
            self._visits.put(Visit(link))


@contextmanager
def stage() -> Iterator[Stage]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            yield Stage(listener)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
