"""Nodes tell each other what they use of what is limited, twice a second."""

import asyncio
import logging

from ...model.clock import Clock
from ...store.contract import Store
from ...store.values import StoreDown
from .limits import Limiter

EVERY_S = 0.5
IDLE_ARE_DROPPED_S = 10.0
PRECISE_S = 1.0
"""A round that took longer, because this process stood still in between, does not tell what time it is elsewhere."""
_log = logging.getLogger("toolyard.limits")


class UsageSharing:
    """Between a limiter and the ledger. Where there is one node, it only forgets what is old. Until the ledger has said
    what time it is, it is the time of day here."""

    def __init__(self, limiter: Limiter, store: Store, seam: Clock) -> None:
        self._limiter, self._store, self._clock = limiter, store, seam.monotonic
        self._is_away = False
        limiter.ahead_ms = int((seam.now() - seam.monotonic()) * 1000)

    async def run(self) -> None:
        """Until cancelled. While the ledger cannot be reached, each node knows only what it uses itself."""
        clock = asyncio.get_running_loop().time
        next_drop = clock() + IDLE_ARE_DROPPED_S
        while True:
            if self._store.shared:
                await self.attempt()
            if clock() >= next_drop:
                self._limiter.drop_idle()
                next_drop = clock() + IDLE_ARE_DROPPED_S
            await asyncio.sleep(EVERY_S)

    async def once(self) -> None:
        """Raises StoreDown."""
        began = self._clock()
        there, uses = await self._store.share_usage(self._limiter.news())
        ended = self._clock()
        if ended - began <= PRECISE_S:
            self._limiter.ahead_ms = int((there - (began + ended) / 2) * 1000)
        self._limiter.hear(uses)

    async def attempt(self) -> None:
        """Says it when the ledger goes, and when it is back; not in between."""
        try:
            await self.once()
        except StoreDown as down:
            self._limiter.say_again()
            if not self._is_away:
                _log.warning("other nodes' use is not known now: %s", down.developer_message)
            self._is_away = True
            return
        if self._is_away:
            _log.warning("other nodes' use is known again")
        self._is_away = False
