"""The fast lane's ledger rows: written behind, in batches, never more of them waiting than a limit.

A call without a key is answered as soon as it has run. What is lost of these rows when the process dies was never
promised to anybody.
"""

import asyncio
import logging

from ..model.call import CallTool, Outcome
from ..model.errors import ServerError
from ..model.record import Ran
from ..model.running import Run
from ..store.contract import Store

FLUSH_S = 0.02
MOST_WAITING = 10_000
_log = logging.getLogger("toolyard.ledger")


class Recorder:
    """Collects rows and writes them now and then."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[Ran] = []
        self._flushing: asyncio.Task[None] | None = None
        self.lost = 0

    def add(self, command: CallTool, run: Run, outcome: Outcome) -> None:
        """Cheap: a row in a list. A store that does not keep up costs rows, not calls, and says how many."""
        if len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            return
        self._waiting.append((command, run, outcome))
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    def take(self, outcome: Outcome) -> Ran | None:
        """The row of an outcome, for who writes it now, if it still waits. It is one of the last."""
        for index in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[index][2] is outcome:
                return self._waiting.pop(index)
        return None

    async def flushed(self) -> None:
        """What is being written is written, or lost. Whoever waits may be cancelled."""
        if self._flushing is not None:
            await asyncio.wait((self._flushing,))

    async def close(self) -> None:
        """Writes what is left."""
        if self._flushing is not None:
            await self._flushing

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_S)
        while self._waiting:
            rows, self._waiting = self._waiting, []
            try:
                await self._store.record(rows)
            except ServerError as error:
                self.lost += len(rows)
                _log.error("%d calls are missing in the ledger (%d in all): %s", len(rows), self.lost, error.message)
        self._flushing = None
