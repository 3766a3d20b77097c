"""The command line in processes of its own: verbs that end, and servers that are heard until they are told to."""

import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import warm
from ..conformance.serving import environment, stop

DEADLINE_S = 30.0
READY = "Stop with Ctrl-C."


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def command(*arguments: str, flags: Sequence[str] = ()) -> list[str]:
    return [sys.executable, *flags, "-m", "toolyard", *arguments]


def toolyard(*arguments: str, folder: Path, variables: Mapping[str, str] | None = None, input: str = "") -> Ended:
    """Runs a verb to its end."""
    variables = environment("open") | dict(variables or {})
    done = warm.run(command(*arguments), input=input, timeout=DEADLINE_S, cwd=folder, env=variables)
    return Ended(done.returncode, done.stdout, done.stderr)


class Served:
    """A running `toolyard serve` and what it says, line by line, on both of its outputs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def hear(self, words: str) -> list[str]:
        """Waits for a line with these words; the lines up to it."""
        heard: list[str] = []
        while not heard or words not in heard[-1]:
            try:
                heard.append(self._lines.get(timeout=DEADLINE_S))
            except queue.Empty:
                raise AssertionError(f"{words!r} was not said, but {self.said + heard}") from None
        self.said += heard
        return heard

    def rest(self) -> str:
        """What else it said, once it has ended."""
        self._thread.join(DEADLINE_S)
        while not self._lines.empty():
            self.said.append(self._lines.get())
        return "\n".join(self.said)

    @property
    def address(self) -> str:
        found = re.search(r"OXP 1\.0 +(http://\S+)", "\n".join(self.said))
        assert found is not None
        return found[1]

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The body of an answer, as JSON."""
        sent = "" if body is None else json.dumps(body)
        return send(method, self.address + path, sent, {"content-type": "application/json", **(headers or {})})

    def call(self, tool_id: str, input: dict[str, Any] | None = None) -> Any:
        return self.request("POST", "/tools/call", {"tool_id": tool_id, "input": input or {}})["value"]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code, after a signal to it alone."""
        os.kill(self.process.pid, number)
        return self.process.wait(DEADLINE_S)


def send(method: str, url: str, body: str, headers: Mapping[str, str]) -> Any:
    found = re.fullmatch(r"http://\[?([^\]/]+?)\]?:(\d+)(/.*)", url)
    assert found is not None, url
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=DEADLINE_S)
    try:
        connection.request(method, found[3], body, dict(headers))
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@contextmanager
def starting(
    *arguments: str, folder: Path, variables: Mapping[str, str] | None = None, flags: Sequence[str] = ()
) -> Iterator[Served]:
    """A server on a free port, in a folder, until the block ends."""
    with started(command("serve", *arguments, "--port", "0", flags=flags), folder, variables) as served:
        yield served


@contextmanager
def started(given: list[str], folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[Served]:
    """A server by its whole command line, until the block ends."""
    process = warm.start(
        given,
        cwd=folder,
        env=environment("open") | {"PYTHONUNBUFFERED": "1"} | dict(variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Served(process)
    finally:
        if process.poll() is None:
            stop(process)


@contextmanager
def serving(*arguments: str, folder: Path, **options: Any) -> Iterator[Served]:
    """The same, once it says that it is ready."""
    with starting(*arguments, folder=folder, **options) as served:
        served.hear(READY)
        yield served
