"""The parts of PostgreSQL's ledger that the trust layer uses: the audit log, API keys, and sealed things.

Each is an object of its own, `store.audit`, `store.api_keys` and `store.sealed`, so that whoever needs one of them is
given that and not a whole ledger.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import astuple

from ...model.api_key import ApiKey
from ...model.audit import AuditBlock, Chain, Mark
from ...model.sealed import Sealed
from ..hints import Hints, Topic
from .connections import Connection, Pool
from .notifications import HintingPool
from .rows import SQL, PendingHints, columns, text, text_or_none


class PostgresAudit:
    """The audit log in PostgreSQL: each node writes a chain of its own, and any node drops what is old of all of them.
    Implements `contract.AuditStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, block: AuditBlock, head: Mark) -> bool:
        return await self._pool.write(partial(_add_block, block=block, head=head))

    async def chains(self) -> list[Chain]:
        return await self._pool.read(_chains)

    async def chain(self, name: str) -> Chain:
        (chain,) = await self._pool.read(partial(_chains, name=text(name)))
        return chain

    async def blocks(self, chain: str, after: int, limit: int, since: float | None = None) -> list[AuditBlock]:
        values = (text(chain), after, limit, since)
        rows = await self._pool.read(lambda connection: connection.fetch(SQL.audit_blocks, *values))
        return [AuditBlock(*row) for row in rows]

    async def drop(self, anchor: Mark) -> int:
        return await self._pool.write(partial(_drop_blocks, anchor=anchor))


async def _add_block(connection: Connection, again: bool, block: AuditBlock, head: Mark) -> bool:
    async with connection.transaction():
        if not await connection.fetch(SQL.add_audit, *astuple(block)):
            # There is a block of this number. It is this very block where its write was made before.
            return bool(await connection.fetchval(SQL.audit_mac, block.chain, block.number) == block.mac)
        await connection.execute(SQL.move_audit_head, *astuple(head))
    return True


async def _chains(connection: Connection, name: str | None = None) -> list[Chain]:
    """All of them, or the one of that name."""
    async with connection.transaction():
        heads = {row[0]: Mark(*row) for row in await connection.fetch(SQL.audit_heads, name)}
        anchors = {row[0]: Mark(*row) for row in await connection.fetch(SQL.audit_anchors, name)}
        names = {name} if name is not None else {row[0] for row in await connection.fetch(SQL.audit_names)}
    return [Chain(each, heads.get(each), anchors.get(each)) for each in sorted(names | heads.keys() | anchors.keys())]


async def _drop_blocks(connection: Connection, again: bool, anchor: Mark) -> int:
    """The anchor first: a block that is not behind one cannot be dropped."""
    async with connection.transaction():
        await connection.execute(SQL.move_audit_anchor, *astuple(anchor))
        return len(await connection.fetch(SQL.drop_audit, anchor.chain, anchor.number))


class PostgresApiKeys:
    """API keys in PostgreSQL. Two nodes that give one name at the same instant meet at the index of names: one of them
    has it. Implements `contract.ApiKeyStore`."""

    def __init__(self, pool: HintingPool, unflushed: Pool, hints: Hints) -> None:
        self._pool, self._unflushed, self.hints = pool, unflushed, hints

    async def put(self, key: ApiKey) -> bool:
        return await self._pool.write(partial(_put_key, key=key))

    async def listed(self) -> list[ApiKey]:
        return [_api_key(row) for row in await self._pool.fetch(SQL.api_keys)]

    async def revoke(self, name: str) -> bool:
        return await self._pool.write(partial(_revoke_key, name=name))

    async def note_use(self, uses: Mapping[bytes, float]) -> None:
        if uses:
            values = columns(uses.items())
            await self._unflushed.write(lambda connection, _: connection.execute(SQL.note_key_uses, *values))


async def _put_key(connection: Connection, again: bool, key: ApiKey, told: PendingHints) -> bool:
    names = (text(key.tenant), text(key.subject), list(map(text, key.allow)), list(map(text, key.scopes)))
    async with connection.transaction():
        await connection.execute(SQL.free_key_name, text(key.name))
        await connection.execute(SQL.put_api_key, text(key.name), key.digest, *names, key.expires)
        is_there = await connection.fetchval(SQL.has_api_key, key.digest)
    told.add((Topic.KEYS, ""))
    return bool(is_there)


async def _revoke_key(connection: Connection, again: bool, name: str, told: PendingHints) -> bool:
    revoked = await connection.fetch(SQL.revoke_api_key, text(name))
    told.add((Topic.KEYS, ""))
    return bool(revoked) or again


def _api_key(row: Sequence[Any]) -> ApiKey:
    name, digest, tenant, subject, allow, scopes, *times = row
    return ApiKey(name, digest, tenant, subject, tuple(allow), tuple(scopes), *times)


class PostgresSealed:
    """Sealed things in PostgreSQL. Implements `contract.SealedStore`."""

    def __init__(self, pool: HintingPool) -> None:
        self._pool = pool

    async def put(self, thing: Sealed, instead_of: int | None = None) -> bool:
        return await self._pool.write(partial(_put_sealed, thing=thing, instead_of=instead_of))

    async def get(self, kind: str, tenant: str, owner: str, name: str) -> Sealed | None:
        rows = await self._pool.fetch(SQL.sealed, kind, text(tenant), text(owner), text(name))
        return Sealed(*rows[0]) if rows else None

    async def listed(
        self, kind: str | None = None, tenant: str | None = None, owner: str | None = None
    ) -> list[Sealed]:
        rows = await self._pool.fetch(SQL.sealed, kind, text_or_none(tenant), text_or_none(owner), None)
        return [Sealed(*row) for row in rows]

    async def drop(self, kind: str, tenant: str, owner: str, name: str) -> bool:
        return await self._pool.write(partial(_drop_sealed, which=(kind, text(tenant), text(owner), text(name))))


async def _put_sealed(
    connection: Connection, again: bool, thing: Sealed, instead_of: int | None, told: PendingHints
) -> bool:
    """What is there is ours if a write of unknown fate may have put it there."""
    if instead_of is None:  # a version in the place of another is the same thing, refreshed: no news
        told.add((Topic.KEPT, thing.kind))
    which = (thing.kind, text(thing.tenant), text(thing.owner), text(thing.name))
    if await connection.fetch(SQL.put_sealed, *which, thing.data, thing.about, instead_of):
        return True
    rows = await connection.fetch(SQL.sealed, *which) if again else []
    return bool(rows) and Sealed(*rows[0]).data == thing.data


async def _drop_sealed(
    connection: Connection, again: bool, which: tuple[str, str, str, str], told: PendingHints
) -> bool:
    return bool(await connection.fetch(SQL.drop_sealed, *which)) or again
