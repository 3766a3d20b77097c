"""A SQLite ledger, inspected beside whoever writes to it."""

from pathlib import Path
from typing import Any

import apsw

from ...model.audit import Mark
from ..inspection import Inspection
from ..sql_files import migrations
from .copies import newest, reading

VERSION = f"SQLite {apsw.sqlite_lib_version()}"
WORST = 3
"""How many damaged places are named."""


def inspect(path: Path) -> Inspection:
    """Raises SetupError where it cannot be read, or is a part of a ledger."""
    known = migrations("sqlite")[-1].number
    with reading(path) as connection:
        (schema,) = connection.execute("PRAGMA user_version").fetchone() or (0,)
        try:
            damage = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({WORST})")]
        except apsw.Error as error:
            damage = [str(error)]
        if damage != ["ok"]:
            return Inspection(VERSION, int(schema), known, tuple(damage))
        if schema != known:
            return Inspection(VERSION, int(schema), known, newest_at=newest(connection))
        return Inspection(
            VERSION,
            known,
            known,
            newest_at=newest(connection),
            expiring=tuple(_rows(connection, EXPIRING)),
            heads=tuple(Mark(*row) for row in _rows(connection, HEADS)),
            has_api_keys=bool(_rows(connection, "SELECT 1 FROM api_keys LIMIT 1")),
            has_sealed=bool(_rows(connection, SEALED)),
        )


EXPIRING = "SELECT name, expires FROM api_keys WHERE revoked IS NULL AND expires IS NOT NULL ORDER BY expires"
HEADS = "SELECT chain, number, mac, count, at, seal FROM audit_heads"
SEALED = "SELECT 1 FROM vault LIMIT 1"


def _rows(connection: apsw.Connection, sql: str) -> list[Any]:
    return connection.execute(sql).fetchall()
