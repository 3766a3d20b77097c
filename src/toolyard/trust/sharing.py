"""Nodes tell each other what they use of what is limited, twice a second."""

import asyncio
import logging
from collections.abc import Callable

from ..store.contract import Store, StoreDown
from .limits import Limiter

EVERY_S = 0.5
IDLE_ARE_DROPPED_S = 10.0
_log = logging.getLogger("toolyard.limits")


class Sharing:
    """Between a limiter and the ledger. Where there is one node, it only forgets what is old."""

    def __init__(self, limiter: Limiter, store: Store, now: Callable[[], float]) -> None:
        self._limiter, self._store, self._now = limiter, store, now

    async def run(self) -> None:
        """Until cancelled. While the ledger cannot be reached, each node knows only what it uses itself."""
        clock = asyncio.get_running_loop().time
        next_drop = clock() + IDLE_ARE_DROPPED_S
        while True:
            if self._store.shared:
                await self._try()
            if clock() >= next_drop:
                self._limiter.drop_idle()
                next_drop = clock() + IDLE_ARE_DROPPED_S
            await asyncio.sleep(EVERY_S)

    async def once(self) -> None:
        """Raises StoreDown."""
        began = self._now()
        there, uses = await self._store.share_usage(self._limiter.news())
        self._limiter.ahead_ms = int((there - (began + self._now()) / 2) * 1000)
        self._limiter.hear(uses)

    async def _try(self) -> None:
        try:
            await self.once()
        except StoreDown as down:
            _log.warning("other nodes' use is not known now: %s", down.developer_message)
            self._limiter.say_again()
