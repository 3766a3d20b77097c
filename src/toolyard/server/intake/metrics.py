"""What is counted. The counters are plain numbers, cheap enough for every call; Prometheus' library is loaded only
when somebody asks for `/metrics`."""

from bisect import bisect_left

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Series:
    """The counter of calls of one tool over one wire that ended in one way: how many, how long in all, and how many of
    them within each of the histogram's times."""

    __slots__ = ("buckets", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)


MOST_SERIES = 5_000
"""Of calls by tool: to show so many takes some 100 ms."""


class Metrics:
    """Counts calls by (wire, tool, outcome). An unknown tool is counted under no name, so that nobody can make
    the table grow by asking for tools that do not exist; and so is each that comes when there are very many: workers
    may offer others all the time, and whoever reads the table has to be sent all of it."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], Series] = {}
        self.running = 0

    def record(self, wire: str, tool: str, outcome: str, seconds: float) -> None:
        key = (wire, tool, outcome)
        series = self.calls.get(key)
        if series is None:
            if len(self.calls) >= MOST_SERIES:
                key = (wire, "", outcome)
            series = self.calls.setdefault(key, Series())
        series.count += 1
        series.total_s += seconds
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
