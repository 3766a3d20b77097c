"""How many of one tool may run at once, on all nodes together. Who comes too early waits in line: for a limited time,
and not behind more than a limited number. Callers take turns, so that who sends much waits longer than who sends
little."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from random import uniform

from ..model.caller import Caller
from ..model.errors import Busy
from ..store.contract import Store
from ..store.values import StoreDown

LOOK_AGAIN_S = 0.05
Place = asyncio.Future[None]


class TurnQueue:
    """The line in front of a tool: each caller's places are in order, and callers take turns."""

    def __init__(self) -> None:
        self._places: OrderedDict[Hashable, deque[Place]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, who: Hashable, place: Place) -> None:
        self._places.setdefault(who, deque()).append(place)
        self._count += 1

    def next(self) -> Place | None:
        """Whose turn it is; that caller's next turn comes after all others'."""
        if not self._places:
            return None
        who, places = self._places.popitem(last=False)
        place = places.popleft()
        self._count -= 1
        if places:
            self._places[who] = places
        return place

    def leave(self, who: Hashable, place: Place) -> None:
        places = self._places.get(who, deque())
        if place in places:
            places.remove(place)
            self._count -= 1
            if not places:
                del self._places[who]

    def make_room(self, who: Hashable) -> Place | None:
        """The last place of the caller that has most of them, if it has more than `who` would have then."""
        longest, places = max(self._places.items(), key=lambda each: len(each[1]))
        if len(places) <= len(self._places.get(who, ())) + 1:
            return None
        place = places[-1]
        self.leave(longest, place)
        return place


class Slots:
    """The runs that one tool may have at once. On this node callers take turns; among nodes, whoever looks first.
    `async with slots.turn(caller)`."""

    def __init__(self, tool_id: str, size: int, wait_s: float, most_waiting: int, shared: Store | None) -> None:
        self._tool_id, self._size, self._free, self._wait_s = tool_id, size, size, wait_s
        self._most_waiting, self._shared = most_waiting, shared
        self._line = TurnQueue()
        self._giving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[None]:
        """One of the runs, for as long as the block lasts. Raises Busy."""
        await self._take(caller)
        try:
            yield
        finally:
            self._give_back()
            if self._shared is not None:
                # The ledger may take its time; whoever ran does not wait for it.
                giving = asyncio.get_running_loop().create_task(self._give_shared(self._shared))
                self._giving.add(giving)
                giving.add_done_callback(self._giving.discard)

    async def _take(self, caller: Caller) -> None:
        if self._free > 0 and not self._line:
            self._free -= 1
        else:
            await self._stand_in_line((caller.tenant, caller.subject))
        if self._shared is not None:
            try:
                await self._take_shared(self._shared)
            except BaseException:
                self._give_back()
                raise

    async def _stand_in_line(self, who: Hashable) -> None:
        if len(self._line) >= self._most_waiting:
            sent_away = self._line.make_room(who) if self._line else None
            if sent_away is None:
                raise self._full()
            sent_away.set_exception(self._full())
        place: Place = asyncio.get_running_loop().create_future()
        self._line.join(who, place)
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except TimeoutError:
            self._leave(who, place)
            raise self._too_long() from None
        except asyncio.CancelledError:
            self._leave(who, place)
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
        while (place := self._line.next()) is not None:
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _leave(self, who: Hashable, place: Place) -> None:
        if place.done() and not place.cancelled() and place.exception() is None:
            self._give_back()  # the place came just as we left
        else:
            self._line.leave(who, place)

    def _full(self) -> Busy:
        return self._busy(f"{self._most_waiting} calls of it are waiting already")

    def _too_long(self) -> Busy:
        return self._busy(f"waited {self._wait_s:g} s for one of its concurrent runs to end")

    def _busy(self, why: str) -> Busy:
        return Busy(
            f"{self._tool_id} is busy; try again later",
            retry_after_ms=max(1, int(self._wait_s * 1000)),
            developer_message=why,
        )
