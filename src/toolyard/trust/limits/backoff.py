"""Who keeps being refused is answered later and later, and who guesses credentials is not answered at all.

An answer that is held back costs nothing but its connection, on which nothing else is read meanwhile; a caller that
does not wait as it was told slows down only itself.
"""

import asyncio
from collections.abc import Hashable
from random import uniform

from .credential_failures import MOST_KNOWN

FREE = 1
"""So many refusals in a row cost nothing: a caller that waits as it was told never has more."""
FIRST_S, LONGEST_S = 0.016, 1.0
STEPS = 7
MOST_HELD = 20_000


class Backoff:
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
