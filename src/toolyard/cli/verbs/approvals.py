"""`toolyard approvals`, `approve` and `reject`: an operator lists the calls that wait for a person's yes, and decides
about one."""

from typing import Annotated, Any

import typer

from ...model.errors import SetupError
from ...text.hidden import in_one_line
from ...wires.lifecycle import approvals as wire
from ...wires.lifecycle.approvals import MOST_LISTED
from ..support.ledger import WHERE, OperatedServer, operator_of
from ..support.screen import complain, complaints, in_json, pretty, say, shown_time
from ..support.target import Json

MOST_SHOWN = 4000
"""Characters of an input."""
NO_LEDGER = f"calls wait in the ledger: {WHERE}"
NO_PAGE = "none without a running server, or public_url; to decide here: toolyard approve"


def read_id(given: str) -> str:
    """An approval's id, or the number that it begins with. Raises SetupError."""
    if not given:
        raise SetupError("ID is empty; 'toolyard approvals' shows those of the calls that wait")
    return given


Id = Annotated[
    str, typer.Argument(parser=read_id, metavar="ID", help="As 'toolyard approvals' shows it: its number is enough.")
]
Store = Annotated[str | None, typer.Option(help="The ledger that has the calls (sqlite:toolyard.db).")]


Limit = Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="How many to show, of each caller some.")]


def approvals(server: OperatedServer = None, store: Store = None, json: Json = False, limit: Limit = 200) -> None:
    """List the calls that wait for a person's yes."""
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        found = operator.ask(wire.encode_list(limit))
        waiting, more = found["approvals"], found.get("more", 0)
        if json:
            say(pretty(waiting))
        elif not waiting:
            say("Nothing waits for approval\n")
        else:
            say("\n".join(map(_shown, waiting)))
        if more:
            calls = "calls wait" if more > 1 else "call waits"
            complain(f"{more} more {calls}, not shown here; decide about these first, or see --limit\n")


def approve(id: Id, server: OperatedServer = None, store: Store = None) -> None:
    """Say yes to a call that waits. It runs, this once and with this input."""
    _decide(id, True, "", server, store)


def reject(
    id: Id,
    reason: Annotated[str, typer.Option(help="Why not; whoever called is told.")] = "",
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Say no to a call that waits. It ends, and whoever called is told why."""
    _decide(id, False, reason, server, store)


def _decide(id: str, approved: bool, reason: str, server: str | None, store: str | None) -> None:
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        decided = operator.ask(wire.encode_decision(id, approved, reason))
        say(f"{decided['callId']} is {'approved' if approved else 'rejected'}\n")


def _shown(approval: dict[str, Any]) -> str:
    """A call that waits, in three lines. Without a server there is no page, and so no use for the code."""
    caller, number = approval["caller"], approval["id"].partition("-")[0]
    page = f"{approval['url']}  code {approval['code']}" if "url" in approval else f"{NO_PAGE} {number}"
    since = shown_time(approval["createdAt"])
    user = f" for {caller['userId']}" if caller["userId"] else ""
    who = in_one_line(f"{approval['tool']}  asked by {caller['subject']}{user} ({caller['tenant']})")
    return f"{number}  {who} since {since}\n   input {_input(approval)}\n   page  {page}\n"


def _input(approval: dict[str, Any]) -> str:
    """As much as somebody reads in a list, and where all of it is."""
    text = in_json(approval["input"]).rstrip()
    if len(text) <= MOST_SHOWN:
        return text
    show = f"toolyard show {approval['callId']} --caller {approval['caller']['subject']}"
    first = in_one_line(f"the first {MOST_SHOWN:,} of {len(text):,} characters; all of it: {show}")
    return f"{text[:MOST_SHOWN]}…\n         {first}"
