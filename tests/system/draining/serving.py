"""Servers that are told to leave: real processes, on either ledger, at a port that they come back to."""

import http.client
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import warm
from ...conformance.serving import command, environment, free_port, wait_until_healthy

TOOLS = str(Path(__file__).with_name("tools.py"))
DEADLINE_S = 30.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    json: Any


class Node:
    """A server in a folder, with these settings (`drain_s="1"`)."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.port = folder, free_port()
        self.root = f"http://127.0.0.1:{self.port}"
        given = {f"TOOLYARD_{name.upper()}": value for name, value in settings.items()}
        self._variables = environment("open") | given
        del self._variables["TOOLYARD_ALLOWED_HOSTS"]  # or no file could say anything of it
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / f"node-{self.port}.log"

    def start(self, *arguments: str) -> None:
        arguments = (TOOLS, "--port", str(self.port), *arguments)
        with self.log.open("ab") as output:
            self.process = warm.start(
                command(*arguments), cwd=self.folder, env=self._variables, stdout=output, stderr=output
            )
        wait_until_healthy(self.process, self.port, self.log)

    def tell(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        assert self.process is not None
        return self.process.wait(DEADLINE_S)

    def end(self) -> None:
        """Whatever still runs on it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """By a connection of its own."""
        connection = self.connection()
        try:
            return asked(connection, method, path, body, headers)
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def call(self, tool: str, call_id: str | None = None, **input: Any) -> Reply:
        said = {"tool_id": f"Held.{tool}", "input": input} | ({"call_id": call_id} if call_id else {})
        return self.ask("POST", "/tools/call", said)

    def has_begun(self, name: str) -> int:
        """How often the tool that waits was begun by this name."""
        began = self.folder / f"began-{name}"
        return len(began.read_text()) if began.exists() else 0

    def let_end(self, name: str) -> None:
        (self.folder / f"end-{name}").touch()

    def said(self) -> str:
        return self.log.read_text()


def asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"content-type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    content = reply.read()
    found = {name.lower(): value for name, value in reply.getheaders()}
    return Reply(reply.status, found, json.loads(content) if content[:1] in (b"{", b"[") else content)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@contextmanager
def meanwhile() -> Iterator[Callable[..., "Future[Any]"]]:
    """Has functions called beside the test."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit
