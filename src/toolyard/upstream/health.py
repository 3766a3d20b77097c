"""How an upstream fares: whether calls may be tried, and figures for whoever runs the server.

After a few failures in a row to reach it, calls are refused at once and told when to come back; one call at a time is
then let through to see whether it is back. So a dead upstream costs its callers nothing but the sentence.
"""

import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

FAILURES = 3
"""In a row: after so many the upstream is taken to be down."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
KEPT_DURATIONS = 500


class UpstreamState(StrEnum):
    """What an upstream is doing, as far as this server knows."""

    NEW = "new"
    """Nobody has tried to connect yet."""
    UP = "up"
    DOWN = "down"
    """It could not be reached, or did not behave, the last few times."""


class HealthFigures(Struct, frozen=True):
    """An upstream's figures, since this server started."""

    state: str
    since: float
    """When the state was entered, in seconds since 1970."""
    trouble: str
    calls: int
    errors: int
    p50_ms: float | None
    p99_ms: float | None


class UpstreamHealth:
    """The circuit breaker of one upstream, and its figures."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time) -> None:
        self._monotonic, self._now = monotonic, now
        self.state = UpstreamState.NEW
        self.since = now()
        self.trouble = ""
        self._failures, self._pause_s, self._retry_at = 0, 0.0, 0.0
        self._is_trying = False
        self.calls = self.errors = 0
        self._durations: deque[float] = deque(maxlen=KEPT_DURATIONS)

    def refuses_s(self) -> float | None:
        """For how long calls are refused from now on; None where one may be tried, which is then counted on to report
        back with `works` or `fails`."""
        if self.state is not UpstreamState.DOWN:
            return None
        left = self._retry_at - self._monotonic()
        if left > 0 or self._is_trying:
            return max(left, 0.1)
        self._is_trying = True
        return None

    def works(self) -> None:
        """It was reached, and answered."""
        self._failures, self._pause_s, self._is_trying = 0, 0.0, False
        self.trouble = ""
        self._enter(UpstreamState.UP)

    def fails(self, trouble: str) -> None:
        """It could not be reached, or did not behave."""
        self._is_trying = False
        self._failures += 1
        self.trouble = trouble
        if self._failures >= FAILURES or self.state is not UpstreamState.UP:
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._retry_at = self._monotonic() + self._pause_s
            self._enter(UpstreamState.DOWN)

    def gives_up(self) -> None:
        """A trial ended without a verdict: its caller left."""
        self._is_trying = False

    @property
    def pause_s(self) -> float:
        """How long to wait before it is tried again."""
        return max(self._retry_at - self._monotonic(), 0.0)

    def counted(self, duration_ms: float, *, is_error: bool) -> None:
        self.calls += 1
        self.errors += is_error
        self._durations.append(duration_ms)

    def figures(self) -> HealthFigures:
        ordered = sorted(self._durations)
        p50, p99 = (ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]) if ordered else (None, None)
        return HealthFigures(self.state.value, self.since, self.trouble, self.calls, self.errors, p50, p99)

    def _enter(self, state: UpstreamState) -> None:
        if state is not self.state:
            self.state, self.since = state, self._now()
