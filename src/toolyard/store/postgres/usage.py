"""What nodes use of what is limited on all of them together. Losing it costs nothing but a moment's precision, so these
writes are not flushed."""

from collections.abc import Sequence

from msgspec.structs import astuple

from ..values import Usage
from .connections import Connection
from .rows import SQL, columns


async def share(connection: Connection, again: bool, node: str, news: Sequence[Usage]) -> tuple[float, list[Usage]]:
    """In the order of their names, so that nobody waits for each other in a circle."""
    if news:
        rows = sorted(map(astuple, news))
        await connection.execute(SQL.put_usage, node, *columns(rows))
    now: float = await connection.fetchval(SQL.now)
    return now, [Usage(*row) for row in await connection.fetch(SQL.usage_elsewhere, node)]
