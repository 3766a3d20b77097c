"""Users' accounts at providers, as operators list and disconnect them, in both directions. No token is ever sent.

The API calls an account a connection.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ...model.caller import LOCAL
from ...model.sealed import Account
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import ID, parse
from ..lifecycle.calls import query_of

PATH = "/v1/admin/connections"


class Unwanted(Struct, frozen=True):
    """The account that an operator wants disconnected."""

    provider: str
    user: str
    tenant: str


# -- the server's side -----------------------------------------------------------------------------


def decode_unwanted(body: bytes) -> Unwanted:
    """Which account to disconnect. Without a tenant, the default one is meant."""
    members = parse(body)
    unwanted = Unwanted(members.one("provider", ID), members.one("user", ID), members.maybe("tenant", ID, LOCAL.tenant))
    members.done()
    return unwanted


def encode_connections(connections: Sequence[Account]) -> Reply:
    return Reply(200, encode({"connections": [_connection(each) for each in connections]}), [JSON])


def encode_disconnected(connection: Account, *, revoked: bool) -> Reply:
    return Reply(200, encode({**_connection(connection), "revoked": revoked}), [JSON])


def _connection(connection: Account) -> dict[str, Any]:
    return {
        "provider": connection.provider,
        "user": connection.user,
        "tenant": connection.tenant,
        "account": connection.account,
        "scopes": connection.scopes,
        "connectedAt": connection.since,
    }


# -- a client's side -------------------------------------------------------------------------------


def encode_list(tenant: str | None = None, user: str | None = None) -> Request:
    """Lists all accounts, or those of one tenant or user."""
    return Request("GET", PATH, query=query_of({"tenant": tenant, "user": user}))


def encode_disconnect(provider: str, user: str, tenant: str | None = None) -> Request:
    members = {"provider": provider, "user": user} | ({} if tenant is None else {"tenant": tenant})
    return Request("POST", f"{PATH}/disconnect", dict([JSON]), encode(members))
