"""The fast lane's ledger rows: written behind, in batches, never more of them waiting than a limit.

A call without a key is answered as soon as it has run. What is lost of these rows when the process dies was never
promised to anybody.
"""

import asyncio
import logging

from ..model.call import CallTool, Outcome
from ..model.record import Ran
from ..model.run import Run
from ..store.contract import Store
from ..store.values import StoreDown

FLUSH_S = 0.02
MOST_WAITING = 10_000
_log = logging.getLogger("toolyard.ledger")


class WriteBehind:
    """Collects the rows of calls that have ended and writes them to the ledger a moment later, many at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[Ran] = []
        self._there = asyncio.Event()
        self._writing = asyncio.Lock()
        self.lost = 0

    def add(self, command: CallTool, run: Run, outcome: Outcome) -> None:
        """Cheap: a row in a list. A store that does not keep up costs rows, not calls, and says how many."""
        count = len(self._waiting)
        if count >= MOST_WAITING:
            self.lost += 1
            return
        self._waiting.append((command, run, outcome))
        if count == 0:
            self._there.set()

    def take(self, outcome: Outcome) -> Ran | None:
        """The row of an outcome, for who writes it now, if it still waits. It is one of the last."""
        for index in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[index][2] is outcome:
                return self._waiting.pop(index)
        return None

    async def run(self) -> None:
        """Until cancelled. Both are made anew: a server that is started again may run on another event loop."""
        self._there, self._writing = asyncio.Event(), asyncio.Lock()
        while True:
            if not self._waiting:
                await self._there.wait()
            await asyncio.sleep(FLUSH_S)
            self._there.clear()
            await self.flush()

    async def flush(self) -> None:
        """Writes what waits. After this it is written, or lost, also where whoever waits for it is cancelled."""
        async with self._writing:
            rows, self._waiting = self._waiting, []
            writing = asyncio.ensure_future(self._write(rows))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait((writing,))
                raise

    async def _write(self, rows: list[Ran]) -> None:
        if not rows:
            return
        try:
            self._lose(await self._store.record(rows), "they cannot be written")
        except StoreDown as down:
            self._lose(len(rows), down.developer_message or down.message)

    def _lose(self, count: int, why: str) -> None:
        if count:
            self.lost += count
            _log.error("%d calls are missing in the ledger (%d in all): %s", count, self.lost, why)
