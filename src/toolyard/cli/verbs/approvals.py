"""`toolyard approvals`, `approve` and `reject`: through the server that has the ledger, or in the ledger itself."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ...model.errors import SetupError
from ...text.hidden import in_one_line
from ..support.ledger import WHERE, OperatedServer, operator_of
from ..support.refusals import told
from ..support.screen import in_json, pretty, say
from ..support.target import Json

NO_LEDGER = f"calls wait in the ledger: {WHERE}"

NO_PAGE = "none without a running server, or public_url; to decide here: toolyard approve"


def read_id(given: str) -> str:
    if not given:
        raise SetupError("ID is empty; 'toolyard approvals' shows those of the calls that wait")
    return given


Id = Annotated[
    str, typer.Argument(parser=read_id, metavar="ID", help="As 'toolyard approvals' shows it: its number is enough.")
]
Store = Annotated[str | None, typer.Option(help="The ledger that has the calls (sqlite:toolyard.db).")]


def approvals(server: OperatedServer = None, store: Store = None, json: Json = False) -> None:
    """List the calls that wait for a person's yes."""
    with told(), operator_of(server, store, NO_LEDGER) as operator:
        waiting = operator.approvals()
        if json:
            say(pretty(waiting))
        elif not waiting:
            say("Nothing waits for approval\n")
        else:
            say("\n".join(map(_shown, waiting)))


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
    with told(), operator_of(server, store, NO_LEDGER) as operator:
        decided = operator.decide(id, approved, reason)
        say(f"{decided['callId']} is {'approved' if approved else 'rejected'}\n")


def _shown(approval: dict[str, Any]) -> str:
    """Without a server there is no page, and so nothing that a code would be good for."""
    caller, number = approval["caller"], approval["id"].partition("-")[0]
    page = f"{approval['url']}  code {approval['code']}" if "url" in approval else f"{NO_PAGE} {number}"
    since = datetime.fromtimestamp(approval["createdAt"], UTC).strftime("%Y-%m-%d %H:%M")
    user = f" for {caller['userId']}" if caller["userId"] else ""
    who = in_one_line(f"{approval['tool']}  asked by {caller['subject']}{user} ({caller['tenant']})")
    return f"{number}  {who} since {since}\n   input {in_json(approval['input']).rstrip()}\n   page  {page}\n"
