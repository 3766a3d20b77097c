"""`toolyard console`: the address of the console and a code for it, from the server that has the ledger."""

import sys
import webbrowser
from typing import Annotated

import typer

from ..client.operator import Operator
from ..model.errors import SetupError
from ..server.admin_reach import reach, running
from ..server.settings import Settings, load_settings
from .failing import told
from .ledger import tell_ledger
from .screen import complain, pretty, say
from .target import Json

NO_SERVER = (
    "no server has this ledger now, and only a running server has a console; start one with 'toolyard serve', run this "
    "where it runs, or name its ledger with --store"
)
Store = Annotated[str | None, typer.Option(help="The ledger of the server (sqlite:toolyard.db).")]
Open = Annotated[bool, typer.Option("--open", help="Open the address in a browser.")]


def console(open: Open = False, store: Store = None, json: Json = False) -> None:
    """Print the address of the operator's pages, and a code that lets one browser in.

    The code is good once, for ten minutes; the browser is then known for eight hours.
    """
    settings = load_settings({} if store is None else {"store": store})
    tell_ledger(settings, store)
    with told(), _operator(settings) as operator:
        made = operator.console_code()
    minutes = made["goodForS"] / 60
    said = f"{made['url']}\ncode {made['code']}  (good once, for {minutes:.0f} minutes)\n"
    say(pretty(made) if json else said)
    sys.stdout.flush()
    if open and not webbrowser.open(made["url"]):
        complain("No browser could be started here; open the address in one\n")


def _operator(settings: Settings) -> Operator:
    """Nodes that share a ledger all know a code that is in it. Any other ledger is asked for through its server."""
    sending = reach(settings) if settings.store.startswith("postgres") else running(settings)
    if sending is None:
        raise SetupError(NO_SERVER)
    return Operator(sending)
