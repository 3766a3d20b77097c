"""A caller that keeps calling although a limit refuses it is answered later and later.

A refusal that is held back costs the server nothing but its connection, on which nothing else is read meanwhile. A
client that waits as `Retry-After` says never notices; one that does not slows down only itself.
"""

import asyncio
from collections.abc import Hashable
from random import uniform

FREE = 1
"""So many refusals in a row cost nothing: a caller that waits as it was told never has more."""
FIRST_S, LONGEST_S = 0.016, 1.0
STEPS = 7
"""How often the pause doubles, which takes it beyond the longest. The count goes no further, so that a caller that has
come to its senses is soon forgotten."""
MOST_KNOWN = 20_000
MOST_HELD = 20_000
"""Refusals that are held back at once. Those beyond go out now, or holding them would fill the memory."""


class Backoff:
    """Knows how often each caller was refused more than it was let in, and holds its refusals back accordingly."""

    def __init__(self) -> None:
        self.refused: dict[Hashable, int] = {}
        """By caller. It is empty most of the time, so whoever lets a call in looks here before it calls `let_in`."""
        self._held = 0

    def let_in(self, who: Hashable) -> None:
        """A call was let in, which makes up for one refusal."""
        count = self.refused.pop(who, 0)
        if count > 1:
            self.refused[who] = count - 1

    def pause_s(self, who: Hashable) -> float:
        """How long to hold back the refusal that was just made, and counts it."""
        count = self.refused.pop(who, 0)
        # Put in again below, a caller goes to the end of the dict: the first one was not heard of for longest.
        if len(self.refused) >= MOST_KNOWN:
            self.refused.pop(next(iter(self.refused)))
        self.refused[who] = min(count + 1, FREE + STEPS)
        return min(LONGEST_S, FIRST_S * 2 ** (count - FREE)) if count >= FREE else 0.0

    async def hold(self, who: Hashable) -> float:
        """Holds a refusal back, unless too many are held; for how long, in seconds. The pause is drawn by chance, or
        the refusals of many connections would go out, and their retries come in, all together."""
        pause_s = self.pause_s(who) * uniform(0.5, 1.0)
        if not pause_s or self._held >= MOST_HELD:
            return 0.0
        self._held += 1
        try:
            await asyncio.sleep(pause_s)
        finally:
            self._held -= 1
        return pause_s
