"""`toolyard secrets`: an operator sets, lists and removes the secrets that tools need, seals them anew with another key
(`rotate`), and goes on after the key was lost (`new-key`).

A value comes from a prompt, from standard input or from the environment. It is no argument: those are in the shell's
history and in the list of processes.
"""

import getpass
import os
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ...lazy import load
from ...model.caller import LOCAL
from ...model.errors import SetupError
from ...model.patterns import tool_pattern
from ...model.sealed import EVERY_TENANT, WhichSecret, secret_name, secret_value, tenant_name, user_name
from ...server.ledger import ledger_file
from ...server.settings.table import MEMORY
from ...wires.admin import secrets as wire
from ..support.ledger import WHERE, OperatedServer, operator_of, refuse_servers, settings_with
from ..support.options import checked
from ..support.screen import NOTHING, complain, complaints, pretty, say, shown_time, table
from ..support.target import Json

COLUMNS = ("NAME", "TOOLS", "TENANT", "USER", "STATE", "SINCE")
NO_LEDGER = f"secrets are in the ledger: {WHERE}"

Name = Annotated[str, typer.Argument(help="The secret's name, as tools declare it.")]
Store = Annotated[str | None, typer.Option(help="The ledger that has the secrets (sqlite:toolyard.db).")]
Tenant = Annotated[
    str | None, typer.Option(help="For whose callers it is (default); '*' is for those of every tenant.")
]
User = Annotated[str | None, typer.Option(help="For one user alone: the user_id that callers speak for.")]

secrets = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keep the secrets that tools need.")


@secrets.command("set")
def set_secret(
    name: Name,
    extra: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="The tools that may have it, such as 'Sms.*', of the server and of trusted workers. Without: all of "
            "those that declare it. May repeat.",
        ),
    ] = None,
    tenant: Tenant = None,
    user: User = None,
    from_env: Annotated[str | None, typer.Option(metavar="VAR", help="Take the value from this variable.")] = None,
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Set a secret.

    Its value is asked for, or read from standard input. It is kept sealed, and never shown.

    toolyard secrets set TWILIO_AUTH_TOKEN --tool 'Sms.*' < token.txt
    """
    if extra:
        raise SetupError(
            "a value is no argument: it would stay in the shell's history; type it at the prompt, send it to standard "
            "input, or name a variable with --from-env"
        )
    which = _which(name, tenant, user)
    patterns = [checked(each, tool_pattern, "--tool") for each in tool or ()]
    refuse_servers(server, store, NO_LEDGER)
    value = _value(name, from_env)
    with complaints(), operator_of(server, store, NO_LEDGER, makes=True) as operator:
        made = operator.ask(wire.encode_set(which, value, patterns))
        say(f"{made['name']} is set for {_whose(made)}\n")
        needed_by = made.get("neededBy")
        if needed_by:
            complain(f"It is given to {', '.join(needed_by)}\n")
        elif needed_by is not None:
            complain(f"No tool that is served declares {name} and may have it\n")


@secrets.command("list")
def list_secrets(server: OperatedServer = None, store: Store = None, json: Json = False) -> None:
    """List the secrets, also those that tools lack.

    The tools are those of a running server: what they declare and nobody has set is listed, too. Values are never
    shown.
    """
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        listed = operator.ask(wire.encode_list())["secrets"]
        say(pretty(listed) if json else table(COLUMNS, map(_row, listed)))


@secrets.command()
def remove(
    name: Name, tenant: Tenant = None, user: User = None, server: OperatedServer = None, store: Store = None
) -> None:
    """Remove a secret. Calls that begin from now on do not have it."""
    which = _which(name, tenant, user)
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        removed = operator.ask(wire.encode_remove(which))
        say(f"{removed['name']} is removed for {_whose(removed)}\n")


@secrets.command()
def rotate(server: OperatedServer = None, store: Store = None) -> None:
    """Seal everything anew with the newest key.

    That is the first of the keys in secret_key, or in the key file. Put the new key in front of the old one and start
    the server again; then run this.
    """
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        done = operator.ask(wire.encode_rotate())
        say(f"Sealed anew: {done['sealedAnew']}; with the first key already: {done['sealedBefore']}\n")
        if done["keys"] == 1:
            complain("There is one key alone; 'toolyard secrets rotate --help' says how to change it\n")
        if done["lost"]:
            raise SetupError(f"{done['lost']} cannot be opened with any key; bring back their key, or set them again")


@secrets.command("new-key")
def new_key(store: Store = None) -> None:
    """Go on without the key that the ledger was sealed with. For when it is lost: a missing key file is made.

    What was sealed with it stays closed, and the audit log cannot be verified, unless the old key is found: put it
    behind the new one then.
    """
    refuse_servers(None, store, NO_LEDGER)
    settings = settings_with(store)
    path = ledger_file(settings.store)
    if settings.store == MEMORY or (path is not None and not path.exists()):
        raise SetupError(f"there is no ledger here; {NO_LEDGER}")
    with complaints():
        where = load("new_key")(settings)
    say(f"The key in {where} is this ledger's key from now on\n")
    complain("What was sealed with another stays closed: set those secrets again, and have people connect again\n")


def _which(name: str, tenant: str | None, user: str | None) -> WhichSecret:
    which = WhichSecret(
        checked(name, secret_name, "NAME"),
        LOCAL.tenant if tenant is None else checked(tenant, tenant_name, "--tenant"),
        "" if user is None else checked(user, user_name, "--user"),
    )
    if which.user and which.tenant == EVERY_TENANT:
        raise SetupError("--user is one of a tenant's; name the tenant with --tenant")
    return which


def _value(name: str, variable: str | None) -> str:
    """The secret's value, from the variable, the prompt or standard input. The end of the last line is no part of it.
    Raises SetupError."""
    if variable is not None:
        if not os.environ.get(variable):
            raise SetupError(f"--from-env {variable}: this variable is not set, or empty")
        given = os.environ[variable]
    elif sys.stdin.isatty():
        given = _typed(name)
    else:
        given = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        given = given.removesuffix("\n").removesuffix("\r")
    try:
        return secret_value(given)
    except ValueError as error:
        sentence = str(error)
        raise SetupError(f"the value {sentence[0].lower()}{sentence[1:]}") from None


def _typed(name: str) -> str:
    try:
        return getpass.getpass(f"The value of {name}: ")
    except EOFError:
        complain("\n")
        raise SetupError(f"no value was typed; {name} is not set") from None


def _whose(secret: dict[str, Any]) -> str:
    tenant = "every tenant" if secret["tenant"] == EVERY_TENANT else f"tenant {secret['tenant']}"
    return f"{tenant}, user {secret['user']}" if "user" in secret else tenant


def _row(secret: dict[str, Any]) -> tuple[str, ...]:
    tools: Iterable[str] = secret["tools"]
    return (
        secret["name"],
        ", ".join(tools) or NOTHING,
        secret.get("tenant", NOTHING),
        secret.get("user", NOTHING),
        secret["state"],
        shown_time(secret.get("setAt")),
    )
