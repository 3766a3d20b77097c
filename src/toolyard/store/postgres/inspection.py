"""A ledger in PostgreSQL, inspected beside its nodes."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from ...model.audit import Mark
from ..inspection import COUNTED, Holdings, Inspection
from ..sql_files import migrations
from .connections import BREAKS, Connection, down, first_connection, hang_up

EXPIRING = "SELECT name, expires FROM api_keys WHERE revoked IS NULL AND expires IS NOT NULL ORDER BY expires"
HEADS = "SELECT chain, number, mac, count, at, seal FROM audit_heads"
NEWEST = """
SELECT greatest((SELECT max(created_at) FROM calls), (SELECT max(written_at) FROM blocks),
    (SELECT max(at) FROM audit_heads), (SELECT max(created) FROM api_keys), 0)
"""
T = TypeVar("T")


async def inspect(url: str) -> Inspection:
    """Raises SetupError, StoreDown."""
    return await _asked(await first_connection(url), _inspect)


async def holdings(url: str) -> tuple[Holdings, float]:
    """How much there is of each thing, and when the ledger was last written, of one moment. To count a large ledger
    takes as long as it takes. Raises SetupError, StoreDown."""
    return await _asked(await first_connection(url, command_s=None), _holdings)


async def _inspect(connection: Connection) -> Inspection:
    asked_at = time.time()
    clock = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
    # The middle of the time that the question took: that is when the database answered it, as well as one can know.
    ahead = clock - (asked_at + time.time()) / 2
    server = str(await connection.fetchval("SHOW server_version")).split()[0]
    version, known = f"PostgreSQL {server} with asyncpg {asyncpg.__version__}", migrations("postgres")[-1].number
    has_schema = await connection.fetchval("SELECT to_regclass('ledger_schema')") is not None
    schema = int(await connection.fetchval("SELECT coalesce(max(version), 0) FROM ledger_schema")) if has_schema else 0
    if schema != known:
        return Inspection(version, schema, known, clock_ahead_s=ahead)
    heads: list[Any] = await connection.fetch(HEADS)
    return Inspection(
        version,
        known,
        known,
        newest_at=float(await connection.fetchval(NEWEST)),
        clock_ahead_s=ahead,
        expiring=tuple((row[0], row[1]) for row in await connection.fetch(EXPIRING)),
        heads=tuple(Mark(*row) for row in heads),
        has_api_keys=await connection.fetchval("SELECT true FROM api_keys LIMIT 1") is not None,
        has_sealed=await connection.fetchval("SELECT true FROM vault LIMIT 1") is not None,
    )


async def _holdings(connection: Connection) -> tuple[Holdings, float]:
    async with connection.transaction(isolation="repeatable_read"):
        counted = {
            name: sum([int(await connection.fetchval(sql)) for sql in counts]) for name, counts in COUNTED.items()
        }
        return Holdings(**counted), float(await connection.fetchval(NEWEST))


async def _asked(connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
    try:
        return await work(connection)
    except BREAKS as error:
        raise down(error) from error
    finally:
        await hang_up(connection)
