"""What a server process does with its disk and its sockets, as the kernel saw it: the flush comes before the answer."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.serving import command, environment, free_port, stop, wait_until_healthy
from tests.system.durability.serving import TOOLS
from toolyard import Client

READ, WRITE, FLUSH = ("read", "recvfrom", "recvmsg"), ("write", "writev", "sendto", "sendmsg"), ("fsync", "fdatasync")
STRACE = ("strace", "-D", "-f", "-y", "-s", "4096", "-e", f"trace={','.join((*READ, *WRITE, *FLUSH))}", "-o")
"""As a child of the server, so that it is the server that is waited for; all threads; files by their path."""


def why_not() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run([*STRACE, "/dev/null", "true"], capture_output=True, text=True, check=False)
    return f"strace may not trace here: {tried.stderr.strip()}" if tried.returncode or tried.stderr else None


class Seen(NamedTuple):
    """A system call, and between which lines of the trace it was under way."""

    name: str
    text: str
    began: int
    ended: int

    def does(self, names: tuple[str, ...], what: str) -> bool:
        return self.name in names and what in self.text


def seen(trace: str) -> Iterator[Seen]:
    """Those that succeeded. One that another thread's came between is in two lines."""
    began: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(trace.splitlines()):
        thread, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            began[thread] = (number, text.removesuffix("<unfinished ...>"))
            continue
        first = number
        if text.startswith("<..."):
            first, start = began.pop(thread)
            text = start + text.partition("resumed>")[2]
        name = re.match(r"(\w+)\(.* = \d+$", text)
        if name:
            yield Seen(name[1], text, first, number)


@contextmanager
def traced(folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server, and its trace."""
    port, log, trace = free_port(), folder / "server.log", folder / "trace"
    arguments = [*STRACE, str(trace), *command(TOOLS, "--port", str(port))]
    variables = environment("open") | {"MARKS": str(folder / "marks")}
    with log.open("wb") as output:
        process = subprocess.Popen(arguments, cwd=folder, env=variables, stdout=output, stderr=output)
    try:
        wait_until_healthy(process, port, log)
        yield f"http://127.0.0.1:{port}", trace
    finally:
        stop(process)


def test_a_call_is_on_the_disk_before_it_runs_and_its_outcome_before_it_is_answered(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with traced(tmp_path) as (url, trace), Client(url) as client:
        assert client.call("Marks.Quick", {"text": "the effect"}, call_id="call-5f1c") == 1
    found = list(seen(trace.read_text()))
    (asked,) = [each for each in found if each.does(READ, r'"call_id\":\"call-5f1c\"')]
    (effect,) = [each for each in found if each.does(WRITE, '/marks>, "the effect')]
    answered = next(each for each in found if each.does(WRITE, "HTTP/1.1 200") and each.began > asked.ended)
    flushes = [each for each in found if each.does(FLUSH, "/toolyard.db-wal>")]
    assert any(asked.ended < flush.began and flush.ended < effect.began for flush in flushes)
    assert any(effect.ended < flush.began and flush.ended < answered.began for flush in flushes)
