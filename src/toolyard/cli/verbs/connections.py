"""`toolyard connections`: users' accounts at providers, through the server that has the ledger, or in the
ledger itself."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ..support.ledger import WHERE, OperatedServer, operator_of
from ..support.refusals import told
from ..support.screen import complain, pretty, say
from ..support.tables import NOTHING, table
from ..support.target import Json

COLUMNS = ("PROVIDER", "USER", "TENANT", "ACCOUNT", "SCOPES", "SINCE")
NO_LEDGER = f"connections are in the ledger: {WHERE}"

User = Annotated[str | None, typer.Option(help="Only this user's.")]
Tenant = Annotated[str | None, typer.Option(help="Only of users in this house.")]
Store = Annotated[str | None, typer.Option(help="The ledger that has them (sqlite:toolyard.db).")]

connections = typer.Typer(rich_markup_mode=None, help="List and disconnect users' accounts at providers.")


@connections.callback(invoke_without_command=True)
def list_connections(
    context: typer.Context,
    user: User = None,
    tenant: Tenant = None,
    server: OperatedServer = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """List users' accounts at providers that are connected, or disconnect one.

    toolyard connections --user ada
    """
    if context.invoked_subcommand is not None:
        return
    with told(), operator_of(server, store, NO_LEDGER) as operator:
        listed = operator.connections(tenant=tenant, user=user)
        say(pretty(listed) if json else table(COLUMNS, map(_row, listed)))


@connections.command()
def disconnect(
    provider: Annotated[str, typer.Argument(help="The provider's id, such as google.")],
    user: Annotated[str, typer.Option(help="Whose account it is.")],
    tenant: Annotated[str | None, typer.Option(help="The user's house (default).")] = None,
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Forget a user's tokens at a provider, and have the provider take them back where it does that."""
    with told(), operator_of(server, store, NO_LEDGER) as operator:
        ended = operator.disconnect(provider, user, tenant)
        account = f" ({ended['account']})" if ended["account"] else ""
        say(f"{ended['user']}'s account at {ended['provider']}{account} is disconnected\n")
        if not ended["revoked"]:
            complain(f"{ended['provider']} did not take the tokens back; the user can do that in its settings\n")


def _row(connection: dict[str, Any]) -> tuple[str, ...]:
    since = datetime.fromtimestamp(connection["connectedAt"], UTC).strftime("%Y-%m-%d %H:%M")
    said = (connection[name] or NOTHING for name in ("provider", "user", "tenant", "account"))
    return (*said, ", ".join(connection["scopes"]) or NOTHING, since)
