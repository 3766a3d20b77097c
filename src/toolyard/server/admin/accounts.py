"""What whoever runs the server may do with users' accounts: list and disconnect them. Beside the other routes of
`/v1/admin`, and admitted like them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...model.errors import PathNotFound
from ...trust.audit.entry import AuditKind
from ...wires.admin import accounts as wire
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Route

if TYPE_CHECKING:
    from ...trust.requirements.accounts import Accounts


def routes(connections: "Callable[[], Accounts]") -> list[Route]:
    """`connections` loads what is seldom needed."""

    async def show_all(exchange: Exchange) -> Reply:
        return wire.encode_connections(
            await connections().listed(query.text(exchange, "tenant"), query.text(exchange, "user"))
        )

    async def disconnect(exchange: Exchange) -> Reply:
        unwanted = wire.decode_unwanted(exchange.body)
        ended = await connections().disconnect(unwanted.tenant, unwanted.user, unwanted.provider)
        if ended is None:
            raise PathNotFound(
                f"The user {unwanted.user} of the tenant {unwanted.tenant} has no account at {unwanted.provider} "
                "connected here"
            )
        connection, revoked = ended
        return wire.encode_disconnected(connection, revoked=revoked)

    end = f"{wire.PATH}/disconnect"
    return [
        Route("GET", wire.PATH, show_all, LIFECYCLE, who="operator"),
        Route("POST", end, disconnect, LIFECYCLE, reads_json=True, who="operator", audit_as=AuditKind.ADMIN),
    ]
