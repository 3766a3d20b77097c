"""`toolyard connections`: an operator lists users' accounts at providers, and disconnects one."""

from typing import Annotated, Any

import typer

from ...wires.admin import accounts as wire
from ..support.ledger import WHERE, OperatedServer, operator_of
from ..support.screen import NOTHING, complain, complaints, pretty, say, shown_time, table
from ..support.target import Json

COLUMNS = ("PROVIDER", "USER", "TENANT", "ACCOUNT", "SCOPES", "SINCE")
NO_LEDGER = f"connections are in the ledger: {WHERE}"

User = Annotated[str | None, typer.Option(help="Only this user's.")]
Tenant = Annotated[str | None, typer.Option(help="Only of users of this tenant.")]
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
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        listed = operator.ask(wire.encode_list(tenant, user))["connections"]
        say(pretty(listed) if json else table(COLUMNS, map(_row, listed)))


@connections.command()
def disconnect(
    provider: Annotated[str, typer.Argument(help="The provider's id, such as google.")],
    user: Annotated[str, typer.Option(help="Whose account it is.")],
    tenant: Annotated[str | None, typer.Option(help="The user's tenant (default).")] = None,
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Forget a user's tokens at a provider.

    The provider is asked to take them back, where it does that.
    """
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        ended = operator.ask(wire.encode_disconnect(provider, user, tenant))
        account = f" ({ended['account']})" if ended["account"] else ""
        say(f"{ended['user']}'s account at {ended['provider']}{account} is disconnected\n")
        if not ended["revoked"]:
            complain(f"{ended['provider']} did not take the tokens back; the user can do that in its settings\n")


def _row(connection: dict[str, Any]) -> tuple[str, ...]:
    whose = (connection[name] or NOTHING for name in ("provider", "user", "tenant", "account"))
    return (*whose, ", ".join(connection["scopes"]) or NOTHING, shown_time(connection["connectedAt"]))
