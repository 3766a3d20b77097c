"""Waiting for what another process does."""

import socket
import time
from collections.abc import Callable

DEADLINE_S = 30.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def until_listening(port: int) -> None:
    def is_open() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    until(is_open)
