"""How many of one tool may run at once. Who comes too early waits in line, for a limited time."""

import asyncio
from collections import deque

from ..model.errors import Busy


class Slots:
    """First come, first served."""

    def __init__(self, tool_id: str, size: int, wait_s: float) -> None:
        self._tool_id, self._free, self._wait_s = tool_id, size, wait_s
        self._line: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        if self._free > 0 and not self._line:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except TimeoutError:
            self._leave(place)
            raise Busy(
                f"{self._tool_id} is busy; try again later",
                retry_after_ms=max(1, int(self._wait_s * 1000)),
                developer_message=f"waited {self._wait_s:g} s for one of its concurrent runs to end",
            ) from None
        except asyncio.CancelledError:
            self._leave(place)
            raise

    def give_back(self) -> None:
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _leave(self, place: "asyncio.Future[None]") -> None:
        if place.done() and not place.cancelled():
            self.give_back()  # the place came just as we left
        elif place in self._line:
            self._line.remove(place)
