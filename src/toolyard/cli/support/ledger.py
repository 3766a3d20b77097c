"""What a verb looks after: one caller's calls, at a server; or what is the operator's, through the server that has the
ledger, through one that is named, or in the ledger itself."""

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


@contextmanager
def looking_after(
    server: str | None, key: str | None, store: str | None, caller: str | None = None
) -> Iterator[Client | OperatorClient]:
    """What is said on the command line counts for more than the environment; a server for more than the ledger. Where
    nothing is said and there is no ledger, it is the server that the settings here are for."""
    elsewhere = server_named(server, store)
    is_operator = elsewhere is None or elsewhere.startswith(UNIX) or bool(os.environ.get(TOKEN))
    sending = _sending(elsewhere, store) if is_operator else None
    if sending is None:
        if caller is not None:
            raise SetupError(f"--caller is for operators; without {TOKEN} a server shows its callers their own calls")
        with Client(address(elsewhere or _usual()), key=key) as client:
            yield client
        return
    with OperatorClient(sending, caller) as operator:
        yield operator


def _usual() -> str:
    """Where the server is that the settings here are for."""
    settings = load_settings({})
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{settings.port or Settings().port}"


def operator_of(server: str | None, store: str | None, where: str, *, makes: bool = False) -> OperatorClient:
    """Where there must be a ledger, or one is made. `where` says in which one what is looked for is."""
    refuse_servers(server, store, where)
    sending = _sending(server_operated(server, store), store, makes=makes)
    if sending is None:
        raise SetupError(f"there is no ledger here; {where}")
    return OperatorClient(sending)


def _sending(elsewhere: str | None, store: str | None, *, makes: bool = False) -> Transport | None:
    """None where there is no ledger and none was named."""
    if elsewhere is not None:
        return named_server(elsewhere)
    settings = load_settings({} if store is None else {"store": store})
    sending = reach_or_make(settings) if makes else reach(settings)
    if sending is None and store is not None:
        raise SetupError(f"there is no ledger at {store}")
    return sending


def named_server(server: str) -> Transport:
    """As its operator. Raises SetupError."""
    return named(server if server.startswith(UNIX) else address(server), os.environ.get(TOKEN))


def server_named(server: str | None, store: str | None) -> str | None:
    """On the command line, or in the environment where nothing is said there."""
    if server is not None and store is not None:
        raise SetupError("--server and --store are two places; name one of them")
    return server or (None if store else os.environ.get("TOOLYARD_SERVER") or None)


def server_operated(server: str | None, store: str | None) -> str | None:
    """The same, where the environment also says that whoever asks operates it."""
    elsewhere = server_named(server, store)
    return elsewhere if server or os.environ.get(TOKEN) else None


def refuse_servers(server: str | None, store: str | None, where: str) -> None:
    """Who has a server elsewhere in mind, and does not operate it, must not change a ledger here."""
    if server_operated(server, store) is None and store is None and (elsewhere := server_elsewhere(load_settings({}))):
        raise SetupError(f"{where} (not with TOOLYARD_SERVER, which is {elsewhere})")


def tell_ledger(settings: Settings, store: str | None) -> None:
    """Who has a server elsewhere in mind, and only reads, is told what is read."""
    if store is None and (elsewhere := server_elsewhere(settings)):
        complain(f"From the ledger here, {settings.store}, and not from TOOLYARD_SERVER ({elsewhere})\n")


def server_elsewhere(settings: Settings) -> str | None:
    """The server that the environment names, unless it is the one that has this very ledger."""
    named, ledger = os.environ.get("TOOLYARD_SERVER"), ledger_file(settings.store)
    if not named:
        return None
    access = None if ledger is None else read(ledger)
    return None if access is not None and access.address == named.rstrip("/") else named


def checked(given: str, check: Callable[[object], str], option: str) -> str:
    """What was given, if it may be that. Raises SetupError."""
    try:
        return check(given)
    except ValueError as error:
        sentence = str(error)
        raise SetupError(f"{option} {sentence[0].lower()}{sentence[1:]}, got {given!r}") from None
