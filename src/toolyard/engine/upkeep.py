"""What a node does beside its calls: it ends what is overdue, starts what nobody runs, tells the ledger how far its
calls are, removes what is old, and finds out whether the ledger can be written to.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ..store.contract import Store
from ..store.values import StoreDown
from .node import Node
from .restarts import Restarts

EVERY_S = 0.4
CHECK_S = 2.0
SWEEP_S = 30.0
SWEPT_AT_ONCE = 500
SETTLED_AT_ONCE = 500
_log = logging.getLogger("toolyard.ledger")


class Upkeep:
    """The two loops of a node's upkeep. `tell` is told whether the ledger can be used."""

    def __init__(self, node: Node, restarts: Restarts, tell: Callable[[bool], None]) -> None:
        self._store: Store = node.store
        self._node, self._restarts, self._tell = node, restarts, tell
        self._is_up = True

    async def run(self) -> None:
        """Until cancelled."""
        next_sweep = 0.0
        now = asyncio.get_running_loop().time
        while True:
            with suppress(StoreDown):  # `watch` says so
                await self._once()
                if now() >= next_sweep:
                    await self._sweep()
                    next_sweep = now() + SWEEP_S
            await asyncio.sleep(EVERY_S)

    async def watch(self) -> None:
        """Until cancelled. Beside the rest, which may hang in the ledger: a write that is not made in time is none."""
        while True:
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._store.check()
                self._note_store(True)
            except StoreDown as down:
                self._note_store(False, down.developer_message)
            except TimeoutError:
                self._note_store(False, f"a write is not made in {CHECK_S:g} s")
            await asyncio.sleep(EVERY_S)

    async def _once(self) -> None:
        while await self._store.expire(SETTLED_AT_ONCE) == SETTLED_AT_ONCE:
            pass
        await self._restarts.start_all()
        await self._node.tell_progress()

    async def _sweep(self) -> None:
        """A few at once, so that nobody waits for it."""
        while await self._store.sweep(SWEPT_AT_ONCE) >= SWEPT_AT_ONCE:
            await asyncio.sleep(0.05)
        while await self._store.merge():
            await asyncio.sleep(0.05)

    def _note_store(self, up: bool, why: str | None = None) -> None:
        if up != self._is_up:
            _log.warning("the ledger can be used again" if up else f"the ledger cannot be used: {why}")
            self._is_up = up
            self._tell(up)
