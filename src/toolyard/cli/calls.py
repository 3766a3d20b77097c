"""`toolyard calls` and `toolyard show`."""

import sys
import time
from typing import Annotated, Any

import msgspec
import typer

from ..client.client import DEFAULT_URL
from .failing import told
from .target import Json, Key, Server, connect


def calls(
    server: Server = DEFAULT_URL,
    key: Key = None,
    json: Json = False,
    state: Annotated[str | None, typer.Option(help="PENDING, PROCESSING, COMPLETE or ERROR.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool, as it was asked for.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.")] = 20,
    watch: Annotated[bool, typer.Option("--watch", help="Show them again every second.")] = False,
) -> None:
    """List the newest calls: state, tool, attempt, age."""
    with connect(server, key) as client:
        while True:
            with told():
                listed = client.calls(state=state, tool=tool, limit=limit)
            if json:
                _print(listed)
            else:
                sys.stdout.write(table(listed, time.time()))
            if not watch:
                return
            sys.stdout.write("\n")
            sys.stdout.flush()
            time.sleep(1)


def show(
    call_id: Annotated[str, typer.Argument(help="The call's id.")],
    server: Server = DEFAULT_URL,
    key: Key = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for its end.")] = 0.0,
) -> None:
    """Show a call: what was asked, how far it has come, how it ended."""
    with connect(server, key) as client, told():
        _print(client.show(call_id, wait))


def table(listed: list[dict[str, Any]], now: float) -> str:
    """A line a call."""
    rows = [
        (
            call["callId"],
            call["state"],
            call.get("code", ""),
            call["tool"],
            f"attempt {call['attempt']}",
            _age(now - call["createdAt"]),
        )
        for call in listed
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(6)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(line + "\n" for line in lines)


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit} ago"
    return f"{max(seconds, 0):.0f}s ago"


def _print(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
