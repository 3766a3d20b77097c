"""`toolyard serve`: an operator serves tools over every wire, and a newcomer is shown how to call the first of them."""

import logging
import shlex
import signal
import socket
import sys
from typing import Annotated, Any

import msgspec
import typer

from ...lazy import load
from ...runners.loader import sources_of
from ...server.app.compose import Yard
from ...server.app.run import listen, listening_at
from ...server.http.logs import set_up_logging
from ...server.settings.table import load_settings
from ...version import VERSION
from ..support.example_input import example_input
from ..support.screen import say

REFERENCE = "toolyard.reference"
_log = logging.getLogger("toolyard.server")


def serve(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|MODULE]...", help="What to serve: tools.py, package.module, or either with :name."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="The port (8000); 0 takes a free one.")] = None,
    store: Annotated[str | None, typer.Option(help="The ledger (sqlite:toolyard.db).")] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a file changes.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
    fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve tools over every wire. Without a file: the reference tools, to look around.

    Every setting can also come from TOOLYARD_* or toolyard.toml; 'toolyard settings' lists them.
    """
    flags: dict[str, Any] = {"tools": targets or None, "host": host, "port": port, "store": store}
    flags["log_level"] = log_level
    flags = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings({**flags, **({"reload": True} if reload else {})}, config=config)
    set_up_logging(settings.log_level, settings.log_format)
    served = settings.tools or [REFERENCE]
    if settings.reload and fd is None:
        arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
        load("reload")(arguments, served, listen(settings))
        return
    listener = socket.socket(fileno=fd) if fd is not None else listen(settings)
    listening = listening_at(listener, settings)
    yard = Yard(sources_of(served), settings, listening=listening)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    load("serve")(yard, listener, lambda: announce(yard, served, listening.address))


def _leave(*_: object) -> None:
    """The signal handler that uvicorn restores and calls once it has stopped in good order. To stop when asked to is no
    failure, so the exit code is 0."""
    raise SystemExit(0)


def announce(yard: Yard, served: list[str], address: str) -> None:
    """Prints the addresses of all wires and a first call, ready to paste."""
    count = len(yard.catalogue)
    tools = f"{count} tool{'' if count == 1 else 's'}"
    origin = "the reference toolkits" if served == [REFERENCE] else ", ".join(served)
    lines = [
        f"toolyard {VERSION} serves {tools} from {origin}",
        "",
        f"  OXP 1.0    {address}",
        f"  OTC 1.0    {address}/otc",
        f"  OTC draft  {address}/otc/draft",
        f"  MCP        {address}/mcp",
        f"  Docs       {address}/docs",
        "",
        *_first_call(yard, address),
        "Stop with Ctrl-C.",
    ]
    try:
        say("\n".join(lines) + "\n")
        sys.stdout.flush()
    except OSError as error:  # a server does not need anybody who reads this
        _log.warning("serves at %s; standard output cannot be written: %s", address, error.strerror)


def _first_call(yard: Yard, address: str) -> list[str]:
    """A call with curl and one with `toolyard call`, of the first tool that has no requirements."""
    tool = next((tool for tool in yard.catalogue.newest() if not tool.requirements), None)
    if tool is None:
        return []
    input = example_input(tool.input_schema)
    body = msgspec.json.encode({"tool_id": tool.id, "input": input}).decode()
    header, key = (' -H "authorization: Bearer $KEY"', ' --key "$KEY"') if yard.needs_credentials else ("", "")
    arguments = "".join(f" {shlex.quote(f'{name}={_word(value)}')}" for name, value in input.items())
    elsewhere = "" if address == "http://127.0.0.1:8000" else f" --server {shlex.quote(address)}"
    url = shlex.quote(f"{address}/tools/call")
    return [
        f"  curl {url} -H 'content-type: application/json'{header} -d {shlex.quote(body)}",
        f"  toolyard call {tool.id}{arguments}{elsewhere}{key}",
        "",
    ]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
