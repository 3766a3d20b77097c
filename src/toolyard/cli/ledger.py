"""Whose calls a verb looks after: one caller's, at a server, or those of all callers, in the ledger."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ..client.client import DEFAULT_URL, Client
from ..client.operator import Operator
from ..model.errors import SetupError
from ..server.admin_file import ledger_file, read
from ..server.admin_reach import reach
from ..server.settings import Settings, load_settings
from .screen import complain
from .target import address

Server = Annotated[str | None, typer.Option(help="A server's address, to ask it as a caller (TOOLYARD_SERVER).")]
Store = Annotated[str | None, typer.Option(help="The ledger, for the calls of all callers (sqlite:toolyard.db).")]
Caller = Annotated[
    str | None, typer.Option(metavar="SUBJECT", help="Whose call it is, where several callers have one of that id.")
]


@contextmanager
def looking_after(
    server: str | None, key: str | None, store: str | None, caller: str | None = None
) -> Iterator[Client | Operator]:
    """What is said on the command line counts for more than the environment; a server for more than the ledger. Where
    nothing is said and there is no ledger, it is the server at the usual address."""
    if server is not None and store is not None:
        raise SetupError("--server and --store are two places; name one of them")
    named = server or (None if store else os.environ.get("TOOLYARD_SERVER"))
    operator = None if named else find_operator(store, caller)
    if operator is None:
        if caller is not None:
            raise SetupError("--caller is for the ledger; a server shows its callers their own calls")
        with Client(address(named or DEFAULT_URL), key=key) as client:
            yield client
        return
    with operator:
        yield operator


def find_operator(store: str | None, caller: str | None) -> Operator | None:
    """None where there is no ledger and none was named."""
    settings = load_settings({} if store is None else {"store": store})
    sending = reach(settings)
    if sending is None and store is not None:
        raise SetupError(f"there is no ledger at {store}")
    return None if sending is None else Operator(sending, caller)


def operator_of(store: str | None, where: str) -> Operator:
    """Where there must be a ledger. `where` says in which one what is looked for is."""
    refuse_servers(store, where)
    operator = find_operator(store, None)
    if operator is None:
        raise SetupError(f"there is no ledger here; {where}")
    return operator


def refuse_servers(store: str | None, where: str) -> None:
    """Who has a server elsewhere in mind must not change a ledger here."""
    if store is None and (elsewhere := server_elsewhere(load_settings({}))):
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
