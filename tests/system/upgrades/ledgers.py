"""Ledgers as programs before this one left them: for each store and each number of its migrations the rows, as SQL.

The first line of a file says which migration was the last, its digest (a migration that a ledger has behind it never
changes) and what is in the ledger. The schema is made by the migrations themselves.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg
from msgspec import Struct
from msgspec import json as wire

from toolyard.store.sql_files import Migration, migrations

FOLDER = Path(__file__).with_name("ledgers")
STORES = ("sqlite", "postgres")
NO_ROWS = {"ledger_schema", "sqlite_sequence"}
"""What migrating fills."""
TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename",
}
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0 AND NOT attisdropped"

IN_SQLITE, IN_POSTGRES = (
    re.compile(r"X'((?:..)*?)((?:78){999,})(.*)'").fullmatch,
    re.compile(r"E?'\\+x((?:..)*?)((?:78){999,})(.*)'").fullmatch,
)


class About(Struct, forbid_unknown_fields=True):
    """What a ledger is, and what whoever wrote it left in it."""

    store: str
    number: int
    migration: str
    holds: list[str]
    api_key: str | None = None
    revoked_key: str | None = None
    session: str | None = None


class Kept(Struct):
    """One of the files."""

    about: About
    rows: str


def kept(path: Path) -> Kept:
    head, _, rows = path.read_text(encoding="utf-8").partition("\n")
    return Kept(wire.decode(head.removeprefix("-- "), type=About), rows)


def keep(about: About, rows: Sequence[str]) -> Path:
    path = FOLDER / f"{about.store}-{about.number:03}.sql"
    head = "-- " + json.dumps({name: value for name, value in wire.decode(wire.encode(about)).items() if value})
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    return path


def digest(migration: Migration) -> str:
    return hashlib.sha256(migration.sql.encode()).hexdigest()[:16]


def passed(about: About) -> list[Migration]:
    """The migrations that a ledger has behind it."""
    return [migration for migration in migrations(about.store) if migration.number <= about.number]


# --- SQLite ---------------------------------------------------------------------------------------


def load_sqlite(ledger: Kept, path: Path) -> None:
    """Makes the file as it was then. Triggers rest: what they counted is among the rows."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    for migration in passed(ledger.about):
        connection.execute(migration.sql)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    with connection:
        if ledger.about.number >= 7:
            connection.execute("DELETE FROM numbers")
        connection.execute(ledger.rows)
    connection.execute(f"PRAGMA user_version = {ledger.about.number:d}")
    connection.close()


def dump_sqlite(path: Path) -> tuple[int, list[str]]:
    """The number of its schema, and its rows."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    ((number,),) = connection.execute("PRAGMA user_version")
    rows = []
    for (table,) in list(connection.execute(TABLES["sqlite"])):
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        quoted = ", ".join(f"quote({name})" for name in columns)
        rows += [_insert(table, columns, row) for row in connection.execute(f"SELECT {quoted} FROM {table}")]
    connection.close()
    return int(number), rows


# --- PostgreSQL -----------------------------------------------------------------------------------


async def load_postgres(ledger: Kept, url: str) -> None:
    """Makes the schema in a database that has none, and the rows."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE ledger_schema (version integer PRIMARY KEY)")
        for migration in passed(ledger.about):
            await connection.execute(migration.sql)
            await connection.execute("INSERT INTO ledger_schema VALUES ($1)", migration.number)
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(ledger.rows)
    finally:
        await connection.close()


async def dump_postgres(url: str) -> tuple[int, list[str]]:
    connection = await asyncpg.connect(url)
    try:
        number = await connection.fetchval("SELECT max(version) FROM ledger_schema")
        rows = []
        for (table,) in await connection.fetch(TABLES["postgres"]):
            columns = [name for (name,) in await connection.fetch(COLUMNS.format(table))]
            quoted = ", ".join(f"quote_nullable({name}::text)" for name in columns)
            found = await connection.fetch(f"SELECT {quoted} FROM {table}")
            rows += [_insert(table, columns, row) for row in found]
        used = await connection.fetchval("SELECT last_value FROM calls_seq")
    finally:
        await connection.close()
    return int(number), [*rows, f"SELECT setval('calls_seq', {used});"]


def _insert(table: str, columns: Sequence[str], row: Any) -> str:
    if table in NO_ROWS:
        return ""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(map(_short, row))});"


def _short(value: str) -> str:
    """A long string of one letter, told instead of written out."""
    if found := IN_SQLITE(value):
        head, tail = (bytes.fromhex(found[part]).decode() for part in (1, 3))
        return f"CAST('{head}' || printf('%.{len(found[2]) // 2}c', 'x') || '{tail}' AS BLOB)"
    if found := IN_POSTGRES(value):
        head, tail = (bytes.fromhex(found[part]).decode() for part in (1, 3))
        return f"convert_to('{head}' || repeat('x', {len(found[2]) // 2}) || '{tail}', 'UTF8')"
    return value
