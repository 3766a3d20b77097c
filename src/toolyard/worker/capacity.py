"""How many more calls a worker can take: of all tools together, and of each tool that has a limit of its own."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from ..model.tool import Tool
from ..model.worker import Claim
from ..wires.lifecycle.requests import MOST_CLAIMED, MOST_PATTERNS

POLL_S = 20.0
"""How long the server may hold a claim that finds no work."""
SHORT_POLL_S = 1.0
"""The same for a claim that does not name all tools: work for the others must not wait for it."""


class Capacity:
    """Counts the runs under way, of which there may be `size` at once, and says what to claim next."""

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
        """Waits until a run has ended since the last `claim`."""
        await self._changed.wait()

    def claim(self) -> Claim | None:
        """A claim for as many calls as there is capacity for; None where there is none."""
        self._changed.clear()
        left = {reference: limit - self._running[reference] for reference, limit in self._limits.items()}
        tools = self._next([reference for reference, free in left.items() if free > 0])
        free = self._size - self._running.total()
        if not tools or free <= 0:
            return None
        # All of the calls that come may be of the tool with the least room, so that bounds the claim.
        limit = min(free, MOST_CLAIMED, *(left[reference] for reference in tools))
        return Claim(tuple(tools), limit, POLL_S if len(tools) == len(left) else SHORT_POLL_S)

    def _next(self, references: list[str]) -> list[str]:
        """As many tools as one claim may name, in turn: those that are left out are in the next claim."""
        if len(references) <= MOST_PATTERNS:
            return references
        start = self._turn % len(references)
        self._turn = start + MOST_PATTERNS
        return (references + references)[start : start + MOST_PATTERNS]
