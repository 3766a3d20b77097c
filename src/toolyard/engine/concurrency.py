"""How many of one tool may run at once, on all nodes together. Who comes too early waits in line: for a limited time,
and not behind more than a limited number. Callers take turns, so that who sends much waits longer than who sends
little. Whose credentials end meanwhile, or are for the tool no more, has lost its place, and is refused."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from random import uniform
from typing import Any

from ..model.caller import Caller
from ..model.channel import Audience
from ..model.errors import Busy, Forbidden, NotAuthenticated
from ..model.tool import Tool
from ..runners.turns import TurnQueue, turn_of
from ..store.contract import Store
from ..store.values import StoreDown

LOOK_AGAIN_S = 0.05
Place = asyncio.Future[None]


class Flag:
    """Whether something has happened."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class Slots:
    """The runs that one tool may have at once. On this node callers take turns; among nodes, whoever looks first.
    `async with slots.turn(caller, channel)`."""

    def __init__(self, tool: Tool, size: int, wait_s: float, most_waiting: int, shared: Store | None) -> None:
        self._tool, self._size, self._free, self._wait_s = tool, size, size, wait_s
        self._most_waiting, self._shared = most_waiting, shared
        self._line: TurnQueue[Place] = TurnQueue()
        self._running: set[asyncio.Task[Any] | None] = set()
        self._giving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def turn(self, caller: Caller, client: Audience) -> AsyncIterator[None]:
        """One of the runs, for as long as the block lasts, or until `end_run`. Raises Busy, NotAuthenticated where the
        credentials of the client that waits end first, and Forbidden where they are for the tool no more."""
        await self._take(turn_of(caller), client)
        if not caller.view.lists(self._tool):
            self._give_all_back()
            raise Forbidden(f"These credentials are not for {self._tool.id} any more")
        self._running.add(asyncio.current_task())
        try:
            yield
        finally:
            self.end_run()

    def end_run(self) -> None:
        """The tool of the current task has returned: what is still to be done for its call holds nobody up."""
        if (task := asyncio.current_task()) in self._running:
            self._running.discard(task)
            self._give_all_back()

    async def _take(self, who: Hashable, client: Audience) -> None:
        if self._free > 0 and not self._line:
            self._free -= 1
            if self._shared is None:
                return  # the usual case, in which nobody waits for anything
            place: Place | None = None
        else:
            place = self._place_in_line(who)
        ended = Flag()

        def end() -> None:
            ended.is_set = True
            if place is not None and not place.done():
                place.set_exception(_refusal())

        forget = client.when_expired(end)
        try:
            if place is not None:
                await self._stand_in_line(who, place)
            if self._shared is not None:
                await self._take_shared(self._shared, ended)
        finally:
            forget()
        if ended.is_set:  # just as its turn came
            self._give_all_back()
            raise _refusal()

    def _place_in_line(self, who: Hashable) -> Place:
        if len(self._line) >= self._most_waiting:
            sent_away = self._line.make_room(who) if self._line else None
            if sent_away is None:
                raise self._full()
            if not sent_away.done():
                sent_away.set_exception(self._full())
        place: Place = asyncio.get_running_loop().create_future()
        self._line.join(who, place)
        return place

    async def _stand_in_line(self, who: Hashable, place: Place) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except TimeoutError:
            self._leave(who, place)
            raise self._too_long() from None
        except (asyncio.CancelledError, NotAuthenticated):
            self._leave(who, place)
            raise

    async def _take_shared(self, store: Store, ended: Flag) -> None:
        """A run on all nodes together. What was taken on this node is given back where there is none.

        The limit is for the line, and a look at the ledger is none: one that is free is had however long the ledger
        takes to say so. No look is broken off either, because the ledger may have given a run by then, which no other
        node could have as long as this one lives."""
        now = asyncio.get_running_loop().time
        until = now() + self._wait_s
        try:
            while not await store.take_slot(self._tool.id, self._size):
                if (left := until - now()) <= 0:
                    raise self._too_long()
                await asyncio.sleep(min(left, uniform(0.5, 1.5) * LOOK_AGAIN_S))
                if ended.is_set:
                    raise _refusal()
        except BaseException:
            self._give_back()
            raise

    def _give_all_back(self) -> None:
        self._give_back()
        if self._shared is not None:
            # The ledger may take its time; whoever ran does not wait for it.
            giving = asyncio.get_running_loop().create_task(self._give_shared(self._shared))
            self._giving.add(giving)
            giving.add_done_callback(self._giving.discard)

    async def _give_shared(self, store: Store) -> None:
        with suppress(StoreDown):
            await store.give_slot(self._tool.id)

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
            f"{self._tool.id} is busy; try again later",
            retry_after_ms=max(1, int(self._wait_s * 1000)),
            developer_message=why,
        )


def _refusal() -> NotAuthenticated:
    return NotAuthenticated("The credentials have ended")
