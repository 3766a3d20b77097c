"""The arithmetic of limits: what was used under one key, here and, as far as they have said, on other nodes.

A meter is a leaky bucket: a minute's calls may come at once, and then room comes back evenly. All of it is whole
numbers of milliseconds, so that the moment at which a refused call would be let in is known exactly, and nothing
drifts.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...model.errors import LimitReached
from ...store.values import Usage

MINUTE_MS = 60_000
UNLIMITED = 10**9
"""Stands for no limit where a number is needed: more calls than any node makes in a minute, or runs."""
NOTHING = Usage(b"", 0, 0, 0, 0)


class Meter:
    """What was used under one key of one limit. `debt` is what is still to be worked off: a call adds a minute's
    milliseconds to it, and each millisecond that passes takes away `most`, the calls a minute. A call is let in while
    `debt` is not above `room`, and while fewer than `at_once` run. `used` and `before` are the calls of the current
    minute and the one before it, for other nodes; `away` is what those last said of theirs."""

    __slots__ = (
        "at_ms", "at_once", "away", "away_running", "before", "debt", "has_news", "most", "name", "room", "running",
        "used", "window",
    )  # fmt: skip

    def __init__(self, name: bytes, now_ms: int, window: int, most: int = UNLIMITED, at_once: int = UNLIMITED) -> None:
        self.name = name
        self.allow(most, at_once)
        self.at_ms, self.window = now_ms, window
        self.debt = self.used = self.before = self.running = self.away_running = 0
        self.away = NOTHING
        self.has_news = False

    def allow(self, most: int, at_once: int) -> None:
        """Lets so many in from now on."""
        self.most, self.at_once, self.room = most, at_once, (most - 1) * MINUTE_MS

    def advance(self, now_ms: int, window: int) -> None:
        """Brings the meter to this moment. `now_ms` never goes back. `window` is the minute that all nodes are in, by
        the ledger's clock, which may be set: one minute back is only two clocks that differ a little."""
        passed = now_ms - self.at_ms
        if passed <= 0:
            return
        self.at_ms = now_ms
        if self.debt:
            self.debt = max(0, self.debt - passed * self.most)
        if window not in (self.window, self.window - 1):
            # Further ahead, nothing is left of the minute before.
            self.before = self.used if window == self.window + 1 else 0
            self.window, self.used = window, 0

    @property
    def is_full(self) -> bool:
        """Whether so many run that no other may."""
        return self.running + self.away_running >= self.at_once

    def wait_ms(self) -> int:
        """How long until one more call fits, rounded up; 0 if it does now."""
        over = self.debt - self.room
        return -(-over // self.most) if over > 0 else 0

    def take(self) -> None:
        """Counts a call that was let in."""
        self.used += 1
        self.running += 1
        self.debt += MINUTE_MS
        self.has_news = True

    def hear(self, away: Usage, shared_ms: int) -> None:
        """Takes in what all other nodes together used by now, which is `shared_ms` on the clock that all share. What is
        new of it since they were last heard becomes debt here, too, but never for more than a minute besides."""
        was, self.away, self.away_running = self.away, away, away.running
        if was.window < away.window - 1:
            # Not heard of for longer than a minute: of the minute before, as much counts as is not worked off yet.
            into = shared_ms % MINUTE_MS if away.window == self.window else MINUTE_MS
            new = away.used - away.before * (into - MINUTE_MS) // MINUTE_MS  # rounded up
        elif was.window < away.window:
            # A minute has ended in between: what came in its rest is in `before`, less what was known of it.
            new = away.used + max(0, away.before - was.used)
        else:
            new = max(0, away.used - was.used)
        if new:
            self.debt = min(self.debt + new * MINUTE_MS, 2 * self.most * MINUTE_MS)


class CountedCall(Struct):
    """What is counted among the calls of its minute, under each limit that is about it, and can be taken back."""

    meters: Sequence[Meter]
    window: int
    """The minute it came in."""

    def take_back(self) -> None:
        """It was no new call after all, such as the retry of a known one, and does not count. To be called once."""
        for meter in self.meters:
            meter.debt = max(0, meter.debt - MINUTE_MS)
            if meter.window == self.window:
                meter.used -= 1
            elif meter.window == self.window + 1:
                meter.before -= 1
            meter.has_news = True


class Admitted(CountedCall):
    """A call that every limit let in. It also counts among those that run at once, until its end."""

    def end(self) -> None:
        """The run is over. To be called once, and harmless after that: there are no meters left."""
        meters, self.meters = self.meters, ()
        for meter in meters:
            meter.running -= 1
            meter.has_news = True

    def take_back(self) -> None:
        CountedCall.take_back(self)
        self.end()


def refusal(wait_ms: int, why: str) -> LimitReached:
    """The error for a caller that has to wait. `why` names the limit, for whoever runs the server."""
    shown = f"{-(-wait_ms // 1000)} s" if wait_ms > 1000 else "a second"
    return LimitReached(f"Too many calls; try again in {shown}", retry_after_ms=wait_ms, developer_message=why)


def added(uses: Iterable[Usage], window: int) -> dict[bytes, Usage]:
    """What several nodes used, added up by the meter's name, as of this minute: what a node said in the minute before
    has become the minute before, and what is older counts for nothing."""
    total: dict[bytes, Usage] = {}
    for use in uses:
        used = use.used if use.window == window else 0
        before = use.before if use.window == window else use.used if use.window == window - 1 else 0
        there = total.get(use.name, NOTHING)
        total[use.name] = Usage(use.name, window, used + there.used, before + there.before, use.running + there.running)
    return total
