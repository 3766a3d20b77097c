"""Copies of a ledger in one file: made beside whoever writes to it, checked, counted, and read again.

`VACUUM INTO` reads one moment of the ledger, however much is written meanwhile, and keeps no writer waiting. What was
erased is not in the copy. A copy says of itself that it is one (`FileMark.COPY`), and has a table of its own, with when
it was made and what is to be known about its key.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
from msgspec import Struct

from ...model.errors import SetupError, SourcePlace
from ..inspection import COUNTED, Holdings
from .file import BUSY_MS, COPY_TABLE, FileMark, drop_notes, mark_of, refuse_part, wal_of
from .rows import SQL

LEFTOVERS = ("", "-journal", "-wal", "-shm", ".lock")
"""What may be left of a draft."""
NEWEST = (
    "SELECT max(created_at) FROM calls",
    "SELECT max(finished_at) FROM calls",
    "SELECT max(written_at) FROM blocks",
    "SELECT max(at) FROM audit_heads",
    "SELECT max(created) FROM api_keys",
)


class CopyNotes(Struct, frozen=True):
    """What a copy says of itself."""

    made_at: float
    """Whatever was acknowledged before this moment is in it."""
    signature: bytes | None = None
    """Shows whether a ring has the key of this ledger; None where the ledger had no key yet."""
    key_file: str | None = None
    """What is in the key file, where that was wanted."""


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """The ledger, to be read beside whoever writes to it. Raises SetupError."""
    refuse_part(path)
    with read(path) as connection:
        yield connection


@contextmanager
def read(path: Path) -> Iterator[apsw.Connection]:
    """A ledger or a part of one, whatever it says of itself. It stays as it is, also where this is the last who has it
    open: who only reads does not move `-wal` into the file."""
    # SQLite would make an empty -wal beside a ledger that lacks its own, and nobody would notice from then on.
    lacks_wal = mark_of(path) == FileMark.OPEN and not wal_of(path).exists()
    address = f"file:{quote(str(path.resolve()))}{'?immutable=1' if lacks_wal else ''}"
    try:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        with closing(apsw.Connection(address, flags=flags)) as connection:
            connection.set_busy_timeout(BUSY_MS)
            yield connection
    except apsw.Error as error:
        raise SetupError(f"it cannot be read: {error}", SourcePlace(str(path))) from error


def copy(ledger: apsw.Connection, draft: Path) -> None:
    """Makes a file with what the ledger has now, for its owner alone. Raises SetupError where it cannot be written."""
    discard(draft)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        ledger.execute("VACUUM INTO ?", (str(draft),))
    except apsw.Error as error:
        discard(draft)
        raise SetupError(f"the copy cannot be made: {error}", SourcePlace(str(draft))) from error


def mark_copy(draft: Path, notes: CopyNotes) -> Holdings:
    """Completes a copy, checks it, and makes it durable. Raises SetupError."""
    with closing(apsw.Connection(str(draft))) as connection:
        with connection:
            connection.execute(f"CREATE TABLE {COPY_TABLE} (made_at REAL NOT NULL, signature BLOB, key_file TEXT)")
            values = (notes.made_at, notes.signature, notes.key_file)
            connection.execute(f"INSERT INTO {COPY_TABLE} VALUES (?, ?, ?)", values)
            connection.execute(f"PRAGMA application_id = {FileMark.COPY:d}")
        check(connection, draft)
        held = holdings(connection)
    flush(draft)
    return held


def notes_of(connection: apsw.Connection) -> CopyNotes | None:
    """What a copy says of itself; None where `toolyard backup` did not make it."""
    if not _has(connection, COPY_TABLE):
        return None
    row: Any = connection.execute(f"SELECT made_at, signature, key_file FROM {COPY_TABLE}").fetchone()
    return CopyNotes(*row)


def unmark_copy(draft: Path) -> None:
    """Makes a copy a ledger like any other."""
    with closing(apsw.Connection(str(draft))) as connection:
        drop_notes(connection)
        connection.execute(f"PRAGMA application_id = {FileMark.CLOSED:d}")


def last_number(connection: apsw.Connection) -> int | None:
    """The highest that a call has had. It is not known of a ledger that is too old, or damaged."""
    try:
        (last,) = connection.execute(SQL.last_number).fetchone() or (0,)
    except apsw.Error:
        return None
    return int(last)


def check(connection: apsw.Connection, path: Path) -> None:
    """Raises SetupError where the file is damaged, or no ledger."""
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    except apsw.Error as error:
        found = [str(error)]
    if found != ["ok"]:
        raise SetupError(f"it is damaged: {'; '.join(found)}", SourcePlace(str(path)))
    if not _has(connection, "calls"):
        raise SetupError("it is no ledger of toolyard's, or one that nothing was written to", SourcePlace(str(path)))


def holdings(connection: apsw.Connection) -> Holdings:
    """How much there is of each thing. A ledger that a toolyard before this one wrote may lack some tables."""
    return Holdings(**{name: sum(_number(connection, sql) for sql in counts) for name, counts in COUNTED.items()})


def newest(connection: apsw.Connection) -> float:
    """When the ledger was last written, as far as its rows have a time; 0 where nothing was."""
    return float(max(_number(connection, sql) for sql in NEWEST))


def discard(draft: Path) -> None:
    """Removes what there is of a draft."""
    for ending in LEFTOVERS:
        with suppress(FileNotFoundError):
            draft.with_name(draft.name + ending).unlink()


def flush(path: Path) -> None:
    """Makes a file or a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _number(connection: apsw.Connection, sql: str) -> Any:
    table = sql.partition(" FROM ")[2].split()[0]
    row: Any = connection.execute(sql).fetchone() if _has(connection, table) else None
    return 0 if row is None or row[0] is None else row[0]


def _has(connection: apsw.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None
