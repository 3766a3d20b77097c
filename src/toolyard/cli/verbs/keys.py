"""`toolyard keys`: an operator makes API keys for callers, lists them and revokes them."""

import sys
import time
from typing import Annotated, Any

import typer

from ...model.api_key import key_name, key_scope
from ...model.errors import SetupError
from ...model.patterns import tool_pattern
from ...operator.client import OperatorClient
from ...wires.admin import api_keys as wire
from ..support.ledger import WHERE, OperatedServer, operator_of
from ..support.options import checked, seconds_in
from ..support.screen import NOTHING, complain, complaints, pretty, say, shown_time, table
from ..support.target import Json

COLUMNS = ("NAME", "SUBJECT", "TENANT", "ALLOW", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")
TIMES = ("createdAt", "expiresAt", "lastUsedAt")
NO_LEDGER = f"API keys are in the ledger: {WHERE}"

Name = Annotated[str, typer.Argument(help="The key's name.")]
Store = Annotated[str | None, typer.Option(help="The ledger that has the keys (sqlite:toolyard.db).")]

keys = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make, list and revoke API keys.")


@keys.command()
def new(
    name: Name,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="The tools it is for, such as 'Calculator.*' or @read_only. Without: all. May repeat.",
        ),
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="SCOPE", help="What else it is for. May repeat.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="How long it lives: 30d, 12h, 10m, 45s.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Its caller's tenant (default).")] = None,
    subject: Annotated[str | None, typer.Option(help="Who its caller is (the key's name).")] = None,
    server: OperatedServer = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Make an API key, and print it. It is not kept, and so cannot be shown again.

    KEY=$(toolyard keys new agent --allow 'Calculator.*' --expires 30d)
    """
    wanted = {
        "name": checked(name, key_name, "NAME"),
        "allow": [checked(each, tool_pattern, "--allow") for each in allow or ()] or None,
        "scopes": [checked(each, key_scope, "--scope") for each in scope or ()] or None,
        "expiresAt": None if expires is None else time.time() + seconds_in(expires, "--expires"),
        "tenant": tenant,
        "subject": subject,
    }
    with complaints(), operator_of(server, store, NO_LEDGER, makes=True) as operator:
        made = operator.ask(wire.encode_new(wanted))
        _show(operator, made, pretty(made) if json else f"{made['key']}\n")
    complain(
        "Shown this once. Send it as 'OXP-API-Key: KEY' or 'Authorization: Bearer KEY', or export TOOLYARD_KEY=KEY\n"
        "From now on every caller of servers on this ledger needs a key\n"
    )


@keys.command("list")
def list_keys(server: OperatedServer = None, store: Store = None, json: Json = False) -> None:
    """List all API keys, also those that are revoked or expired."""
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        listed = operator.ask(wire.encode_list())["keys"]
        say(pretty(listed) if json else table(COLUMNS, map(_row, listed)))


@keys.command()
def revoke(name: Name, server: OperatedServer = None, store: Store = None) -> None:
    """Revoke an API key: servers refuse it at once, and for good."""
    checked(name, key_name, "NAME")
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        revoked = operator.ask(wire.encode_revoke(name))
        say(f"{revoked['name']} is revoked\n")


def _show(operator: OperatorClient, made: dict[str, Any], text: str) -> None:
    """Prints a new key. One that cannot be printed is revoked at once: nobody has it, and it must not stay good."""
    try:
        say(text)
        sys.stdout.flush()
    except OSError as error:
        operator.ask(wire.encode_revoke(made["name"]))
        raise SetupError(
            f"the key could not be shown ({error.strerror}), so it is revoked again; make another"
        ) from None


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    lists = (", ".join(key[name]) or NOTHING for name in ("allow", "scopes"))
    return (
        key["name"],
        key["subject"],
        key["tenant"],
        *lists,
        *(shown_time(key.get(name)) for name in TIMES),
        key["state"],
    )
