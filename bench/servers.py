"""Starting, asking and ending the servers under measurement.

A server runs in a folder of its own that is thrown away, on a free loopback port, pinned to one core when it
is to be loaded. It counts as up when it has given the right answer once: nothing that answers wrongly is ever
measured. Only processes started here are ended, each by its own handle, whichever way the block is left.
"""

import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_S = 0.002
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
QUIET = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


class ServerError(Exception):
    """A server did not start, or did not answer what it should."""


class NotYet(ServerError):
    """It said itself that it is not ready (503)."""


@dataclass(frozen=True)
class Exchange:
    """A request, and what tells a right reply from a wrong one."""

    method: str
    path: str
    body: bytes
    is_right: Callable[[Any], bool]
    headers: Callable[[int], dict[str, str]] = lambda port: {}
    """More of them, for the server on that port: some have to be asked for first."""

    def accepts(self, body: bytes) -> bool:
        try:
            return self.is_right(json.loads(body))
        except (ValueError, KeyError, TypeError):
            return False


@dataclass(frozen=True)
class Contender:
    """Somebody who can be measured: how it is started on a port, and how it is asked for 10 + 5."""

    name: str
    command: Callable[[int], list[str]]
    call: Exchange


@dataclass(frozen=True)
class Server:
    contender: Contender
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def ask(self, exchange: Exchange) -> bytes:
        """One request on a connection of its own; raises unless the reply is right."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            headers = {"Content-Type": "application/json"} if exchange.body else {}
            headers |= exchange.headers(self.port)
            connection.request(exchange.method, exchange.path, exchange.body or None, headers)
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        if reply.status == 503:
            raise NotYet
        if reply.status != 200 or not exchange.accepts(body):
            raise ServerError(f"{self.contender.name} answered {reply.status} {body[:200]!r}")
        return body

    def wait_until_right(self) -> None:
        deadline, wrong = time.monotonic() + READY_TIMEOUT_S, ""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerError(f"{self.contender.name} ended by itself: {self.last_words()}")
            try:
                self.ask(self.contender.call)
                return
            except (OSError, http.client.HTTPException, ServerError) as error:
                wrong = str(error)  # a gateway does not have at once what it is asked for
                time.sleep(POLL_S)
        raise ServerError(f"{self.contender.name} was not up after {READY_TIMEOUT_S:.0f} s: {wrong}")

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "without a word"

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(contender: Contender, core: int | None = None) -> Iterator[Server]:
    """The server, up and proven right; it is gone when the block is left."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port, log = free_port(), Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                contender.command(port),
                cwd=folder,
                env=os.environ | QUIET,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
            server = Server(contender, process, port, log)
            server.wait_until_right()
            yield server
        finally:
            stop(process)


def stop(process: "subprocess.Popen[Any]") -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
