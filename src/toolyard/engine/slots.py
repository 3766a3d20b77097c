"""How many of one tool may run at once, on all nodes together. Who comes too early waits in line: for a limited time,
and not behind more than a limited number."""

import asyncio
from collections import deque
from contextlib import suppress
from random import uniform

from ..model.errors import Busy
from ..store.contract import Store, StoreDown

LOOK_AGAIN_S = 0.05


class Slots:
    """First come, first served on this node; among nodes, whoever looks first. `async with` it."""

    def __init__(self, tool_id: str, size: int, wait_s: float, most_waiting: int, shared: Store | None) -> None:
        self._tool_id, self._size, self._free, self._wait_s = tool_id, size, size, wait_s
        self._most_waiting, self._shared = most_waiting, shared
        self._line: deque[asyncio.Future[None]] = deque()
        self._giving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        if self._free > 0 and not self._line:
            self._free -= 1
        else:
            await self._stand_in_line()
        if self._shared is not None:
            try:
                await self._take_shared(self._shared)
            except BaseException:
                self._give_back()
                raise

    async def __aexit__(self, *_: object) -> None:
        self._give_back()
        if self._shared is not None:
            giving = asyncio.get_running_loop().create_task(self._give_shared(self._shared))
            self._giving.add(giving)
            giving.add_done_callback(self._giving.discard)

    async def _stand_in_line(self) -> None:
        if len(self._line) >= self._most_waiting:
            raise self._busy(f"{self._most_waiting} calls of it are waiting already")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except TimeoutError:
            self._leave(place)
            raise self._too_long() from None
        except asyncio.CancelledError:
            self._leave(place)
            raise

    async def _take_shared(self, store: Store) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                while not await store.take_slot(self._tool_id, self._size):
                    await asyncio.sleep(uniform(0.5, 1.5) * LOOK_AGAIN_S)
        except TimeoutError:
            raise self._too_long() from None

    async def _give_shared(self, store: Store) -> None:
        with suppress(StoreDown):
            await store.give_slot(self._tool_id)

    def _give_back(self) -> None:
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _leave(self, place: "asyncio.Future[None]") -> None:
        if place.done() and not place.cancelled():
            self._give_back()  # the place came just as we left
        elif place in self._line:
            self._line.remove(place)

    def _too_long(self) -> Busy:
        return self._busy(f"waited {self._wait_s:g} s for one of its concurrent runs to end")

    def _busy(self, why: str) -> Busy:
        return Busy(
            f"{self._tool_id} is busy; try again later",
            retry_after_ms=max(1, int(self._wait_s * 1000)),
            developer_message=why,
        )
