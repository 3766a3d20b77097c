"""Where the machine's calls are kept: a new ledger for each example, on the machine's clock, and all that can be read
there by somebody who looks over the server's shoulder. Whoever looks after it makes copies, and goes back to them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import apsw
import asyncpg
from msgspec import structs

from tests.postgres import CLOCK, Server, do_as_told
from tests.unpacked import unpacked
from toolyard.model.clock import Clock
from toolyard.model.errors import SetupError
from toolyard.operator.backup import back_up
from toolyard.operator.restore import RestoreOptions, restore, settle
from toolyard.server.settings.table import Settings

Rows = dict[str, list[dict[str, Any]]]
"""By table."""


class Ledger(Protocol):
    """`store` is the setting. How many nodes it is for."""

    store: str
    nodes: int

    @property
    def is_blocked(self) -> bool: ...

    async def open(self, now: float) -> None:
        """Also again, after `leave`."""

    async def leave(self) -> None:
        """Nobody looks over the server's shoulder until it is opened again."""

    async def close(self) -> None: ...
    async def follow(self, now: float) -> None: ...
    async def rows(self) -> Rows: ...
    def files(self) -> dict[str, bytes]: ...
    async def block(self) -> None:
        """Nobody can write, or even read, until `unblock`."""

    async def unblock(self) -> None: ...
    def copy(self, settings: Settings, clock: Clock) -> None:
        """As an operator does, in place of the copy before it. Servers may work meanwhile."""

    def restore(self, settings: Settings, clock: Clock) -> None:
        """While no server does."""


class SqliteLedger:
    """A file. Its bytes are looked at, too, also of what is in the log before it is in the file."""

    nodes = 1

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.store = f"sqlite:{self.path}"
        self._copy = folder / "ledger-copy.db"
        self._lock: apsw.Connection | None = None

    async def open(self, now: float) -> None:
        """The server makes it."""

    async def leave(self) -> None:
        """Nothing is open."""

    async def close(self) -> None:
        await self.unblock()
        for path in self.path.parent.glob("ledger*"):
            path.unlink()

    async def follow(self, now: float) -> None:
        """It has the server's clock."""

    async def rows(self) -> Rows:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5000)
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {table: list(_dicts(connection, table)) for table in tables}
        finally:
            connection.close()

    def files(self) -> dict[str, bytes]:
        there = [self.path, Path(f"{self.path}-wal"), self._copy]
        return {path.name: path.read_bytes() for path in there if path.exists()}

    @property
    def is_blocked(self) -> bool:
        """Nobody is kept from reading."""
        return False

    async def block(self) -> None:
        """Somebody else writes, for long."""
        self._lock = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._lock.set_busy_timeout(5000)
        self._lock.execute("BEGIN IMMEDIATE")

    async def unblock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.execute("ROLLBACK")
            lock.close()

    def copy(self, settings: Settings, clock: Clock) -> None:
        self._copy.unlink(missing_ok=True)
        self._held = back_up(settings, self._copy, with_key=False, clock=clock).holdings

    def restore(self, settings: Settings, clock: Clock) -> None:
        held = restore(settings, self._copy, RestoreOptions(), clock).holdings
        # The restore itself is in the audit log.
        assert structs.replace(held, audit_entries=self._held.audit_entries) == self._held


def _dicts(connection: apsw.Connection, table: str) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    for row in cursor:
        yield dict(zip((column[0] for column in cursor.getdescription()), row, strict=True))


class PostgresLedger:
    """A database, and two nodes on it."""

    nodes = 2

    def __init__(self, server: Server) -> None:
        self._server, self._name = server, server.create()
        self.store = server.url_of(self._name)
        self._folder = TemporaryDirectory(prefix="promises-")
        self._copy = Path(self._folder.name) / "ledger.dump"
        self._lock: asyncpg.Connection | None = None

    async def open(self, now: float) -> None:
        # Without statements that are kept: a migration or a restore may change what they were made for.
        self._connection = await asyncpg.connect(self.store, statement_cache_size=0)
        found = await self._connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        self._tables = [row["tablename"] for row in found]
        await self.follow(now)

    async def close(self) -> None:
        await self.unblock()
        await self._connection.close()
        self._folder.cleanup()
        await asyncio.to_thread(self._server.drop, self._name)

    async def follow(self, now: float) -> None:
        """Nodes that live have said so meanwhile, however long it was."""
        async with self._connection.transaction():
            await self._connection.execute("UPDATE nodes SET lease_until = lease_until + $1 - ledger_now()", now)
            await self._connection.execute(CLOCK.format(now=now))

    async def rows(self) -> Rows:
        found: Rows = {}
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            for table in self._tables:
                found[table] = [dict(row) for row in await self._connection.fetch(f'SELECT * FROM "{table}"')]
        return found

    def files(self) -> dict[str, bytes]:
        return {}

    @property
    def is_blocked(self) -> bool:
        return self._lock is not None

    async def block(self) -> None:
        """Somebody changes the table, for long."""
        self._lock = await asyncpg.connect(self.store)
        await self._lock.execute("BEGIN; LOCK TABLE calls IN ACCESS EXCLUSIVE MODE")

    async def unblock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            await lock.execute("ROLLBACK")
            await lock.close()

    async def leave(self) -> None:
        """A database is not moved aside while anybody is connected to it: who is left is hung up on."""
        await self._connection.close()
        beside = await asyncpg.connect(self._server.url_of("postgres"))
        while await beside.fetchval(
            "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", self._name
        ):
            await asyncio.sleep(0.02)
        await beside.close()

    def copy(self, settings: Settings, clock: Clock) -> None:
        _done_as_told(lambda: back_up(settings, self._copy, with_key=False, clock=clock))

    def restore(self, settings: Settings, clock: Clock) -> None:
        told = _done_as_told(lambda: restore(settings, self._copy, RestoreOptions(), clock))
        assert told == ["restore", "--settle"]
        for aside in self._server.moved_aside(self._name):
            self._server.drop(aside)
        asyncio.run(self._let_time_pass(clock.now()))
        settle(settings, RestoreOptions(), clock)

    async def _let_time_pass(self, now: float) -> None:
        """The copy has the clock of its time, and nodes that seemed to live then."""
        connection = await asyncpg.connect(self.store)
        await connection.execute(CLOCK.format(now=now))
        await connection.execute("UPDATE nodes SET lease_until = ledger_now()")
        await connection.close()


def _done_as_told(verb: Callable[[], object]) -> list[str]:
    """Runs the commands of PostgreSQL's that a verb names instead of doing it. The words of toolyard's own
    that comes after them, if one does."""
    try:
        verb()
    except SetupError as told:
        return do_as_told(str(told), Path.cwd())
    raise AssertionError("it did it itself")


def text_of(rows: Rows) -> dict[str, bytes]:
    """By table: all that is in it, one value after another."""
    return {
        table: b"\n".join(_bytes(value) for row in found for value in row.values() if value is not None)
        for table, found in rows.items()
    }


def _bytes(value: Any) -> bytes:
    return unpacked(bytes(value)) if isinstance(value, bytes | memoryview) else str(value).encode()


@contextmanager
def loop_of_its_own() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
