"""The parts of SQLite's ledger that the trust layer uses: the audit log, API keys, and sealed things.

Each is an object of its own, `store.audit`, `store.api_keys` and `store.sealed`, so that whoever needs one of them is
given that and not a whole ledger. They share the store's one writer, and so its transactions and its hints.
"""

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import apsw
import msgspec
from msgspec.structs import asdict, astuple, replace

from ...model.api_key import ApiKey
from ...model.audit import AuditBlock, Chain, Mark
from ...model.json_value import decoder
from ...model.sealed import Sealed
from ..hints import Hints, Topic
from .rows import SQL, PendingHints, encode, first
from .writer import HintingWriter

PLAIN, COMPRESSED, BY_DICTIONARY = 0, 1, 2
"""How the entries of a block of the audit log are kept. What is written now is the last; the others were before it."""
DICTIONARY = (
    b'"reason":""asked_by":""by":""n":"request":""trace":""rule":""user":""key":"kind":"refused"kind":"auth"how":"token"'
    b'"how":"key""code":"NotAuthenticated""wire":"otc""wire":"lifecycle""wire":"mcp","tool":{"at":17,"kind":"call",'
    b'"tenant":"default","sub":"local","how":"none","from":"127.0.0.1","wire":"oxp","tool":"@1.0.0","call":"call_","fp":"'
    b'","code":"success","ms":0.0}'
)
"""What entries have in common, for zlib to begin with: a quiet server's blocks have one entry each, in which nothing
is there twice. It is part of the format, so it never changes: other words would be another format."""
_texts = decoder(tuple[str, ...])


class SqliteAudit:
    """The audit log in SQLite. Implements `contract.AuditStore`."""

    def __init__(self, writer: HintingWriter) -> None:
        self._writer = writer

    async def add(self, block: AuditBlock, head: Mark) -> bool:
        def write(cursor: apsw.Cursor) -> bool:
            if not cursor.execute(SQL.add_audit, _packed(block)).fetchall():
                # There is a block of this number. It is this very block where its write was made before.
                return bool(first(cursor, SQL.audit_mac, (block.chain, block.number)) == block.mac)
            cursor.execute(SQL.move_audit_head, astuple(head))
            return True

        return await self._writer.write(write)

    async def chains(self) -> list[Chain]:
        return await self._writer.write(_chains)

    async def chain(self, name: str) -> Chain:
        def read(cursor: apsw.Cursor) -> Chain:
            found = [cursor.execute(sql, (name,)).fetchone() for sql in (SQL.audit_head, SQL.audit_anchor)]
            head, anchor = [Mark(*row) if row else None for row in found]
            return Chain(name, head, anchor)

        return await self._writer.write(read)

    async def blocks(self, chain: str, after: int, limit: int, since: float | None = None) -> list[AuditBlock]:
        values = {"chain": chain, "after": after, "limit": limit, "since": since}
        return await self._writer.write(
            lambda cursor: [_unpacked(*row) for row in cursor.execute(SQL.audit_blocks, values)]
        )

    async def drop(self, anchor: Mark) -> int:
        def write(cursor: apsw.Cursor) -> int:
            cursor.execute(SQL.move_audit_anchor, astuple(anchor))  # first: no block goes that is not behind an anchor
            return len(cursor.execute(SQL.drop_audit, (anchor.chain, anchor.number)).fetchall())

        return await self._writer.write(write)


def _packed(block: AuditBlock) -> dict[str, Any]:
    """As a row. Entries are much alike, and take a fifth of their length when they are compressed; their signature is
    over the lines as they were."""
    packer = zlib.compressobj(1, zdict=DICTIONARY)
    entries = packer.compress(block.entries) + packer.flush()
    return {**asdict(block), "entries": entries, "format": BY_DICTIONARY}


def _unpacked(*row: Any) -> AuditBlock:
    """A block that cannot be opened was tampered with. It is read as an empty one, which its signature does not fit."""
    block, entries = AuditBlock(*row[:-1]), b""
    if row[-1] == PLAIN:
        return block
    with suppress(zlib.error):
        unpacker = zlib.decompressobj(zdict=DICTIONARY) if row[-1] == BY_DICTIONARY else zlib.decompressobj()
        entries = unpacker.decompress(block.entries) + unpacker.flush()
    return replace(block, entries=entries)


def _chains(cursor: apsw.Cursor) -> list[Chain]:
    heads = {row[0]: Mark(*row) for row in cursor.execute(SQL.audit_heads)}
    anchors = {row[0]: Mark(*row) for row in cursor.execute(SQL.audit_anchors)}
    names = {name for (name,) in cursor.execute(SQL.audit_names)}
    return [Chain(name, heads.get(name), anchors.get(name)) for name in sorted(names | heads.keys() | anchors.keys())]


class SqliteApiKeys:
    """API keys in SQLite. Implements `contract.ApiKeyStore`."""

    def __init__(self, writer: HintingWriter, hints: Hints, now: Callable[[], float]) -> None:
        self._writer, self.hints, self._now = writer, hints, now

    async def put(self, key: ApiKey) -> bool:
        def write(cursor: apsw.Cursor, told: PendingHints) -> bool:
            now, lists = self._now(), (encode(key.allow), encode(key.scopes))
            cursor.execute(SQL.free_key_name, (key.name, now))
            cursor.execute(SQL.put_api_key, (key.name, key.digest, key.tenant, key.subject, *lists, now, key.expires))
            told.add((Topic.KEYS, ""))
            return first(cursor, SQL.has_api_key, (key.digest,)) is not None

        return await self._writer.change(write)

    async def listed(self) -> list[ApiKey]:
        return await self._writer.write(lambda cursor: [_api_key(row) for row in cursor.execute(SQL.api_keys)])

    async def revoke(self, name: str) -> bool:
        def write(cursor: apsw.Cursor, told: PendingHints) -> bool:
            told.add((Topic.KEYS, ""))
            return bool(cursor.execute(SQL.revoke_api_key, (self._now(), name)).fetchall())

        return await self._writer.change(write)

    async def note_use(self, uses: Mapping[bytes, float]) -> None:
        values = [{"digest": digest, "used": used} for digest, used in uses.items()]
        await self._writer.write(lambda cursor: cursor.executemany(SQL.note_key_use, values))


def _api_key(row: tuple[Any, ...]) -> ApiKey:
    """A key that cannot be read lets nobody in, as if it were revoked. It is there all the same: where there ever was a
    key, nobody is let in without one."""
    name, digest, tenant, subject, allow, scopes, created, expires, revoked, used = row
    try:
        return ApiKey(name, digest, tenant, subject, _texts(allow), _texts(scopes), created, expires, revoked, used)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        revoked = created if revoked is None else revoked
        return ApiKey(name, digest, tenant, subject, (), (), created, expires, revoked, used, is_readable=False)


class SqliteSealed:
    """Sealed things in SQLite. Implements `contract.SealedStore`."""

    def __init__(self, writer: HintingWriter, now: Callable[[], float]) -> None:
        self._writer, self._now = writer, now

    async def put(self, thing: Sealed, instead_of: int | None = None) -> bool:
        def write(cursor: apsw.Cursor, told: PendingHints) -> bool:
            values = {
                "kind": thing.kind, "tenant": thing.tenant, "owner": thing.owner, "name": thing.name,
                "data": thing.data, "about": thing.about, "now": self._now(), "instead_of": instead_of,
            }  # fmt: skip
            if instead_of is None:  # a version in the place of another is the same thing, refreshed: no news
                told.add((Topic.KEPT, thing.kind))
            return bool(cursor.execute(SQL.put_sealed, values).fetchall())

        return await self._writer.change(write)

    async def get(self, kind: str, tenant: str, owner: str, name: str) -> Sealed | None:
        found = await self._found({"kind": kind, "tenant": tenant, "owner": owner, "name": name})
        return found[0] if found else None

    async def listed(
        self, kind: str | None = None, tenant: str | None = None, owner: str | None = None
    ) -> list[Sealed]:
        return await self._found({"kind": kind, "tenant": tenant, "owner": owner})

    async def drop(self, kind: str, tenant: str, owner: str, name: str) -> bool:
        values = (kind, tenant, owner, name)
        return await self._writer.write(lambda cursor: first(cursor, SQL.drop_sealed, values)) is not None

    async def _found(self, wanted: dict[str, Any]) -> list[Sealed]:
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "true"
        sql, values = f"{SQL.sealed} WHERE {where} ORDER BY tenant, owner, name", tuple(given.values())
        return await self._writer.write(lambda cursor: [Sealed(*row) for row in cursor.execute(sql, values)])
