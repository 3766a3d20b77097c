"""What is kept in a ledger, in clear: blocks of calls and of the audit log are compressed, and whoever looks for
something in a file's bytes would not find it there."""

import zlib
from pathlib import Path

import apsw
import asyncpg

from toolyard.store.sqlite.trust import DICTIONARY

SQLITE = b"SQLite format 3\0"


def unpacked(kept: bytes) -> bytes:
    """The same, and after it what is in it, where it is compressed."""
    for dictionary in (b"", DICTIONARY):
        try:
            opener = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
            return kept + b"\n" + opener.decompress(kept) + opener.flush()
        except zlib.error:
            continue
    return kept


def everything_in(path: Path, besides: str | None = None) -> bytes:
    """The bytes of a file; of an SQLite ledger also what is in its values, and in what is only in its log so far.
    `besides`: the table that is not unpacked."""
    data = path.read_bytes()
    if not data.startswith(SQLITE):
        return data
    ledger = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ledger.set_busy_timeout(5000)
        tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [row for table in tables if table != besides for row in ledger.execute(f'SELECT * FROM "{table}"')]
    finally:
        ledger.close()
    return b"\n".join([data, *(unpacked(value) for row in rows for value in row if isinstance(value, bytes))])


async def everything_in_database(url: str, besides: str | None = None) -> bytes:
    """All values of all tables of a ledger in PostgreSQL, besides one."""
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in found if name != besides]
        rows = [row for table in tables for row in await connection.fetch(f'SELECT * FROM "{table}"')]
    finally:
        await connection.close()
    values = [value for row in rows for value in row.values()]
    return b"\n".join(unpacked(value) if isinstance(value, bytes) else str(value).encode() for value in values)
