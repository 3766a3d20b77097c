"""Which server or ledger a verb is about, from the command line and the environment.

A verb acts as a caller at a server, or as an operator: at a server that is named, through the server that has the
ledger open, or in the ledger itself. What is said on the command line counts for more than the environment. A verb that
changes something never takes the ledger here where the environment names another server; a verb that only reads says
which ledger it reads.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ...client.client import Client, Transport
from ...client.transport import UNIX
from ...model.errors import SetupError
from ...operator.client import OperatorClient
from ...operator.reach import named, reach, reach_or_make
from ...server.admin.endpoint_file import read
from ...server.ledger import ledger_file
from ...server.settings.table import Settings, load_settings
from .screen import complain
from .target import address

TOKEN = "TOOLYARD_OPERATOR_TOKEN"
WHERE = "run this where the server runs, name the ledger with --store, or the server with --server"
Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"A server's address, to ask it as a caller, or with {TOKEN} as its operator (TOOLYARD_SERVER).",
    ),
]
OperatedServer = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help=f"A server elsewhere, https://... or unix:PATH; with {TOKEN}."),
]
Store = Annotated[str | None, typer.Option(help="The ledger, for the calls of all callers (sqlite:toolyard.db).")]
Caller = Annotated[
    str | None, typer.Option(metavar="SUBJECT", help="Whose call it is, where several callers have one of that id.")
]

Family = Annotated[
    str | None,
    typer.Option(
        metavar="FAMILY", help="Which call, where one id means several: oxp, otc_draft, mcp, or a session's id."
    ),
]


@contextmanager
def looking_after(
    server: str | None, key: str | None, store: str | None, caller: str | None = None
) -> Iterator[Client | OperatorClient]:
    """The client of a verb that looks after calls: an operator's or a caller's. What is said on the command line counts
    for more than the environment, a server for more than the ledger. Where nothing is said and there is no ledger here,
    it is a caller's, of the server that the settings here are for."""
    elsewhere = server_named(server, store)
    is_operator = elsewhere is None or elsewhere.startswith(UNIX) or bool(os.environ.get(TOKEN))
    transport = _transport(elsewhere, store) if is_operator else None
    if transport is None:
        if caller is not None:
            raise SetupError(f"--caller is for operators; without {TOKEN} a server shows its callers their own calls")
        with Client(address(elsewhere or _usual()), key=key) as client:
            yield client
        return
    with OperatorClient(transport, caller) as operator:
        yield operator


def _usual() -> str:
    """Where the server is that the settings here are for."""
    settings = load_settings({})
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{settings.port or Settings().port}"


def operator_of(server: str | None, store: str | None, where: str, *, makes: bool = False) -> OperatorClient:
    """The client of a verb that is an operator's alone. There must be a ledger, unless `makes` says that one is made.
    `where` is for the error: it says how to name the ledger that has what is looked for. Raises SetupError."""
    refuse_servers(server, store, where)
    transport = _transport(server_operated(server, store), store, makes=makes)
    if transport is None:
        raise SetupError(f"there is no ledger here; {where}")
    return OperatorClient(transport)


def transport_to_read(
    server: str | None, store: str | None, find: Callable[[Settings], Transport | None] = reach
) -> Transport | None:
    """The transport of an operator's verb that only reads, and says on standard error which ledger that is where it
    could be mistaken. `find` looks for the ledger here; None where it finds none. Raises SetupError."""
    if elsewhere := server_operated(server, store):
        return named_server(elsewhere)
    settings = settings_with(store)
    tell_ledger(settings, store)
    return find(settings)


def settings_with(store: str | None) -> Settings:
    """The settings, with the ledger that the command line names."""
    return load_settings({} if store is None else {"store": store})


def _transport(elsewhere: str | None, store: str | None, *, makes: bool = False) -> Transport | None:
    """An operator's transport; None where there is no ledger here and none was named."""
    if elsewhere is not None:
        return named_server(elsewhere)
    settings = settings_with(store)
    transport = reach_or_make(settings) if makes else reach(settings)
    if transport is None and store is not None:
        raise SetupError(f"there is no ledger at {store}")
    return transport


def named_server(server: str) -> Transport:
    """A transport to this server as its operator. Raises SetupError."""
    return named(server if server.startswith(UNIX) else address(server), os.environ.get(TOKEN))


def server_named(server: str | None, store: str | None) -> str | None:
    """The server that the command line names, or the environment where the command line names nothing."""
    if server is not None and store is not None:
        raise SetupError("--server and --store are two places; name one of them")
    return server or (None if store else os.environ.get("TOOLYARD_SERVER") or None)


def server_operated(server: str | None, store: str | None) -> str | None:
    """The server to ask as its operator: one that the environment names only counts with the operator's token."""
    elsewhere = server_named(server, store)
    return elsewhere if server or os.environ.get(TOKEN) else None


def refuse_servers(server: str | None, store: str | None, where: str) -> None:
    """Raises SetupError for somebody who has a server elsewhere in mind and is not its operator: they must not change
    the ledger here instead."""
    if server_operated(server, store) is None and store is None and (elsewhere := server_elsewhere(load_settings({}))):
        raise SetupError(f"{where} (not with TOOLYARD_SERVER, which is {elsewhere})")


def tell_ledger(settings: Settings, store: str | None) -> None:
    """Says on standard error which ledger is read, to somebody who may have a server elsewhere in mind."""
    if store is None and (elsewhere := server_elsewhere(settings)):
        complain(f"From the ledger here, {settings.store}, and not from TOOLYARD_SERVER ({elsewhere})\n")


def server_elsewhere(settings: Settings) -> str | None:
    """The server that the environment names, unless it is the one that has this very ledger."""
    named, ledger = os.environ.get("TOOLYARD_SERVER"), ledger_file(settings.store)
    if not named:
        return None
    endpoint = None if ledger is None else read(ledger)
    return None if endpoint is not None and endpoint.address == named.rstrip("/") else named
