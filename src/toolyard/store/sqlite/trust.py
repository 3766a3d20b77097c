"""API keys, the audit log and sealed things in SQLite's ledger."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import apsw

from ...model.api_key import ApiKey
from ...model.audit import AuditBlock, Chain, Mark
from ...model.sealed import Sealed
from ..hints import Topic
from . import api_keys, audit
from .rows import SQL, PendingHints, first

T = TypeVar("T")


class KeptForTrust:
    """A part of the store, which says how it writes."""

    _now: Callable[[], float]

    async def _change(self, write: Callable[[apsw.Cursor, PendingHints], T]) -> T:
        raise NotImplementedError

    async def _write(self, write: Callable[[apsw.Cursor], T]) -> T:
        raise NotImplementedError

    # -- API keys ----------------------------------------------------------------------------------

    async def put_key(self, key: ApiKey) -> bool:
        return await self._change(lambda cursor, told: api_keys.put(cursor, told, key, self._now()))

    async def keys(self) -> list[ApiKey]:
        return await self._write(api_keys.listed)

    async def revoke_key(self, name: str) -> bool:
        return await self._change(lambda cursor, told: api_keys.revoke(cursor, told, name, self._now()))

    async def note_key_use(self, uses: Mapping[bytes, float]) -> None:
        values = [{"digest": digest, "used": used} for digest, used in uses.items()]
        await self._write(lambda cursor: cursor.executemany(SQL.note_key_use, values))

    # -- the audit log -----------------------------------------------------------------------------

    async def add_audit(self, block: AuditBlock, head: Mark) -> bool:
        return await self._write(lambda cursor: audit.add(cursor, block, head))

    async def audit_chains(self) -> list[Chain]:
        return await self._write(audit.chains)

    async def audit_chain(self, name: str) -> Chain:
        return await self._write(lambda cursor: audit.chain(cursor, name))

    async def audit_blocks(self, chain: str, after: int, limit: int, since: float | None = None) -> list[AuditBlock]:
        return await self._write(lambda cursor: audit.blocks(cursor, chain, after, limit, since))

    async def drop_audit(self, anchor: Mark) -> int:
        return await self._write(lambda cursor: audit.drop(cursor, anchor))

    # -- sealed things -----------------------------------------------------------------------------

    async def put_sealed(self, thing: Sealed, instead_of: int | None = None) -> bool:
        values = {
            "kind": thing.kind, "tenant": thing.tenant, "owner": thing.owner, "name": thing.name,
            "data": thing.data, "about": thing.about, "now": self._now(), "instead_of": instead_of,
        }  # fmt: skip

        def write(cursor: apsw.Cursor, told: PendingHints) -> bool:
            told.update({(Topic.KEPT, thing.kind)} if instead_of is None else ())
            return bool(cursor.execute(SQL.put_sealed, values).fetchall())

        return await self._change(write)

    async def sealed(self, kind: str, tenant: str, owner: str, name: str) -> Sealed | None:
        found = await self._sealed({"kind": kind, "tenant": tenant, "owner": owner, "name": name})
        return found[0] if found else None

    async def all_sealed(
        self, kind: str | None = None, tenant: str | None = None, owner: str | None = None
    ) -> list[Sealed]:
        return await self._sealed({"kind": kind, "tenant": tenant, "owner": owner})

    async def drop_sealed(self, kind: str, tenant: str, owner: str, name: str) -> bool:
        values = (kind, tenant, owner, name)
        return await self._write(lambda cursor: first(cursor, SQL.drop_sealed, values)) is not None

    async def _sealed(self, wanted: dict[str, Any]) -> list[Sealed]:
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "true"
        sql, values = f"{SQL.sealed} WHERE {where} ORDER BY tenant, owner, name", tuple(given.values())
        return await self._write(lambda cursor: [Sealed(*row) for row in cursor.execute(sql, values)])
