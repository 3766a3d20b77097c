"""How much more a worker can take: of everything together, and of each tool that has a limit of its own."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from ..model.tool import Tool
from ..model.worker import Claim
from ..wires.lifecycle.requests import MOST_CLAIMED, MOST_PATTERNS

POLL_S = 20.0
"""How long the server may keep a claim waiting for work."""
SHORT_POLL_S = 1.0
"""The same, where the claim does not name all the tools: the others must not wait for long."""


class Capacity:
    """For `size` runs at once."""

    def __init__(self, tools: Iterable[Tool], size: int) -> None:
        self._limits = {tool.reference: tool.concurrency or size for tool in tools}
        self._running: Counter[str] = Counter()
        self._size = size
        self._turn = 0
        self._changed = asyncio.Event()

    def take(self, reference: str) -> None:
        self._running[reference] += 1

    def give_back(self, reference: str) -> None:
        self._running[reference] -= 1
        self._changed.set()

    async def changed(self) -> None:
        """Until something was given back since `claim` looked."""
        await self._changed.wait()

    def claim(self) -> Claim | None:
        """As much as there is room for, whichever of its tools it is. None: there is no room."""
        self._changed.clear()
        left = {reference: limit - self._running[reference] for reference, limit in self._limits.items()}
        asked = self._next([reference for reference, free in left.items() if free > 0])
        free = self._size - self._running.total()
        if not asked or free <= 0:
            return None
        limit = min(free, MOST_CLAIMED, *(left[reference] for reference in asked))
        return Claim(tuple(asked), limit, POLL_S if len(asked) == len(left) else SHORT_POLL_S)

    def _next(self, references: list[str]) -> list[str]:
        """As many as one claim may name; the others the next time."""
        if len(references) <= MOST_PATTERNS:
            return references
        start = self._turn % len(references)
        self._turn = start + MOST_PATTERNS
        return (references + references)[start : start + MOST_PATTERNS]
