"""API keys, the audit log and sealed things in PostgreSQL's ledger."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ...model.api_key import ApiKey
from ...model.audit import AuditBlock, Chain, Mark
from ...model.sealed import Sealed
from ..hints import Topic
from . import api_keys, audit
from .connections import Connection, Pool
from .rows import SQL, Told, columns, text, text_or_none

T = TypeVar("T")


class KeptForTrust:
    """A part of the store, which says how it reads and writes."""

    _link: Pool
    _unflushed: Pool

    async def _write(self, work: Callable[..., Awaitable[T]]) -> T:
        raise NotImplementedError

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        raise NotImplementedError

    # -- API keys ----------------------------------------------------------------------------------

    async def put_key(self, key: ApiKey) -> bool:
        return await self._write(partial(api_keys.put, key=key))

    async def keys(self) -> list[ApiKey]:
        return [api_keys.key_of(row) for row in await self._fetch(SQL.api_keys)]

    async def revoke_key(self, name: str) -> bool:
        return await self._write(partial(api_keys.revoke, name=name))

    async def note_key_use(self, uses: Mapping[bytes, float]) -> None:
        if uses:
            values = columns(uses.items())
            await self._unflushed.write(lambda connection, _: connection.execute(SQL.note_key_uses, *values))

    # -- the audit log -----------------------------------------------------------------------------

    async def add_audit(self, block: AuditBlock, head: Mark) -> bool:
        return await self._link.write(partial(audit.add, block=block, head=head))

    async def audit_chains(self) -> list[Chain]:
        return await self._link.read(audit.chains)

    async def audit_chain(self, name: str) -> Chain:
        (chain,) = await self._link.read(partial(audit.chains, name=text(name)))
        return chain

    async def audit_blocks(self, chain: str, after: int, limit: int, since: float | None = None) -> list[AuditBlock]:
        return [AuditBlock(*row) for row in await self._fetch(SQL.audit_blocks, text(chain), after, limit, since)]

    async def drop_audit(self, anchor: Mark) -> int:
        return await self._link.write(partial(audit.drop, anchor=anchor))

    # -- sealed things -----------------------------------------------------------------------------

    async def put_sealed(self, thing: Sealed, instead_of: int | None = None) -> bool:
        return await self._write(partial(_put, thing=thing, instead_of=instead_of))

    async def sealed(self, kind: str, tenant: str, owner: str, name: str) -> Sealed | None:
        rows = await self._fetch(SQL.sealed, kind, text(tenant), text(owner), text(name))
        return Sealed(*rows[0]) if rows else None

    async def all_sealed(
        self, kind: str | None = None, tenant: str | None = None, owner: str | None = None
    ) -> list[Sealed]:
        rows = await self._fetch(SQL.sealed, kind, text_or_none(tenant), text_or_none(owner), None)
        return [Sealed(*row) for row in rows]

    async def drop_sealed(self, kind: str, tenant: str, owner: str, name: str) -> bool:
        return await self._link.write(partial(_drop, which=(kind, text(tenant), text(owner), text(name))))


async def _put(connection: Connection, again: bool, thing: Sealed, instead_of: int | None, told: Told) -> bool:
    """What is there is ours if a write of unknown fate may have put it there."""
    told.update({(Topic.KEPT, thing.kind)} if instead_of is None else ())
    which = (thing.kind, text(thing.tenant), text(thing.owner), text(thing.name))
    if await connection.fetch(SQL.put_sealed, *which, thing.data, thing.about, instead_of):
        return True
    rows = await connection.fetch(SQL.sealed, *which) if again else []
    return bool(rows) and Sealed(*rows[0]).data == thing.data


async def _drop(connection: Connection, again: bool, which: tuple[str, str, str, str]) -> bool:
    return bool(await connection.fetch(SQL.drop_sealed, *which)) or again
