"""Who keeps being refused is answered later and later, and who guesses credentials is not answered at all.

An answer that is held back costs nothing but its connection, on which nothing else is read meanwhile; a caller that
does not wait as it was told slows down only itself.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from random import uniform

from .limits import house_of
from .meters import MINUTE_MS, Meter, refusal

CREDENTIALS = (b"authorization", b"oxp-api-key", b"otc-api-key")
"""The headers that may have some."""
Headers = Mapping[bytes, bytes]
FREE = 1
"""So many refusals in a row cost nothing: a caller that waits as it was told never has more."""
FIRST_S, LONGEST_S = 0.016, 1.0
STEPS = 7
MOST_KNOWN = 20_000
MOST_HELD = 20_000


class Patience:
    """How often each caller was refused more than it was let in."""

    def __init__(self) -> None:
        self.refused: dict[Hashable, int] = {}
        """Most of the time it is empty, and nobody need be told who was let in."""
        self._held = 0

    def let_in(self, who: Hashable) -> None:
        count = self.refused.pop(who, 0)
        if count > 1:
            self.refused[who] = count - 1

    def pause_s(self, who: Hashable) -> float:
        """How late the refusal is to be that was just made."""
        count = self.refused.pop(who, 0)
        if len(self.refused) >= MOST_KNOWN:
            self.refused.pop(next(iter(self.refused)))
        self.refused[who] = min(count + 1, FREE + STEPS)
        return min(LONGEST_S, FIRST_S * 2 ** (count - FREE)) if count >= FREE else 0.0

    async def hold(self, who: Hashable) -> float:
        """Holds a refusal back, unless too many are; for how long, in seconds. Not all for the same time, or those of
        many connections would come and go together."""
        pause_s = self.pause_s(who) * uniform(0.5, 1.0)
        if not pause_s or self._held >= MOST_HELD:
            return 0.0
        self._held += 1
        try:
            await asyncio.sleep(pause_s)
        finally:
            self._held -= 1
        return pause_s


class Failures:
    """Credentials that were not valid, by address: after so many a minute, only those are looked at there that were
    good before. Whoever guesses learns nothing more, and whoever is behind the same address goes on."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and is never set."""
        self._per_minute, self._clock = per_minute, clock
        self._meters: dict[str, Meter] = {}
        self._good: dict[int, None] = {}
        """Addresses with credentials, by a hash that is of use to nobody else: what it lets pass is still verified."""
        self.is_watchful = False
        """Whether to remember who is let in: since the first failure."""

    def let_in(self, address: str, headers: Headers) -> None:
        """Somebody had good credentials."""
        good = _trace(address, headers)
        if good not in self._good:
            if len(self._good) >= MOST_KNOWN:
                self._good.pop(next(iter(self._good)))
            self._good[good] = None

    def refuse(self, address: str, headers: Headers) -> None:
        """Raises LimitReached."""
        meter = self._meters.get(house_of(address)) if self._meters else None
        if meter is not None:
            meter.advance(int(self._clock() * 1000), 0)
            if (wait_ms := meter.wait_ms()) and _trace(address, headers) not in self._good:
                why = f"{self._per_minute} failures a minute from one address"
                raise refusal(wait_ms, f"wrong credentials: {why}")
            if not meter.debt:
                del self._meters[house_of(address)]

    def note(self, address: str, headers: Headers) -> None:
        """One more."""
        if not address:
            return
        self.is_watchful = True
        self._good.pop(_trace(address, headers), None)
        house, now_ms = house_of(address), int(self._clock() * 1000)
        meter = self._meters.get(house)
        if meter is None:
            if len(self._meters) >= MOST_KNOWN:
                self._meters.pop(next(iter(self._meters)))
            meter = self._meters[house] = Meter(b"", now_ms, 0, self._per_minute)
        meter.advance(now_ms, 0)
        meter.take()
        meter.debt = min(meter.debt, 2 * self._per_minute * MINUTE_MS)  # never away for longer than a minute or two


def _trace(address: str, headers: Headers) -> int:
    return hash((house_of(address), *map(headers.get, CREDENTIALS)))
