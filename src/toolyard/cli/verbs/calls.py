"""`toolyard calls` and `toolyard show`: an operator looks at the calls of all callers, or a caller at their own."""

import time
from typing import Annotated, Any

import typer

from ...model.caller import LOCAL, caller_name
from ...model.lifecycle import State
from ...text.hidden import in_one_line
from ..support.ledger import Caller, Family, Server, Store, looking_after
from ..support.options import call_id as read_id
from ..support.options import seconds, whole
from ..support.options import state as read_state
from ..support.screen import complaints, pretty, say, say_again
from ..support.screen import table as table_of
from ..support.target import Json, Key

EVERY_S = 1.0
CallId = Annotated[str, typer.Argument(parser=read_id, metavar="CALL_ID", help="The call's id.")]
COLUMNS = ("CALL", "STATE", "CODE", "TOOL", "CALLER", "ATTEMPT", "AGE")


def calls(
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
    """Show a call: what was asked, how far it has come, how it ended."""
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
