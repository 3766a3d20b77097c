"""`toolyard serve`: an operator serves tools over every wire, and a newcomer is shown how to call the first of them."""

import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from ...lazy import load
from ...model.upstream import AS_THEY_ARE
from ...runners.loader import sources_of
from ...server.app.compose import Yard
from ...server.app.run import listen, listening_at
from ...server.app.settings_reload import SettingsReload, in_force
from ...server.group.member import GroupMember, News, ParentLine, TakesCalls, check_group, log_of, share_of
from ...server.http.logs import set_up_logging
from ...server.settings.table import REFERENCE, Settings, SettingsReader
from ...version import VERSION
from ..support.example_input import example_input
from ..support.screen import say
from ..support.upstream_flag import UpstreamFlag, upstream_tables

MOST_NAMED = 8
"""Upstreams that the start-up text names; others are counted."""
_log = logging.getLogger("toolyard.server")


def serve(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|MODULE|PACKAGE]...",
            help="What to serve: tools.py, package.module, either with :name, an installed package, or mcp.json.",
        ),
    ] = None,
    upstream: UpstreamFlag = None,
    host: Annotated[str | None, typer.Option(help="Where to listen (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="The port (8000); 0 takes a free one.")] = None,
    store: Annotated[str | None, typer.Option(help="The ledger (sqlite:toolyard.db).")] = None,
    serve_processes: Annotated[
        int | None,
        typer.Option(
            "--processes", metavar="N", help="How many processes serve, one a core (1). Several need PostgreSQL.", min=1
        ),
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a file changes.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
    fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    member: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve tools over every wire. Without a file: the reference tools, to look around.

    A desktop client's JSON file of MCP servers (mcp.json) is served as well: their tools, behind this one address.

    Every setting can also come from TOOLYARD_* or toolyard.toml; 'toolyard settings' lists them.
    SIGHUP reads them again; SIGTERM drains, then stops; Ctrl-C stops.
    """
    flags: dict[str, Any] = {"tools": targets or None, "host": host, "port": port, "store": store}
    flags |= {"log_level": log_level, "serve_processes": serve_processes}
    flags |= {"upstreams": upstream_tables(upstream) or None}
    flags = {name: value for name, value in flags.items() if value is not None}
    flags |= {"reload": True} if reload else {}
    read = SettingsReader(flags, config)
    if member is not None:
        _serve_in_group(read, GroupMember.read(member))
        return
    settings = read()
    served = settings.targets
    check_group(settings)
    if settings.serve_processes > 1:
        raise SystemExit(_supervise(settings, read.written))
    set_up_logging(settings.log_level, settings.log_format)
    if settings.reload and fd is None:
        load("reload")(sys.argv[1:], served, listen(settings))
        return
    following = SettingsReload(read)
    listener = socket.socket(fileno=fd) if fd is not None else listen(settings)
    listening = listening_at(listener, settings)
    yard = Yard(sources_of(served), settings, listening=listening)
    _until_stopped(yard, listener, lambda: show(announcement(yard, served, listening.address)), following)


def _supervise(settings: Settings, written: str) -> int:
    """Has several processes serve, until told to stop. Returns the exit code."""
    with load("group_folder")() as folder:
        set_up_logging(settings.log_level, settings.log_format, log_of(folder))
        code: int = load("group")(sys.argv[1:], listen(settings), settings.serve_processes, folder, written, show)
    return code


def _serve_in_group(read: SettingsReader, member: GroupMember) -> None:
    """Serves as one of several processes, which the parent has started. It is the parent that says where, and which
    settings they all follow."""
    given = member.read_settings()
    settings = in_force(read.as_if(given.started), read.as_if(given.followed))
    served = settings.targets
    set_up_logging(settings.log_level, settings.log_format, member.log)
    listener, line = member.take(member.listener), ParentLine(member)
    following = SettingsReload(lambda: share_of(read(), member), lambda: line.tell(News(follows=read.written)))
    listening = listening_at(listener, settings)
    yard = Yard(sources_of(served), share_of(settings, member), listening=listening, member=member)
    line.watch(yard.supervisor)

    def announce() -> None:
        text = announcement(yard, served, listening.address, member.of)
        line.tell(News(TakesCalls(os.getpid(), yard.store.node, text)))

    try:
        _until_stopped(yard, listener, announce, following)
    finally:
        if line.is_cut:
            member.leave_folder()


def _until_stopped(
    yard: Yard, listener: socket.socket, announce: Callable[[], None], following: SettingsReload
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    load("serve")(yard, listener, announce, following)


def _leave(*_: object) -> None:
    """The signal handler that uvicorn restores and calls once it has stopped in good order. To stop when asked to is no
    failure, so the exit code is 0."""
    raise SystemExit(0)


def announcement(yard: Yard, served: list[str], address: str, processes: int = 1) -> str:
    """The addresses of all wires and a first call, ready to paste."""
    reports = [] if yard.upstreams is None else yard.upstreams.reports()
    tools = len(yard.catalogue) - sum(each.tools for each in reports)
    counted = [_count(tools, "tool")] if tools or not reports else []
    counted += [_count(len(reports), "upstream")] if reports else []
    origin = "the reference toolkits" if served == [REFERENCE] else ", ".join(served) or "the settings"
    how = "" if processes == 1 else f" in {processes} processes"
    lines = [
        f"toolyard {VERSION} serves {' and '.join(counted)} from {origin}{how}",
        "",
        f"  OXP 1.0    {address}",
        f"  OTC 1.0    {address}/otc",
        f"  OTC draft  {address}/otc/draft",
        f"  MCP        {address}/mcp",
        f"  Docs       {address}/docs",
        *_upstreams(yard),
        "",
        *_first_call(yard, address),
        "Stop with Ctrl-C.",
    ]
    return "\n".join(lines) + "\n"


def _upstreams(yard: Yard) -> list[str]:
    """How the tools of upstreams are called. Which there are is known when each has answered."""
    if yard.upstreams is None:
        return []
    named = [
        f"{each.upstream.name}.*" if each.upstream.names != AS_THEY_ARE else f"{each.upstream.name} (its own names)"
        for each in yard.upstreams.followed.values()
    ]
    others = [f"and {len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
    return [f"  Upstreams  {', '.join([*named[:MOST_NAMED], *others])}; toolyard upstreams tells how they are"]


def show(text: str) -> None:
    """Prints it. A server does not need anybody who reads this."""
    try:
        say(text)
        sys.stdout.flush()
    except OSError as error:
        address = next(line.split()[-1] for line in text.splitlines() if "OXP" in line)
        _log.warning("serves at %s; standard output cannot be written: %s", address, error.strerror)


def _first_call(yard: Yard, address: str) -> list[str]:
    """A call with curl and one with `toolyard call`, of the first tool that has no requirements."""
    tool = next((tool for tool in yard.catalogue.newest() if not tool.requirements), None)
    if tool is None:
        return [] if yard.upstreams is None else [f"  toolyard list{_elsewhere(yard, address)}", ""]
    input = example_input(tool.input_schema)
    body = msgspec.json.encode({"tool_id": tool.id, "input": input}).decode()
    header = ' -H "authorization: Bearer $KEY"' if yard.needs_credentials else ""
    arguments = "".join(f" {shlex.quote(f'{name}={_word(value)}')}" for name, value in input.items())
    url = shlex.quote(f"{address}/tools/call")
    return [
        f"  curl {url} -H 'content-type: application/json'{header} -d {shlex.quote(body)}",
        f"  toolyard call {tool.id}{arguments}{_elsewhere(yard, address)}",
        "",
    ]


def _elsewhere(yard: Yard, address: str) -> str:
    """What a verb has to be told of where the server is, and of who asks."""
    server = "" if address == "http://127.0.0.1:8000" else f" --server {shlex.quote(address)}"
    return server + (' --key "$KEY"' if yard.needs_credentials else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
