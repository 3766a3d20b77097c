"""The audit log in PostgreSQL's ledger: each node writes a chain of its own, and any node drops what is old of all."""

from msgspec.structs import astuple

from ...model.audit import AuditBlock, Chain, Mark
from .connections import Connection
from .rows import SQL


async def add(connection: Connection, again: bool, block: AuditBlock, head: Mark) -> bool:
    async with connection.transaction():
        if not await connection.fetch(SQL.add_audit, *astuple(block)):
            return bool(await connection.fetchval(SQL.audit_mac, block.chain, block.number) == block.mac)
        await connection.execute(SQL.move_audit_head, *astuple(head))
    return True


async def chains(connection: Connection, name: str | None = None) -> list[Chain]:
    """All of them, or the one of that name."""
    async with connection.transaction():
        heads = {row[0]: Mark(*row) for row in await connection.fetch(SQL.audit_heads, name)}
        anchors = {row[0]: Mark(*row) for row in await connection.fetch(SQL.audit_anchors, name)}
        names = {name} if name is not None else {row[0] for row in await connection.fetch(SQL.audit_names)}
    return [Chain(each, heads.get(each), anchors.get(each)) for each in sorted(names | heads.keys() | anchors.keys())]


async def drop(connection: Connection, again: bool, anchor: Mark) -> int:
    """The anchor first: a block that is not behind one cannot be dropped."""
    async with connection.transaction():
        await connection.execute(SQL.move_audit_anchor, *astuple(anchor))
        return len(await connection.fetch(SQL.drop_audit, anchor.chain, anchor.number))
