"""API keys, as operators make, list and revoke them, in both directions. The key itself is sent once, in the reply to
the request that makes it."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ...model.api_key import ApiKey, key_name, key_scope
from ...model.caller import LOCAL
from ...model.patterns import tool_pattern
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import ID, number_from, parse

PATH = "/v1/admin/keys"
MOST_ENTRIES = 100
LATEST = 253_402_300_799.0
"""The last second of the year 9999: what comes after it no calendar here can show."""


class WantedKey(Struct, frozen=True):
    """The API key that an operator wants to have made."""

    name: str
    tenant: str
    subject: str
    allow: tuple[str, ...]
    scopes: tuple[str, ...]
    expires: float | None


# -- the server's side -----------------------------------------------------------------------------


def decode_wanted(body: bytes) -> WantedKey:
    """The key to make. Without a subject, its subject is the key's name; without a tenant, the default one."""
    members = parse(body)
    name = members.one("name", key_name)
    wanted = WantedKey(
        name,
        members.maybe("tenant", ID, LOCAL.tenant),
        members.maybe("subject", ID, name),
        tuple(members.each("allow", tool_pattern, most=MOST_ENTRIES)) if "allow" in members else (),
        tuple(members.each("scopes", key_scope, most=MOST_ENTRIES)) if "scopes" in members else (),
        members.maybe("expiresAt", number_from(0, LATEST), None),
    )
    members.done()
    return wanted


def encode_key(key: ApiKey, now: float) -> Reply:
    return Reply(200, encode(_key(key, now)), [JSON])


def encode_new_key(key: ApiKey, itself: str, now: float) -> Reply:
    return Reply(200, encode({"key": itself, **_key(key, now)}), [JSON])


def encode_keys(keys: Sequence[ApiKey], now: float) -> Reply:
    return Reply(200, encode({"keys": [_key(key, now) for key in keys]}), [JSON])


def _key(key: ApiKey, now: float) -> dict[str, Any]:
    """All of a key but its digest, which no client needs."""
    times = {
        "createdAt": key.created,
        "expiresAt": key.expires,
        "revokedAt": key.revoked,
        "lastUsedAt": key.last_used,
    }
    return {
        "name": key.name,
        "subject": key.subject,
        "tenant": key.tenant,
        "allow": key.allow,
        "scopes": key.scopes,
        "state": key.state(now),
    } | {name: time for name, time in times.items() if time is not None}


# -- a client's side -------------------------------------------------------------------------------


def encode_new(wanted: Mapping[str, Any]) -> Request:
    """Has a key made. Members that are None are left to the server."""
    given = {name: value for name, value in wanted.items() if value is not None}
    return Request("POST", PATH, dict([JSON]), encode(given))


def encode_list() -> Request:
    return Request("GET", PATH)


def encode_revoke(name: str) -> Request:
    return Request("POST", f"{PATH}/{quote(name, safe='')}/revoke")
