"""Counts of what was used under one key, in whole numbers: here, and on other nodes as far as they have said."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...model.errors import LimitReached
from ...store.values import Usage

MINUTE_MS = 60_000
UNLIMITED = 10**9
NOTHING = Usage(b"", 0, 0, 0, 0)


class Meter:
    """What was used under one key. `debt` is what is still to be worked off: a call adds a minute's milliseconds to it,
    and each millisecond takes away as many as there are calls a minute. There is room for a call below `room`, and for
    its run below `at_once`."""

    __slots__ = (
        "at_ms", "at_once", "away", "away_running", "before", "debt", "has_news", "most", "name", "room", "running",
        "used", "window",
    )  # fmt: skip

    def __init__(self, name: bytes, now_ms: int, window: int, most: int = UNLIMITED, at_once: int = UNLIMITED) -> None:
        self.name, self.most, self.at_once = name, most, at_once
        self.room = (most - 1) * MINUTE_MS
        self.at_ms, self.window = now_ms, window
        self.debt = self.used = self.before = self.running = self.away_running = 0
        self.away = NOTHING
        self.has_news = False

    def advance(self, now_ms: int, window: int) -> None:
        """`now_ms` never goes back. `window` is the minute that all nodes are in, by a clock that may be set; one
        minute back is only two clocks that differ a little."""
        passed = now_ms - self.at_ms
        if passed <= 0:
            return
        self.at_ms = now_ms
        if self.debt:
            self.debt = max(0, self.debt - passed * self.most)
        if window not in (self.window, self.window - 1):
            self.before = self.used if window == self.window + 1 else 0
            self.window, self.used = window, 0

    @property
    def is_full(self) -> bool:
        """Whether so many run that no other may."""
        return self.running + self.away_running >= self.at_once

    def wait_ms(self) -> int:
        """How long until one more fits; 0 if it does now."""
        over = self.debt - self.room
        return -(-over // self.most) if over > 0 else 0

    def take(self) -> None:
        self.used += 1
        self.running += 1
        self.debt += MINUTE_MS
        self.has_news = True

    def hear(self, away: Usage, shared_ms: int) -> None:
        """What all others together used by now, which is `shared_ms` on the clock that all have. What is new of it is
        worked off here, too, but never for longer than a minute more."""
        was, self.away, self.away_running = self.away, away, away.running
        if was.window < away.window - 1:
            into = shared_ms % MINUTE_MS if away.window == self.window else MINUTE_MS
            new = away.used - away.before * (into - MINUTE_MS) // MINUTE_MS  # rounded up
        elif was.window < away.window:
            new = away.used + max(0, away.before - was.used)
        else:
            new = max(0, away.used - was.used)
        if new:
            self.debt = min(self.debt + new * MINUTE_MS, 2 * self.most * MINUTE_MS)


class CountedCall(Struct):
    """A call that counts among those of its minute."""

    meters: Sequence[Meter]
    window: int
    """The minute it came in."""

    def take_back(self) -> None:
        """It was no new call after all: it does not count. Once."""
        for meter in self.meters:
            meter.debt = max(0, meter.debt - MINUTE_MS)
            if meter.window == self.window:
                meter.used -= 1
            elif meter.window == self.window + 1:
                meter.before -= 1
            meter.has_news = True


class Admitted(CountedCall):
    """A call that was let in. It also counts among those at once, until its end."""

    def end(self) -> None:
        """The run is over. Once."""
        meters, self.meters = self.meters, ()
        for meter in meters:
            meter.running -= 1
            meter.has_news = True

    def take_back(self) -> None:
        CountedCall.take_back(self)
        self.end()


def refusal(wait_ms: int, why: str) -> LimitReached:
    shown = f"{-(-wait_ms // 1000)} s" if wait_ms > 1000 else "a second"
    return LimitReached(f"Too many calls; try again in {shown}", retry_after_ms=wait_ms, developer_message=why)


def added(uses: Iterable[Usage], window: int) -> dict[bytes, Usage]:
    """All nodes together, by name, as of this minute."""
    total: dict[bytes, Usage] = {}
    for use in uses:
        used = use.used if use.window == window else 0
        before = use.before if use.window == window else use.used if use.window == window - 1 else 0
        there = total.get(use.name, NOTHING)
        total[use.name] = Usage(use.name, window, used + there.used, before + there.before, use.running + there.running)
    return total
