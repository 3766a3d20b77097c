"""Where tools in server processes meet the test: one that comes says who it is, and then does what it is told.

Both wait for what happens, over a socket: nobody guesses how long anything takes, and a tool whose process is killed is
heard to leave.
"""

import json
import queue
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DEADLINE_S = 15.0


class Visit:
    """A tool that has come."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._file = link, link.makefile("rw")
        self.name, self.pid = json.loads(self._file.readline())

    def tell(self, *told: Any) -> None:
        """What to do next: see `tools.py`."""
        self._file.write(json.dumps(told) + "\n")
        self._file.flush()

    def hear(self) -> Any:
        """The next thing it says; None, once it has left."""
        line = self._file.readline()
        return json.loads(line) if line else None

    def ends(self, value: str = "done") -> None:
        """Has it return."""
        self.tell("return", value)

    def close(self) -> None:
        self._file.close()
        self._link.close()


class Stage:
    """Who comes, by name."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self._visits: defaultdict[str, queue.SimpleQueue[Visit]] = defaultdict(queue.SimpleQueue)
        threading.Thread(target=self._receive, daemon=True).start()

    def visit(self, name: str) -> Visit:
        """Waits for it."""
        return self._visits[name].get(timeout=DEADLINE_S)

    def is_empty(self, name: str) -> bool:
        return self._visits[name].empty()

    def _receive(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return  # the tests are over
            link.settimeout(DEADLINE_S)
            visit = Visit(link)
            self._visits[visit.name].put(visit)


@contextmanager
def stage() -> Iterator[Stage]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        try:
            yield Stage(listener)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
