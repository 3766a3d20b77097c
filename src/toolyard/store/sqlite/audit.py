"""The audit log in SQLite's ledger. Nothing here commits or awaits."""

import apsw
from msgspec.structs import asdict, astuple

from ...model.audit import AuditBlock, Chain, Mark
from .rows import SQL, first


def add(cursor: apsw.Cursor, block: AuditBlock, head: Mark) -> bool:
    if not cursor.execute(SQL.add_audit, asdict(block)).fetchall():
        return bool(first(cursor, SQL.audit_mac, (block.chain, block.number)) == block.mac)
    cursor.execute(SQL.move_audit_head, astuple(head))
    return True


def chains(cursor: apsw.Cursor) -> list[Chain]:
    heads = {row[0]: Mark(*row) for row in cursor.execute(SQL.audit_heads)}
    anchors = {row[0]: Mark(*row) for row in cursor.execute(SQL.audit_anchors)}
    names = {name for (name,) in cursor.execute(SQL.audit_names)}
    return [Chain(name, heads.get(name), anchors.get(name)) for name in sorted(names | heads.keys() | anchors.keys())]


def chain(cursor: apsw.Cursor, name: str) -> Chain:
    found = [cursor.execute(sql, (name,)).fetchone() for sql in (SQL.audit_head, SQL.audit_anchor)]
    head, anchor = [Mark(*row) if row else None for row in found]
    return Chain(name, head, anchor)


def blocks(cursor: apsw.Cursor, chain: str, after: int, limit: int, since: float | None) -> list[AuditBlock]:
    values = {"chain": chain, "after": after, "limit": limit, "since": since}
    return [AuditBlock(*row) for row in cursor.execute(SQL.audit_blocks, values)]


def drop(cursor: apsw.Cursor, anchor: Mark) -> int:
    """The anchor first: a block that is not behind one cannot be dropped."""
    cursor.execute(SQL.move_audit_anchor, astuple(anchor))
    return len(cursor.execute(SQL.drop_audit, (anchor.chain, anchor.number)).fetchall())
