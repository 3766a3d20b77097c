"""Whether the server can be reached, logged once when that changes; and how long to pause before the next try."""

import logging
import random
from collections.abc import Iterator

from ..model.errors import Busy, ToolyardError

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LOGGED_AFTER = 2
"""So many failures in a row are logged. One alone means nothing: a connection was closed while it was idle."""
_log = logging.getLogger("toolyard.worker")


class Reachability:
    """Counts how requests to the server fare, and logs when it stops or starts to answer. Everything that sends reports
    here, from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._failures = 0

    def failed(self, error: ToolyardError) -> None:
        self._failures += 1
        if self._failures == LOGGED_AFTER:
            reason = f" ({error.developer_message})" if error.developer_message else ""
            _log.warning("%s%s; trying again until it answers", error.message.partition(";")[0], reason)

    def worked(self) -> None:
        if self._failures >= LOGGED_AFTER:
            _log.warning("%s answers again", self.url)
        self._failures = 0


def pauses() -> Iterator[float]:
    """Pauses between tries: longer each time up to a bound, and random, because the workers that lost a server together
    must not come back together."""
    longest = FIRST_PAUSE_S
    while True:
        yield longest * random.uniform(0.5, 1.0)
        longest = min(longest * 2, LONGEST_PAUSE_S)


def pause_after(error: ToolyardError, pause: float) -> float:
    """The pause before the next try: at least as long as a busy server asks for."""
    return max(pause, error.retry_after_ms / 1000) if isinstance(error, Busy) else pause
