"""What nodes share of what is limited on all of them together: the slots of tools, and how much of each limit is used.

Nothing of it is flushed to the disk. A crash of the database costs a moment's precision, and a node that is gone gives
back what it had as soon as its lease is over.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import astuple

from ..values import Usage
from .connections import Connection, Pool
from .rows import SQL, columns


class NodeSlots:
    """The runs of tools that this node has: how many there may be at once, on all nodes together, are rows that nodes
    put their name in.

    Each that this node took has a token. What is under its name with a token that it does not hold is free: that was
    given back, or taken by a write whose fate was not known."""

    def __init__(self, link: Pool, node: str) -> None:
        self._link, self._node = link, node
        self._held: defaultdict[str, list[int]] = defaultdict(list)
        self._taking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._made: dict[str, int] = {}

    async def take(self, tool: str, most: int) -> bool:
        """One after another: a second one that does not know of the first's token would take its slot for free."""
        token = secrets.randbits(62)
        async with self._taking[tool]:
            taken = await self._link.write(lambda connection, _: self._take(connection, tool, most, token))
            if taken:
                self._held[tool].append(token)
        return taken

    async def give(self, tool: str) -> None:
        token = self._held[tool].pop()
        await self._link.write(lambda connection, _: connection.execute(SQL.give_slot, tool, token))

    async def _take(self, connection: Connection, tool: str, most: int, token: int) -> bool:
        if self._made.get(tool, 0) < most:
            await connection.execute(SQL.make_slots, tool, most)
            self._made[tool] = most
        taken = await connection.fetchval(SQL.take_slot, tool, most, self._node, token, self._held[tool])
        return taken is not None


async def share_usage(
    connection: Connection, again: bool, node: str, news: Sequence[Usage]
) -> tuple[float, list[Usage]]:
    """Writes what changed of this node's use, in the order of the names, so that no two nodes wait for each other in a
    circle; and reads what the others said."""
    if news:
        rows = sorted(map(astuple, news))
        await connection.execute(SQL.put_usage, node, *columns(rows))
    now: float = await connection.fetchval(SQL.now)
    return now, [Usage(*row) for row in await connection.fetch(SQL.usage_elsewhere, node)]
