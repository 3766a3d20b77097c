"""A ledger in PostgreSQL that `pg_restore` has brought back to an earlier moment. What the database's own tools cannot
know is done here: numbers go on after those that calls have had since, and notes are gone that nobody may find again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..inspection import COUNTED, Holdings
from .connections import BREAKS, Connection, down, first_connection, hang_up
from .inspection import NEWEST

LAST = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM calls_seq"
GO_ON_AFTER = "SELECT setval('calls_seq', $1) FROM calls_seq WHERE last_value < $1"
T = TypeVar("T")


async def last_number(url: str) -> int:
    """The highest that a call has had. Raises SetupError, StoreDown."""
    return await _asked(url, _last_number)


async def settle(url: str, last: int, dropped: Sequence[str]) -> None:
    """Has numbers go on after this one, and drops the notes of these kinds. Raises SetupError, StoreDown."""

    async def do(connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute(GO_ON_AFTER, last)
            await connection.execute("DELETE FROM notes WHERE kind = ANY($1)", list(dropped))

    await _asked(url, do)


async def holdings(url: str) -> tuple[Holdings, float]:
    """How much there is of each thing, and when the ledger was last written. Raises SetupError, StoreDown."""
    return await _asked(url, _holdings)


async def _last_number(connection: Connection) -> int:
    has_any = await connection.fetchval("SELECT to_regclass('calls_seq')") is not None
    return int(await connection.fetchval(LAST)) if has_any else 0


async def _holdings(connection: Connection) -> tuple[Holdings, float]:
    async with connection.transaction(isolation="repeatable_read"):
        counted = {
            name: sum([int(await connection.fetchval(sql)) for sql in counts]) for name, counts in COUNTED.items()
        }
        return Holdings(**counted), float(await connection.fetchval(NEWEST))


async def _asked(url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    connection = await first_connection(url, command_s=None)
    try:
        return await work(connection)
    except BREAKS as error:
        raise down(error) from error
    finally:
        await hang_up(connection)
