"""What was called, minute by minute, kept in the ledger long after the calls themselves are gone: how many calls of
each tool came over each wire, how they ended, and how long they took. Charts stand on it.

It is taken from the counters (`metrics`), which see every call on every wire, so a call pays nothing for it. Each node
writes the totals of its own minute, again and again while the minute lasts: so a write that is made twice counts once,
and what a killed node takes with it is a second of counting.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ...store.contract import Store
from ...store.values import Rollup, StoreDown
from .metrics import Metrics

EVERY_S = 1.0
MINUTE_S = 60
Counted = tuple[int, float, tuple[int, ...]]
"""How many calls, how long in all, and how many of them within each of the histogram's times."""
NOTHING: Counted = (0, 0.0, ())


class RollupWriter:
    """Writes what the counters of a node count in each minute. `now` is the time of day."""

    def __init__(self, metrics: Metrics, store: Store, now: Callable[[], float]) -> None:
        self._metrics, self._store, self._now = metrics, store, now
        self._written: dict[tuple[str, str, str], Counted] = {}
        """The counters as they were at the last write."""
        self._minute = 0
        self._totals: dict[tuple[str, str, str], Counted] = {}
        """What the ledger has of this minute."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.write()

    async def write(self) -> None:
        """Writes what is new. Nothing is lost while the ledger is away: it is counted in the minute in which it can be
        written."""
        series = self._metrics.calls.items()
        counted: dict[tuple[str, str, str], Counted] = {
            key: (each.count, each.total_s, tuple(each.buckets))
            for key, each in series
            if each.count != self._written.get(key, NOTHING)[0]
        }
        if not counted:
            return
        minute = int(self._now() // MINUTE_S)
        known = self._totals if minute == self._minute else {}
        totals = {
            key: _sum(known.get(key, NOTHING), now, self._written.get(key, NOTHING)) for key, now in counted.items()
        }
        with suppress(StoreDown):
            await self._store.put_rollups([Rollup(minute, *key, *total) for key, total in totals.items()])
            self._minute, self._totals = minute, known | totals
            self._written |= counted


def _sum(known: Counted, now: Counted, before: Counted) -> Counted:
    """What was known, and what has come since."""
    buckets = [now[2][place] - (before[2] or (0,) * len(now[2]))[place] for place in range(len(now[2]))]
    added = tuple(each + was for each, was in zip(buckets, known[2] or (0,) * len(buckets), strict=True))
    return known[0] + now[0] - before[0], known[1] + now[1] - before[1], added
