"""`toolyard console`: gives an operator the address of the console, and a code that lets one browser log in."""

import sys
import webbrowser
from typing import Annotated

import typer

from ...client.client import Transport
from ...model.errors import SetupError
from ...operator.client import OperatorClient
from ...operator.reach import reach, running
from ...server.settings.table import Settings
from ...wires.admin.console_code import encode_ask
from ..support.ledger import OperatedServer, transport_to_read
from ..support.screen import complain, complaints, pretty, say
from ..support.target import Json

NO_SERVER = (
    "no server has this ledger now, and only a running server has a console; start one with 'toolyard serve', run this "
    "where it runs, name its ledger with --store, or name it with --server"
)
Store = Annotated[str | None, typer.Option(help="The ledger of the server (sqlite:toolyard.db).")]
Open = Annotated[bool, typer.Option("--open", help="Open the address in a browser.")]


def console(open: Open = False, server: OperatedServer = None, store: Store = None, json: Json = False) -> None:
    """Let a browser into the operator's pages.

    Prints their address, and a code that lets one browser in. The code is good once, for ten minutes; the browser is
    then known for eight hours.
    """
    with complaints(), _operator(server, store) as operator:
        made = operator.ask(encode_ask())
        minutes = made["goodForS"] / 60
        said = f"{made['url']}\ncode {made['code']}  (good once, for {minutes:.0f} minutes)\n"
        say(pretty(made) if json else said)
        sys.stdout.flush()
        if made["url"].startswith("/"):
            complain(
                "The app that has this ledger does not know at which address it is mounted: open this path below it, "
                "or set public_url to it\n"
            )
        elif open and not webbrowser.open(made["url"]):
            complain("No browser could be started here; open the address in one\n")


def _operator(server: str | None, store: str | None) -> OperatorClient:
    transport = transport_to_read(server, store, _find)
    if transport is None:
        raise SetupError(NO_SERVER)
    return OperatorClient(transport)


def _find(settings: Settings) -> Transport | None:
    """Nodes that share a ledger in PostgreSQL all know a code that is put there. Any other ledger is only of use with
    the server that has it open."""
    return reach(settings) if settings.store.startswith("postgres") else running(settings)
