"""The file of SQLite's ledger: locked, opened, brought up to date."""

import asyncio
import fcntl
import io
import os
from contextlib import suppress
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
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=2000", "journal_size_limit=67108864")


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


def opened(path: Path) -> apsw.Connection:
    """Raises SetupError where it is no ledger, or one of a newer toolyard."""
    try:
        if str(path) != MEMORY and not path.exists():  # what callers said and got is nobody else's on this machine
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_MS)
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        _migrate(connection, path)
    except (apsw.Error, OSError) as error:
        raise SetupError(f"the ledger cannot be opened: {error}", SourcePlace(str(path))) from error
    return connection


def _migrate(connection: apsw.Connection, path: Path) -> None:
    (applied,) = connection.execute("PRAGMA user_version").fetchone() or (0,)
    for migration in missing("sqlite", applied, str(path)):
        with connection:
            connection.execute(migration.sql)
            connection.execute(f"PRAGMA user_version = {migration.number:d}")
