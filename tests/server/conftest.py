"""Servers of the handlers in `talking`: behind toolyard's own server, and mounted in an application behind another."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import warm
from tests.conformance.serving import stop
from tests.system.hardening.raw import Connection, Reply, connected, request

from .talking import PREFIX


class Listener(Connection):
    """A connection on which chunks come."""

    def chunk(self) -> bytes:
        """The next one; the last is empty."""
        size, _, self._received = self._until(b"\r\n").partition(b"\r\n")
        while len(self._received) < int(size, 16) + 2:
            self._receive()
        chunk, self._received = self._received[: int(size, 16)], self._received[int(size, 16) + 2 :]
        return chunk


@dataclass(frozen=True)
class Talking:
    """A server process."""

    address: str
    prefix: str
    log: Path
    process: "subprocess.Popen[bytes]"

    @contextmanager
    def line(self) -> Iterator[Listener]:
        listener = Listener(self.address)
        try:
            yield listener
        finally:
            listener.socket.close()

    def request(self, path: str, method: str = "GET", body: bytes = b"") -> bytes:
        return request(method, self.prefix + path, body=body)

    def ask(self, path: str, method: str = "GET") -> Reply:
        with connected(self.address) as connection:
            connection.send(self.request(path, method))
            return connection.reply()

    def tell(self, word: str) -> None:
        assert self.ask(f"/told/{word}", "PUT").body == b"heard"

    def wait_for(self, word: str) -> None:
        assert self.ask(f"/told/{word}").body == b"told"

    def has(self, word: str) -> bool:
        return self.ask(f"/told/{word}/now").body == b"yes"

    def logged(self, words: str) -> str:
        """The log, once it has these words: it is written in a thread of the server's."""
        deadline = time.monotonic() + 30
        while words not in (log := self.log.read_text()):
            assert time.monotonic() < deadline, f"{words!r} was not logged, but {log}"
        return log


@contextmanager
def talking(how: str, folder: Path) -> Iterator[Talking]:
    log = folder / "log"
    with log.open("wb") as errors, ExitStack() as stack:
        process = stack.enter_context(
            warm.start(
                [sys.executable, "-m", "tests.server.talking", how],
                cwd=Path(__file__).parents[2],
                env=os.environ,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        )
        stack.callback(stop, process)
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        assert address, log.read_text()
        yield Talking(address, PREFIX[how], log, process)


@pytest.fixture(scope="session", params=["direct", "mounted"])
def talker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """Either way out."""
    with talking(request.param, tmp_path_factory.mktemp("talker")) as started:
        yield started


@pytest.fixture(scope="session")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """Behind toolyard's own server."""
    with talking("direct", tmp_path_factory.mktemp("direct")) as started:
        yield started


@pytest.fixture(scope="session")
def unswept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """The same, but that nobody looks at its connections from time to time."""
    with talking("unswept", tmp_path_factory.mktemp("unswept")) as started:
        yield started


@pytest.fixture
def stoppable(tmp_path: Path) -> Iterator[Talking]:
    """One to be ended by its test."""
    with talking("direct", tmp_path) as started:
        yield started
