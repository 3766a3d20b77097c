"""`toolyard demo` in a process of its own, heard line by line, with a folder for what it makes."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from .. import warm
from ..cli.processes import Served, command
from ..conformance.serving import environment, stop


def variables(folder: Path) -> dict[str, str]:
    """With settings of whoever runs it, none of which the demo may take."""
    theirs = {"TOOLYARD_API_KEYS": "ty_somebody_elses_0123456789", "TOOLYARD_STORE": "sqlite:elsewhere.db"}
    return environment("open") | theirs | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[Served]:
    """Running, until the block ends. What it makes for itself is below `folder`."""
    process = warm.start(
        command("demo", *arguments),
        cwd=folder.parent,
        env=variables(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Served(process)
    finally:
        if process.poll() is None:
            stop(process)
        assert process.stdout is not None
        process.stdout.close()


def addresses(text: str) -> list[str]:
    """Of the server and of the provider, as the demo says them."""
    return re.findall(r"^  (?:server|provider)  +(http://\S+)", text, re.MULTILINE)


def is_open(address: str) -> bool:
    """Whether anybody listens there."""
    at = urlsplit(address)
    with socket.socket() as probe:
        return probe.connect_ex((at.hostname or "", at.port or 0)) == 0


def left_behind(folder: Path) -> list[str]:
    """Files in the folder, and processes that were started with it."""
    mark, found = f"TMPDIR={folder}".encode(), [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0") and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found
