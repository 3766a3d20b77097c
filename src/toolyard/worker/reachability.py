"""Whether the server can be reached, said once when that changes; and how long to wait before it is tried again."""

import logging
import random
from collections.abc import Iterator

from ..model.errors import Busy, ToolyardError

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
SAID_AFTER = 2
"""A connection that was closed while it was idle fails once and means nothing."""
_log = logging.getLogger("toolyard.worker")


class Reachability:
    """Told by everybody who sends, from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._failures = 0

    def failed(self, error: ToolyardError) -> None:
        self._failures += 1
        if self._failures == SAID_AFTER:
            reason = f" ({error.developer_message})" if error.developer_message else ""
            _log.warning("%s%s; trying again until it answers", error.message.partition(";")[0], reason)

    def worked(self) -> None:
        if self._failures >= SAID_AFTER:
            _log.warning("%s answers again", self.url)
        self._failures = 0


def pauses() -> Iterator[float]:
    """Longer each time, and never quite the same: those who lost a server together must not come back together."""
    longest = FIRST_PAUSE_S
    while True:
        yield longest * random.uniform(0.5, 1.0)
        longest = min(longest * 2, LONGEST_PAUSE_S)


def pause_after(error: ToolyardError, pause: float) -> float:
    """At least as long as the server asks for."""
    return max(pause, error.retry_after_ms / 1000) if isinstance(error, Busy) else pause
