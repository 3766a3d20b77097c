"""The operator's words about users' accounts, in both directions. No token is among them."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from ...model.caller import LOCAL
from ...model.sealed import Account
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import ID, parse

PATH = "/v1/admin/connections"


class Unwanted(Struct, frozen=True):
    """A connection that is to be ended."""

    provider: str
    user: str
    tenant: str


# -- what the server says and hears ----------------------------------------------------------------


def decode_unwanted(body: bytes) -> Unwanted:
    """Without a tenant, the usual one."""
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


# -- what a client asks ----------------------------------------------------------------------------


def encode_list(tenant: str | None = None, user: str | None = None) -> Request:
    """For all accounts, or those of one tenant or user."""
    wanted = {"tenant": tenant, "user": user}
    given = {name: value for name, value in wanted.items() if value is not None}
    return Request("GET", PATH, query=urlencode(given).encode())


def encode_disconnect(provider: str, user: str, tenant: str | None = None) -> Request:
    members = {"provider": provider, "user": user} | ({} if tenant is None else {"tenant": tenant})
    return Request("POST", f"{PATH}/disconnect", dict([JSON]), encode(members))
