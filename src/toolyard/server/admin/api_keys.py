"""API keys, for operators: make, list and revoke them.

A running server reads the keys again before a change is acknowledged: whoever is told that a key is revoked can rely on
its being refused.
"""

from ...model.api_key import ApiKey
from ...model.errors import InvalidInput, PathNotFound, Problem, Refused
from ...trust.audit.entry import AuditKind
from ...trust.credentials.api_keys import digest_of, make_api_key
from ...wires.admin import api_keys as wire
from ...wires.contract import Reply
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


async def list_keys(parts: OperatorParts, exchange: Exchange) -> Reply:
    """All keys, the oldest first, also those that are revoked or expired."""
    return wire.encode_keys(await parts.store.api_keys.listed(), parts.now())


async def make_key(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Makes a key and says it this once: the ledger keeps its digest alone."""
    wanted, now = wire.decode_wanted(exchange.body), parts.now()
    if wanted.expires is not None and wanted.expires <= now:
        raise InvalidInput((Problem("expiresAt", "Must be in the future"),))
    key = make_api_key()
    made = ApiKey(
        wanted.name,
        digest_of(key.encode()),
        wanted.tenant,
        wanted.subject,
        wanted.allow,
        wanted.scopes,
        created=now,
        expires=wanted.expires,
    )
    if not await parts.store.api_keys.put(made):
        raise Refused(f"There is a key named {wanted.name} already; revoke it, or choose another name", "conflict")
    await _changed(parts)
    return wire.encode_new_key(made, key, now)


async def revoke_key(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Revokes a key for good. Raises PathNotFound where no key of that name can be revoked."""
    name = exchange.parameters["name"]
    if not await parts.store.api_keys.revoke(name):
        raise PathNotFound(f"There is no key named {name} that could be revoked")
    await _changed(parts)
    # Several keys may have had this name, one after another; the newest is the one that was revoked now.
    revoked = next(key for key in reversed(await parts.store.api_keys.listed()) if key.name == name)
    return wire.encode_key(revoked, parts.now())


async def _changed(parts: OperatorParts) -> None:
    if parts.server is not None:
        await parts.server.sync_keys()


OPERATIONS = (
    Operation("GET", wire.PATH, list_keys),
    Operation("POST", wire.PATH, make_key, audit_as=AuditKind.ADMIN, reads_json=True),
    Operation("POST", wire.PATH + "/{name}/revoke", revoke_key, audit_as=AuditKind.ADMIN),
)
