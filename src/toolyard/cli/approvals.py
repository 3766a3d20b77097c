"""`toolyard approvals`, `approve` and `reject`: through the server that has the ledger, or in the ledger itself."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ..client.operator import Operator
from ..model.errors import SetupError
from ..model.hidden import in_one_line
from .failing import told
from .ledger import find_operator
from .screen import in_json, pretty, say
from .target import Json

NO_LEDGER = "there is no ledger here; run this where the server runs, or name the ledger with --store"
Id = Annotated[str, typer.Argument(metavar="ID", help="As 'toolyard approvals' shows it: its number is enough.")]
Store = Annotated[str | None, typer.Option(help="The ledger that has the calls (sqlite:toolyard.db).")]


def approvals(store: Store = None, json: Json = False) -> None:
    """List the calls that wait for a person's yes."""
    with told(), _operator(store) as operator:
        waiting = operator.approvals()
    if json:
        say(pretty(waiting))
    elif not waiting:
        say("Nothing waits for approval\n")
    else:
        say("\n".join(map(_shown, waiting)))


def approve(id: Id, store: Store = None) -> None:
    """Say yes to a call that waits. It runs, this once and with this input."""
    _decide(id, True, "", store)


def reject(
    id: Id,
    reason: Annotated[str, typer.Option(help="Why not; whoever called is told.")] = "",
    store: Store = None,
) -> None:
    """Say no to a call that waits. It ends, and whoever called is told why."""
    _decide(id, False, reason, store)


def _decide(id: str, approved: bool, reason: str, store: str | None) -> None:
    with told(), _operator(store) as operator:
        decided = operator.decide(id, approved, reason)
    say(f"{decided['callId']} is {'approved' if approved else 'rejected'}\n")


def _operator(store: str | None) -> Operator:
    operator = find_operator(store, None)
    if operator is None:
        raise SetupError(NO_LEDGER)
    return operator


def _shown(approval: dict[str, Any]) -> str:
    caller = approval["caller"]
    since = datetime.fromtimestamp(approval["createdAt"], UTC).strftime("%Y-%m-%d %H:%M")
    user = f" for {caller['userId']}" if caller["userId"] else ""
    who = in_one_line(f"{approval['tool']}  asked by {caller['subject']}{user} ({caller['tenant']})")
    return (
        f"{approval['id'].partition('-')[0]}  {who} since {since}\n"
        f"   input {in_json(approval['input']).rstrip()}\n"
        f"   page  {approval['url']}  code {approval['code']}\n"
    )
