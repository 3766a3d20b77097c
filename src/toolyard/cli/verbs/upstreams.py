"""`toolyard upstreams`: an operator sees how the servers fare whose tools are served here, and has one looked at."""

import logging
from typing import Annotated, Any

import msgspec
import typer

from ...operator.upstreams import UpstreamCheck, check, statuses
from ...server.settings.table import load_settings
from ...wires.admin.upstreams import UpstreamStatus
from ..support.ledger import OperatedServer, settings_with, transport_to_read
from ..support.screen import NOTHING, complain, complaints, pretty, say, shown_time, table
from ..support.target import Json
from ..support.upstream_flag import UpstreamFlag, upstream_tables

PROGRAMS = "toolyard.upstream.program"
COLUMNS = ("NAME", "KIND", "ERA", "TOOLS", "STATE", "CALLS", "ERRORS", "P50", "P99", "SINCE")
Store = Annotated[str | None, typer.Option(help="The ledger that knows them (sqlite:toolyard.db).")]

upstreams = typer.Typer(rich_markup_mode=None, help="Show how upstreams fare, and look at one.")


@upstreams.callback(invoke_without_command=True)
def list_upstreams(
    context: typer.Context, server: OperatedServer = None, store: Store = None, json: Json = False
) -> None:
    """List the servers whose tools are served here, and how they fare, or look at one.

    Figures are since the server started; p50 and p99 are of its last 500 calls of the upstream. Below the table stands
    what is wrong, and which tools are withheld, and why.
    """
    if context.invoked_subcommand is not None:
        return
    with complaints():
        found = statuses(transport_to_read(server, store), settings_with(store))
        say(pretty(msgspec.to_builtins(found)) if json else _in_words(found))


@upstreams.command("check")
def check_upstream(
    name: Annotated[str, typer.Argument(help="What it is called in the settings, or with --upstream.")],
    tools: Annotated[list[str] | None, typer.Option(help="A file that names it, such as mcp.json.")] = None,
    upstream: UpstreamFlag = None,
    store: Annotated[str | None, typer.Option(help="The ledger that has its secrets (sqlite:toolyard.db).")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
    json: Json = False,
) -> None:
    """Connect to one, and say what is wrong with which of its tools.

    It is taken from the settings; no server needs to run. The exit code is 0 where all its tools can be served, and 1
    where one cannot, or is not as it was locked, or where the upstream cannot be reached.

    toolyard upstreams check Hub

    toolyard upstreams check Hub --upstream Hub=https://tools.example.com/mcp
    """
    given: dict[str, Any] = {"tools": tools, "upstreams": upstream_tables(upstream) or None, "store": store}
    settings = load_settings({name: value for name, value in given.items() if value is not None}, config=config)
    _show_its_errors()
    with complaints():
        found = check(name, settings)
    if json:
        say(pretty(msgspec.to_builtins(found)))
    elif found.trouble:
        complain(f"{found.name} {found.trouble}\n")
    else:
        say(_findings(found))
    if not found.is_well:
        raise typer.Exit(1)


def _show_its_errors() -> None:
    """What a program writes to standard error is shown on ours: it may say what is wrong."""
    log = logging.getLogger(PROGRAMS)
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(_OnScreen())


class _OnScreen(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(f"{record.getMessage()}\n")


def _in_words(found: list[UpstreamStatus]) -> str:
    if not found:
        return "There are no upstreams.\n"
    lines = [f"{each.name} {each.trouble}\n" for each in found if each.trouble]
    lines += [f"{what} is withheld: {_indented(why)}\n" for each in found for what, why in each.withheld.items()]
    return table(COLUMNS, map(_row, found)) + "".join(["\n", *lines] if lines else [])


def _row(each: UpstreamStatus) -> tuple[str, ...]:
    return (
        each.name,
        each.kind,
        each.era or NOTHING,
        str(each.tools),
        each.state,
        str(each.calls),
        str(each.errors),
        _duration(each.p50_ms),
        _duration(each.p99_ms),
        shown_time(each.since),
    )


def _duration(ms: float | None) -> str:
    return NOTHING if ms is None else f"{ms:.1f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _findings(found: UpstreamCheck) -> str:
    count = len(found.tools)
    lines = [
        f"{found.name}: {found.kind}, MCP {found.era}, {found.server or 'without a name'}",
        f"{count} tool{'' if count == 1 else 's'} can be served",
        *(f"{what} cannot be served: {_indented(why)}" for what, why in found.problems.items()),
    ]
    if found.lock is None:
        lines.append("No lock counts; toolyard lock makes one.")
    elif found.differs:
        lines += [*found.differs, f"{found.lock}: to approve that, run toolyard lock."]
    else:
        lines.append(f"{found.lock}: as locked.")
    return "\n".join(lines) + "\n"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
