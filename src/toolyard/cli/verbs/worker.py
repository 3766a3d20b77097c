"""`toolyard worker`: an author or operator runs tools on this machine for a server elsewhere."""

import asyncio
import logging
import os
import re
import secrets
import signal
import socket
import sys
from typing import Annotated, Literal

import typer

from ...catalogue import Catalogue
from ...client.client import DEFAULT_URL
from ...model.errors import SetupError
from ...runners.loader import sources_of
from ...server.http.logs import set_up_logging
from ...version import VERSION
from ...worker.worker import Options, Worker
from ..support.options import seconds, whole
from ..support.screen import complain, complaints, say
from ..support.target import Ca, Key, Server, address

Level = Literal["debug", "info", "warning", "error"]
_name = re.compile(r"[A-Za-z0-9_.-]{1,128}").fullmatch


def worker(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|MODULE|PACKAGE...",
            help="What to offer: tools.py, package.module, either with :name, or an installed package.",
        ),
    ],
    server: Server = DEFAULT_URL,
    key: Key = None,
    ca: Ca = None,
    name: Annotated[str | None, typer.Option(help="The worker's name (made from host and process).")] = None,
    concurrency: Annotated[
        int,
        typer.Option(parser=whole("--concurrency", 1, 10_000), metavar="NUMBER", help="How many calls to run at once."),
    ] = 32,
    grace: Annotated[
        float,
        typer.Option(
            parser=seconds("--grace"), metavar="SECONDS", help="Seconds that running calls have to end, on leaving."
        ),
    ] = 30.0,
    log_level: Annotated[Level, typer.Option(help="How much to log.")] = "info",
    core_files: Annotated[bool, typer.Option("--core-files", help="Let a crash leave a core file.")] = False,
) -> None:
    """Run tools here for a server elsewhere.

    It only calls out: it claims calls of its tools from the server, runs them, and submits the results.

    toolyard worker heavy.py --server https://yard.example
    """
    options = Options(address(server), named(name), key, concurrency, grace, ca, core_files)
    sources = sources_of(targets)
    catalogue = Catalogue(tool for source in sources for tool in source.tools)
    if not len(catalogue):
        raise SetupError(f"{', '.join(targets)} has no tools to offer")
    _set_up_logging(log_level)
    for upstream in (up.name for source in sources for up in source.upstreams):
        complain(f"{upstream} is not offered: upstreams are a server's\n")
    made = Worker(sources, options, lambda: announce(catalogue, options))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _leave(made))
    with complaints():
        asyncio.run(made.live())


def _leave(worker: Worker) -> None:
    """Stops the worker in good order. A second signal ends the process at once, by the default handlers."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    worker.stop()


def announce(catalogue: Catalogue, options: Options) -> None:
    """Prints which tools this worker offers, and to which server."""
    count = len(catalogue)
    lines = [
        f"toolyard {VERSION} worker {options.name} offers {count} tool{'' if count == 1 else 's'} to {options.url}",
        "",
        *(f"  {tool.reference}" for tool in catalogue.all()),
        "",
        "Stop with Ctrl-C.",
    ]
    say("\n".join(lines) + "\n")
    sys.stdout.flush()


def named(name: str | None) -> str:
    """The name that was given; or one that says where the worker is, and is nobody else's."""
    if name is None:
        host = re.sub(r"[^A-Za-z0-9_.-]+", "-", socket.gethostname())[:64]
        return f"{host or 'worker'}-{os.getpid()}-{secrets.token_hex(2)}"
    if not _name(name):
        raise SetupError(f"{name!r} cannot name a worker; use up to 128 letters, digits, '_', '.' and '-'")
    return name


def _set_up_logging(level: str) -> None:
    """Logs as a server does. The HTTP client logs each request, which only a developer wants to see."""
    set_up_logging(level)
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel("DEBUG" if level == "debug" else "WARNING")
