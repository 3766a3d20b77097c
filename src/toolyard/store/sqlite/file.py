"""The file of SQLite's ledger: locked, opened, brought up to date, and marked as open or closed.

What was written last is in a second file, `-wal`, until SQLite moves it into the ledger's own. Whoever copies the
ledger's file alone has a file that opens without complaint and lacks all that: calls, taken ids, API keys. So the file
itself says whether somebody has it open. The mark is in SQLite's header (`application_id`, whatever else the file has),
it is moved there before anything else is written, and taken back when all of `-wal` is in the file again. A ledger that
is marked as open and has no `-wal` beside it is such a copy, and is not opened. After `kill -9` the `-wal` is there.
"""

import asyncio
import fcntl
import io
import os
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import IO

import apsw

from ...model.errors import SetupError, SourcePlace
from ..sql_files import missing
from ..values import StoreInUse

LOCK_TRIES, LOCK_AGAIN_S = 20, 0.05
MEMORY = ":memory:"
BUSY_MS = 5000
"""How long the writes that are there wait for another program that has the file. Then they fail, all together."""
COPY_TABLE = "toolyard_copy"
"""The table that a copy has beside those of the ledger: `copies.py`."""
MARK_AT = slice(68, 72)
"""Where SQLite's header has the application's number, big-endian. (https://sqlite.org/fileformat.html)"""
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=2000", "journal_size_limit=67108864")


class FileMark(IntEnum):
    """What the file of a ledger says of itself. A toolyard that knew no marks left 0 there."""

    OPEN = int.from_bytes(b"tyop")
    """Somebody writes to it, or was killed while they did: some of it may be in `-wal`."""
    CLOSED = int.from_bytes(b"tycl")
    """Everything is in this file."""
    COPY = int.from_bytes(b"tycp")
    """`toolyard backup` made it. Everything is in this file, and it never had a `-wal`."""


async def lock(path: Path) -> IO[bytes]:
    """One process writes to a file. The lock goes with the process, however that ends. A verb of the command line may
    have it for a moment."""
    if str(path) == MEMORY:
        return io.BytesIO()
    path = path.resolve()  # noqa: ASYNC240  by whichever name it is opened
    if not path.parent.is_dir():
        raise SetupError(
            f"the ledger's folder {path.parent} does not exist; make it, or name another with --store sqlite:FILE",
            SourcePlace(str(path)),
        )
    try:
        lock = os.fdopen(_private(path.with_name(path.name + ".lock")), "a+b")
        if path.exists():
            give_to_owner_of(path, lock.fileno())
    except OSError as error:
        raise SetupError(f"the ledger cannot be made: {error.strerror}", SourcePlace(str(path))) from None
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            await asyncio.sleep(LOCK_AGAIN_S)
    else:
        lock.close()
        raise StoreInUse(
            "another process writes to this ledger; give this one its own with --store sqlite:other.db, or let both "
            "share a database with --store postgresql://…",
            SourcePlace(str(path)),
        )
    lock.truncate(0)
    lock.write(str(os.getpid()).encode())
    lock.flush()
    return lock


def _private(path: Path) -> int:
    """For its owner alone: whoever may open a file may also lock it, and keep everybody else out."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with suppress(PermissionError):  # another user's, who may write it
        os.fchmod(descriptor, 0o600)
    return descriptor


def give_to_owner_of(path: Path, file: Path | int) -> None:
    """Has a file that root makes beside a ledger be its server's, which may be another user, and could not open it
    otherwise. (SQLite does so by itself with `-wal`.)"""
    owner = path.stat()
    if os.geteuid() == 0 != owner.st_uid:
        with suppress(PermissionError):  # a root that may not, as in many containers
            os.chown(file, owner.st_uid, owner.st_gid)


def opened(path: Path) -> apsw.Connection:
    """Raises SetupError where it is no ledger, a part of one, a copy of one, or one of a newer toolyard."""
    try:
        if str(path) == MEMORY:
            return _connected(path)
        refuse_part(path)
        _refuse_copy(path)
        if not path.exists():  # what callers said and got is nobody else's on this machine
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = _connected(path)
        _mark_open(connection, path)
    except (apsw.Error, OSError) as error:
        raise SetupError(f"the ledger cannot be opened: {error}", SourcePlace(str(path))) from error
    return connection


def close(connection: apsw.Connection) -> None:
    """Closes it, and leaves everything in the one file if it is the last that is open."""
    try:
        if connection.filename:  # it is not in memory
            connection.execute(f"PRAGMA application_id = {FileMark.CLOSED:d}")
    except apsw.ConnectionClosedError:
        return
    except apsw.Error:  # such as a full disk: it stays marked as open, so its -wal must stay, too
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def drop_notes(connection: apsw.Connection) -> None:
    """Removes what a copy has besides the ledger, and leaves no trace of it in the file: it may have the key."""
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute(f"DROP TABLE IF EXISTS {COPY_TABLE}")
    connection.execute("PRAGMA secure_delete = OFF").fetchall()


def mark_of(path: Path) -> int:
    """What the file itself says, whatever is in its `-wal`."""
    try:
        with path.open("rb") as file:
            return int.from_bytes(file.read(MARK_AT.stop)[MARK_AT])
    except FileNotFoundError:
        return 0


def wal_of(path: Path) -> Path:
    """Where SQLite has what was written last, by whichever name the ledger is opened."""
    real = path.resolve()
    return real.with_name(f"{real.name}-wal")


def refuse_part(path: Path) -> None:
    """Raises SetupError for a file that lacks its `-wal`, and for a `-wal` that is not this file's: SQLite would read
    on without a word."""
    wal, mark = wal_of(path), mark_of(path)
    has_wal = wal.exists() and wal.stat().st_size > 0
    if mark == FileMark.OPEN and not wal.exists():
        raise SetupError(
            f"this is a part of a ledger: {wal.name}, with what was written last, is not beside it; bring that file "
            "back, or restore a copy that 'toolyard backup' made; to go on with what is here, on purpose: "
            f"toolyard restore {path} --incomplete",
            SourcePlace(str(path)),
        )
    if mark == FileMark.COPY and has_wal:
        raise SetupError(
            f"this is a copy that 'toolyard backup' made, and {wal.name} beside it is of another ledger; move both "
            "away, and use 'toolyard restore'",
            SourcePlace(str(path)),
        )
    if has_wal and not path.exists():
        raise SetupError(
            f"the ledger is not there, and {wal.name}, with what was written last to it, is; bring the ledger back, "
            f"or move {wal.name} away to begin with an empty one",
            SourcePlace(str(path)),
        )


def _refuse_copy(path: Path) -> None:
    """Raises SetupError for a copy: what had not ended in it would go on, as if nothing had been done since."""
    if mark_of(path) == FileMark.COPY:
        raise SetupError(
            "this is a copy that 'toolyard backup' made, and what was done since then is not in it; to go on from it: "
            f"toolyard restore {path}",
            SourcePlace(str(path)),
        )


def _connected(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_MS)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    _migrate(connection, path)
    return connection


def _mark_open(connection: apsw.Connection, path: Path) -> None:
    (mark,) = connection.execute("PRAGMA application_id").fetchone() or (0,)
    if mark == FileMark.OPEN == mark_of(path):
        return  # whoever had it before was killed
    connection.execute(f"PRAGMA application_id = {FileMark.OPEN:d}")
    # Into the file now: in -wal it would be missing from the very copy that it is for. It waits for nobody: where
    # somebody reads, such as a backup, it gets there with the next checkpoint.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _migrate(connection: apsw.Connection, path: Path) -> None:
    """Brings the schema up to date, in one transaction: a ledger is made in one write to the disk and not in one a
    migration, and nobody finds it halfway."""
    (applied,) = connection.execute("PRAGMA user_version").fetchone() or (0,)
    todo = missing("sqlite", applied, str(path))
    if not todo:
        return
    with connection:
        for migration in todo:
            connection.execute(migration.sql)
        connection.execute(f"PRAGMA user_version = {todo[-1].number:d}")
