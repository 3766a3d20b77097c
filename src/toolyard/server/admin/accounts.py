"""Users' accounts at providers, for operators: list them, and disconnect one.

`Accounts` in `trust/requirements` does both; a user who connects an account comes through `server/accounts` instead.
"""

from ...model.errors import PathNotFound
from ...trust.audit.entry import AuditKind
from ...wires.admin import accounts as wire
from ...wires.contract import Reply
from ..http import query
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


async def list_accounts(parts: OperatorParts, exchange: Exchange) -> Reply:
    """All of them, or those of one tenant or user."""
    tenant, user = query.text(exchange, "tenant"), query.text(exchange, "user")
    return wire.encode_connections(await parts.accounts().listed(tenant, user))


async def disconnect(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Forgets the tokens of one account. Raises PathNotFound where there is no such account."""
    unwanted = wire.decode_unwanted(exchange.body)
    ended = await parts.accounts().disconnect(unwanted.tenant, unwanted.user, unwanted.provider)
    if ended is None:
        raise PathNotFound(
            f"The user {unwanted.user} of the tenant {unwanted.tenant} has no account at {unwanted.provider} "
            "connected here"
        )
    account, revoked = ended
    return wire.encode_disconnected(account, revoked=revoked)


OPERATIONS = (
    Operation("GET", wire.PATH, list_accounts),
    Operation("POST", f"{wire.PATH}/disconnect", disconnect, audit_as=AuditKind.ADMIN, reads_json=True),
)
