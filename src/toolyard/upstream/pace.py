"""How much of the event loop's time one upstream may take by what it sends.

An upstream may write without an end: notifications, comments, lines that say nothing. Each costs little, and all of
them together everything. So whoever reads counts the time that it takes, and stops reading for a while where it is too
much: the upstream waits then, and nobody else.
"""

import asyncio

WINDOW_S = 1.0
SHARE_S = 0.2
"""Of each `WINDOW_S`."""


class Pace:
    """Counts the time that what one upstream sends has taken."""

    def __init__(self) -> None:
        self._since, self._spent_s = 0.0, 0.0

    def pause_s(self, began: float) -> float:
        """For how long nothing more is read, after something was that took from `began`, by the loop's clock, to now.
        0 where there is no need to wait."""
        now = asyncio.get_running_loop().time()
        if now - self._since >= WINDOW_S:
            self._since, self._spent_s = now, 0.0
        self._spent_s += now - began
        return self._since + WINDOW_S - now if self._spent_s > SHARE_S else 0.0
