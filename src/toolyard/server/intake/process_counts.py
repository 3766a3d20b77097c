"""What one process has counted, as it tells the other processes of its group: whoever of them is asked for `/metrics`
answers for all.
"""

import gc
import os
from collections.abc import Iterable

from msgspec import Struct

from .metrics import BUCKETS, Metrics, Series

Labels = tuple[str, str, str]
"""Wire, tool, outcome."""


class CallCount(Struct, array_like=True):
    """One counter of calls: its labels and what `Series` has."""

    labels: Labels
    count: int
    total_s: float
    buckets: list[int]


class ProcessCounts(Struct):
    """The counters of one process, and of those that had its number before it, which are gone."""

    number: int
    """Which process of its group it is, from 1."""
    pid: int
    running: int
    calls: list[CallCount]
    collected: list[tuple[int, int, int]]
    """Of the garbage collector, for each generation: objects collected, not collectable, and collections."""

    @classmethod
    def of(cls, number: int, metrics: Metrics, before: Iterable[CallCount]) -> "ProcessCounts":
        """What this process has counted, and what was counted `before` it."""
        total = added_up([before, counts_of(metrics)])
        collected = [(each["collected"], each["uncollectable"], each["collections"]) for each in gc.get_stats()]
        return cls(number, os.getpid(), metrics.running, counts_of(total), collected)


def counts_of(metrics: Metrics) -> list[CallCount]:
    """The counters of calls, as they are now."""
    return [CallCount(key, each.count, each.total_s, list(each.buckets)) for key, each in metrics.calls.items()]


def added_up(counted: Iterable[Iterable[CallCount]]) -> Metrics:
    """Counters with the sums of all these."""
    total = Metrics()
    for each in (count for counts in counted for count in counts):
        series = total.calls.setdefault(each.labels, Series())
        series.count += each.count
        series.total_s += each.total_s
        if len(each.buckets) == len(BUCKETS) + 1:
            series.buckets = [a + b for a, b in zip(series.buckets, each.buckets, strict=True)]
    return total
