"""Nodes that share a ledger tell each other through it what they use of each limit, twice a second.

So a limit holds for all nodes together, within half a second's calls, without asking anybody when a call comes.
"""

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
    """Carries usage between a limiter and the ledger. Where there is one node alone, it only has the limiter forget
    what is old. Minutes are those of the ledger's clock; until the ledger has said its time, the time of day here."""

    def __init__(self, limiter: Limiter, store: Store, clock: Clock) -> None:
        self._limiter, self._store, self._monotonic = limiter, store, clock.monotonic
        self._is_away = False
        limiter.ahead_ms = int((clock.now() - clock.monotonic()) * 1000)

    async def run(self) -> None:
        """Shares usage until cancelled. While the ledger cannot be reached, each node knows only its own use."""
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
        """One round: says what is new here, and hears what the others used. Raises StoreDown."""
        began = self._monotonic()
        there, uses = await self._store.share_usage(self._limiter.news())
        ended = self._monotonic()
        # The ledger read its clock at some moment of the round: the middle of it is wrong by half of it at most.
        if ended - began <= PRECISE_S:
            self._limiter.ahead_ms = int((there - (began + ended) / 2) * 1000)
        self._limiter.hear(uses)

    async def attempt(self) -> None:
        """As `once`, for the loop: logs when the ledger goes and when it is back, and nothing in between."""
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
