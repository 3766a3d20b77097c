"""`toolyard keys new`, `list` and `revoke`: through the server that has the ledger, or in the ledger itself."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ..client.operator import Operator
from ..model.api_key import key_name, key_scope
from ..model.errors import SetupError
from ..model.patterns import tool_pattern
from ..server.admin_reach import reach_or_make
from ..server.settings import load_settings
from .calls import pretty
from .durations import seconds_in
from .failing import told
from .ledger import find_operator
from .target import Json

COLUMNS = ("NAME", "SUBJECT", "TENANT", "ALLOW", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")
TIMES = ("createdAt", "expiresAt", "lastUsedAt")
NOTHING = "-"
NO_LEDGER = "API keys are in the ledger: run this where the server runs, or name the ledger with --store"

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
    tenant: Annotated[str | None, typer.Option(help="Whose house its caller is in (default).")] = None,
    subject: Annotated[str | None, typer.Option(help="Who its caller is (the key's name).")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Make an API key, and print it. It is not kept, and so cannot be shown again.

    KEY=$(toolyard keys new agent --allow 'Calculator.*' --expires 30d)
    """
    wanted = {
        "name": _checked(name, key_name, "NAME"),
        "allow": [_checked(each, tool_pattern, "--allow") for each in allow or ()] or None,
        "scopes": [_checked(each, key_scope, "--scope") for each in scope or ()] or None,
        "expiresAt": None if expires is None else time.time() + seconds_in(expires, "--expires"),
        "tenant": tenant,
        "subject": subject,
    }
    _refuse_servers(store)
    with told(), Operator(reach_or_make(load_settings({} if store is None else {"store": store}))) as operator:
        made = operator.new_key(wanted)
    sys.stdout.write(pretty(made) if json else f"{made['key']}\n")
    sys.stdout.flush()
    sys.stderr.write(
        "Shown this once. Send it as 'OXP-API-Key: KEY' or 'Authorization: Bearer KEY', or export TOOLYARD_KEY=KEY\n"
        "From now on every caller of servers on this ledger needs a key\n"
    )


@keys.command("list")
def list_keys(store: Store = None, json: Json = False) -> None:
    """List all API keys, also those that are revoked or expired."""
    with told(), _operator(store) as operator:
        listed = operator.keys()
    sys.stdout.write(pretty(listed) if json else _table(listed))


@keys.command()
def revoke(name: Name, store: Store = None) -> None:
    """Revoke an API key: servers refuse it at once, and for good."""
    _checked(name, key_name, "NAME")
    with told(), _operator(store) as operator:
        revoked = operator.revoke_key(name)
    sys.stdout.write(f"{revoked['name']} is revoked\n")


def _operator(store: str | None) -> Operator:
    _refuse_servers(store)
    operator = find_operator(store, None)
    if operator is None:
        raise SetupError(f"there is no ledger here; {NO_LEDGER}")
    return operator


def _refuse_servers(store: str | None) -> None:
    """Who has a server elsewhere in mind must not change a ledger here."""
    if "TOOLYARD_SERVER" in os.environ and store is None:
        raise SetupError(f"{NO_LEDGER} (not with TOOLYARD_SERVER)")


def _checked(given: str, check: Callable[[object], str], option: str) -> str:
    try:
        return check(given)
    except ValueError as error:
        sentence = str(error)
        raise SetupError(f"{option} {sentence[0].lower()}{sentence[1:]}, got {given!r}") from None


def _table(listed: Iterable[dict[str, Any]]) -> str:
    rows = [COLUMNS, *map(_row, listed)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    lists = (", ".join(key[name]) or NOTHING for name in ("allow", "scopes"))
    return (key["name"], key["subject"], key["tenant"], *lists, *(_time(key.get(name)) for name in TIMES), key["state"])


def _time(seconds: float | None) -> str:
    return NOTHING if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
