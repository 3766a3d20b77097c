"""API keys in PostgreSQL's ledger. Two nodes that give one name at the same instant meet at the index of names: one of
them has it."""

from collections.abc import Sequence
from typing import Any

from ...model.api_key import ApiKey
from ..hints import Topic
from .connections import Connection
from .rows import SQL, Told, text


async def put(connection: Connection, again: bool, key: ApiKey, told: Told) -> bool:
    names = (text(key.tenant), text(key.subject), list(map(text, key.allow)), list(map(text, key.scopes)))
    async with connection.transaction():
        await connection.execute(SQL.free_key_name, text(key.name))
        await connection.execute(SQL.put_api_key, text(key.name), key.digest, *names, key.expires)
        is_there = await connection.fetchval(SQL.has_api_key, key.digest)
    told.add((Topic.KEYS, ""))
    return bool(is_there)


async def revoke(connection: Connection, again: bool, name: str, told: Told) -> bool:
    revoked = await connection.fetch(SQL.revoke_api_key, text(name))
    told.add((Topic.KEYS, ""))
    return bool(revoked) or again


def key_of(row: Sequence[Any]) -> ApiKey:
    name, digest, tenant, subject, allow, scopes, *times = row
    return ApiKey(name, digest, tenant, subject, tuple(allow), tuple(scopes), *times)
