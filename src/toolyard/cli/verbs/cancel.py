"""`toolyard cancel`: an operator cancels a call of any caller, or a caller one of their own."""

import typer

from ..support.ledger import Caller, Family, Server, Store, looking_after
from ..support.screen import complain, complaints, pretty, say
from ..support.target import Json, Key
from .calls import CallId, line


def cancel(
    call_id: CallId,
    server: Server = None,
    key: Key = None,
    store: Store = None,
    caller: Caller = None,
    family: Family = None,
    json: Json = False,
) -> None:
    """Cancel a call that has not ended."""
    with complaints(), looking_after(server, key, store, caller) as client:
        cancelled = client.cancel(call_id, family)
        say(pretty(cancelled) if json else line(cancelled))
        if cancelled.get("code") != "cancelled":
            complain("The call had ended before\n")
            raise typer.Exit(1)
