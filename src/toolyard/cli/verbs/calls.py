"""`toolyard calls` and `toolyard show`: an operator looks at the calls of all callers, or a caller at their own; and an
operator erases the calls of a user."""

import sys
import time
from typing import Annotated, Any

import typer

from ...model.caller import LOCAL, caller_name
from ...model.lifecycle import State
from ...text.hidden import in_one_line
from ...wires.admin import erasure as wire
from ..support.ledger import WHERE, Caller, Family, OperatedServer, Server, Store, looking_after, operator_of
from ..support.options import call_id as read_id
from ..support.options import seconds, whole
from ..support.options import state as read_state
from ..support.screen import complain, complaints, pretty, say, say_again
from ..support.screen import table as table_of
from ..support.target import Json, Key

EVERY_S = 1.0
NO_LEDGER = f"calls are in the ledger: {WHERE}"
CallId = Annotated[str, typer.Argument(parser=read_id, metavar="CALL_ID", help="The call's id.")]
COLUMNS = ("CALL", "STATE", "CODE", "TOOL", "CALLER", "ATTEMPT", "AGE")


calls = typer.Typer(rich_markup_mode=None, help="List the newest calls, or erase those of a user.")


@calls.callback(invoke_without_command=True)
def list_calls(
    context: typer.Context,
    server: Server = None,
    key: Key = None,
    store: Store = None,
    json: Json = False,
    state: Annotated[
        State | None,
        typer.Option(
            parser=read_state, metavar="STATE", help="Only calls that are pending, processing, complete or error."
        ),
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool, as it was asked for.")] = None,
    limit: Annotated[
        int, typer.Option(parser=whole("--limit", 1, 200), metavar="NUMBER", help="How many, at most.")
    ] = 20,
    watch: Annotated[bool, typer.Option("--watch", help="Show them again every second, until Ctrl-C.")] = False,
) -> None:
    """List the newest calls: those of all callers, or at a server those of the key's."""
    if context.invoked_subcommand is not None:
        return

    def look() -> str:
        with complaints(), looking_after(server, key, store) as client:
            listed = client.calls(state=state, tool=tool, limit=limit)
            return pretty(listed) if json else table(listed, time.time())

    if not watch:
        say(look())
        return
    try:
        while True:
            say_again(look())
            time.sleep(EVERY_S)
    except KeyboardInterrupt:
        return


@calls.command()
def erase(
    user: Annotated[
        str,
        typer.Option(
            help="Whose calls: the user_id that they were made for, or the caller that made them without one."
        ),
    ],
    tenant: Annotated[str | None, typer.Option(help="Only calls of this tenant. Without: of all.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Erase what the calls made for a user said and got. It cannot be undone.

    What they embedded, asked and were answered goes with them. Calls that have not ended stay, and so do the entries of
    the audit log, which have no inputs unless you chose that.
    """
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Erase all ended calls made for {user}?")):
        complain("nothing was erased; say --yes to erase without being asked\n")
        raise typer.Exit(1)
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        erased = operator.ask(wire.encode_erase(user, tenant))["erased"]
        say(f"{erased} call{'' if erased == 1 else 's'} made for {user} {'is' if erased == 1 else 'are'} erased\n")


def show(
    call_id: CallId,
    server: Server = None,
    key: Key = None,
    store: Store = None,
    caller: Caller = None,
    family: Family = None,
    wait: Annotated[
        float, typer.Option(parser=seconds("--wait"), metavar="SECONDS", help="Seconds to wait for its end.")
    ] = 0.0,
) -> None:
    """Show a call: its input, how far it is, how it ended."""
    with complaints(), looking_after(server, key, store, caller) as client:
        shown = client.show(call_id, wait, family)
        say(pretty(shown))


def table(listed: list[dict[str, Any]], now: float) -> str:
    """A table with a row for each call. To a caller all are their own, so the column of callers is left out."""
    rows = [_row(call, now) for call in listed]
    shown = [place for place, name in enumerate(COLUMNS) if name != "CALLER" or any(row[place] for row in rows)]
    return table_of([COLUMNS[place] for place in shown], [[row[place] for place in shown] for row in rows])


def line(call: dict[str, Any]) -> str:
    """One call in one line, without a heading."""
    return "  ".join(in_one_line(cell) for cell in _row(call, time.time()) if cell) + "\n"


def _row(call: dict[str, Any], now: float) -> tuple[str, ...]:
    caller = caller_name(call.get("tenant", LOCAL.tenant), call["caller"]) if "caller" in call else ""
    return (
        call["callId"],
        call["state"],
        call.get("code") or call.get("waitingFor", ""),
        call["tool"],
        caller,
        str(call["attempt"]),
        _age(now - call["createdAt"]),
    )


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
