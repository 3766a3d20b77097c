"""How many runs of a tool there may be at once, on all nodes together: rows that nodes put their name in.

Each that this node took has a token. What is under its name with a token that it does not hold is free: that was given
back, or taken by a write whose fate was not known.
"""

import asyncio
import secrets
from collections import defaultdict

from .connections import Connection, Pool
from .rows import SQL


class NodeSlots:
    """Those of one node."""

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
