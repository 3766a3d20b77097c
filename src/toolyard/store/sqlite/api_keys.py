"""API keys in SQLite's ledger. Nothing here commits or awaits."""

from typing import Any

import apsw
import msgspec

from ...model.api_key import ApiKey
from ...model.json_value import decoder
from ..hints import Topic
from .rows import SQL, PendingHints, encode, first

_texts = decoder(tuple[str, ...])


def put(cursor: apsw.Cursor, told: PendingHints, key: ApiKey, now: float) -> bool:
    cursor.execute(SQL.free_key_name, (key.name, now))
    given = (key.name, key.digest, key.tenant, key.subject, encode(key.allow), encode(key.scopes), now, key.expires)
    cursor.execute(SQL.put_api_key, given)
    told.add((Topic.KEYS, ""))
    return first(cursor, SQL.has_api_key, (key.digest,)) is not None


def listed(cursor: apsw.Cursor) -> list[ApiKey]:
    return [_made(row) for row in cursor.execute(SQL.api_keys)]


def revoke(cursor: apsw.Cursor, told: PendingHints, name: str, now: float) -> bool:
    told.add((Topic.KEYS, ""))
    return bool(cursor.execute(SQL.revoke_api_key, (now, name)).fetchall())


def _made(row: tuple[Any, ...]) -> ApiKey:
    """A key that cannot be read lets nobody in, as if it were revoked. It is there all the same: where there ever was a
    key, nobody is let in without one."""
    name, digest, tenant, subject, allow, scopes, created, expires, revoked, used = row
    try:
        return ApiKey(name, digest, tenant, subject, _texts(allow), _texts(scopes), created, expires, revoked, used)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        revoked = created if revoked is None else revoked
        return ApiKey(name, digest, tenant, subject, (), (), created, expires, revoked, used, is_readable=False)
