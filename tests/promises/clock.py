"""A clock that the machine owns: the server's, its store's, and everybody's tokens'."""

import asyncio
from collections.abc import Awaitable, Callable

START = 1_900_000_000.0


class ManualClock:
    """It stands still until it is moved. `elapsed` is how much time has passed, also when the clock was set back."""

    def __init__(self) -> None:
        self.now, self.elapsed = START, 0.0
        self.latest = START
        self.followers: list[Callable[[float], Awaitable[None]]] = []
        """Are told of every change."""
        self.moving = asyncio.Lock()
        """Held until everybody has been told: whoever compares two clocks does it while none of them is moved."""

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.elapsed

    async def advance(self, seconds: float) -> None:
        await self._set(self.now + seconds, seconds)

    async def set_back(self, seconds: float) -> None:
        """Nothing happened but that somebody corrected it."""
        await self._set(self.now - seconds)

    async def _set(self, now: float, passed: float = 0.0) -> None:
        async with self.moving:
            self.elapsed += passed
            self.now, self.latest = now, max(self.latest, now)
            for follow in self.followers:
                await follow(now)
