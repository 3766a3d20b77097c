"""What one caller may have of the server's memory by replies: how many large results are read of the ledger, or made by
its tools, at once, and how many bytes of replies may wait for a client that does not read them.

A reply is whole in memory until its client has read it, and so is what was read of the ledger for it; without a bound,
sixty connections that ask for the same large result and read nothing would hold it sixty times. Whoever has no room
waits, while its client is there: for its own other requests, never for another caller's. A client that reads nothing is
ended after `write_timeout_s`, and gives its room back.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from ...model.caller import Caller
from .exchange import Exchange, give_up

LARGE_REPLY = 256 * 2**10
"""Smaller ones are not counted: connections are, and that is enough."""
MOST_UNSENT = 64 * 2**20
MOST_READS = 2
Whose = tuple[str, ...]
"""The caller's tenant and subject; with `RECORDED` for its results on their way to the ledger, which wait for no
client."""
RECORDED = "recorded"


class Place:
    """A large read that goes on, until its request's handler is done or it is given up."""

    def __init__(self, give: Callable[[], None]) -> None:
        self._give: Callable[[], None] | None = give

    def give(self) -> None:
        """The place is somebody else's now; does nothing the second time."""
        give, self._give = self._give, None
        if give is not None:
            give()


class ReplyBudget:
    """Counts, for each caller, its large reads and the bytes of its replies that were not sent yet."""

    def __init__(self) -> None:
        self._reads: Counter[Whose] = Counter()
        self._unsent: Counter[Whose] = Counter()
        self._waiting: dict[Whose, deque[asyncio.Future[None]]] = {}
        self.full: set[Whose] = set()
        """Who has so much unsent that nothing new is begun for them. Every request looks here."""

    async def read(self, exchange: Exchange) -> Place:
        """A place to read what may be large, until the handler is done: its reply is written before anybody else is
        woken. Raises Gone where the client leaves while it waits for one."""
        whose = _whose(exchange.caller)
        while self._reads[whose] >= MOST_READS or whose in self.full:
            await self._wait(whose, exchange)
        exchange.at_end.append((place := self._begin_read(whose)).give)
        return place

    async def place(self, caller: Caller) -> Place:
        """The same, for a result that a stream or an attempt has to do with: whoever asks gives it back, and is
        cancelled where its client leaves."""
        return await self._place(_whose(caller))

    async def ledger_place(self, caller: Caller) -> Place:
        """The same, for a result that is only written to the ledger: it is not kept for its reply."""
        return await self._place((*_whose(caller), RECORDED))

    async def _place(self, whose: Whose) -> Place:
        while self._reads[whose] >= MOST_READS or whose in self.full:
            await self._wait(whose)
        return self._begin_read(whose)

    def may_keep(self, exchange: Exchange, size: int) -> bool:
        """Whether a result that was read without a place may be kept for its reply: it is small, or there is a place
        for it now, which it has then. Else it must be let go, and read again in its turn."""
        if size <= LARGE_REPLY:
            return True
        whose = _whose(exchange.caller)
        if self._reads[whose] >= MOST_READS or whose in self.full:
            return False
        exchange.at_end.append(self._begin_read(whose).give)
        return True

    async def room(self, exchange: Exchange) -> None:
        """Waits until the caller's clients have read enough of what they were sent. Raises Gone."""
        whose = _whose(exchange.caller)
        while whose in self.full:
            await self._wait(whose, exchange)

    def hold(self, caller: Caller, size: int) -> Callable[[], None]:
        """So many bytes wait for a client to read them, until what this returns is called."""
        whose = _whose(caller)
        self._unsent[whose] += size
        if self._unsent[whose] >= MOST_UNSENT:
            self.full.add(whose)

        def sent() -> None:
            self._unsent[whose] -= size
            if self._unsent[whose] < MOST_UNSENT:
                self.full.discard(whose)
                self._wake(whose)
            if not self._unsent[whose]:
                del self._unsent[whose]

        return sent

    def _begin_read(self, whose: Whose) -> Place:
        self._reads[whose] += 1
        return Place(lambda: self._end_read(whose))

    def _end_read(self, whose: Whose) -> None:
        self._reads[whose] -= 1
        if not self._reads[whose]:
            del self._reads[whose]
        self._wake(whose)

    async def _wait(self, whose: Whose, exchange: Exchange | None = None) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(whose, deque()).append(woken)
        if exchange is not None:
            exchange.when_gone(partial(give_up, woken))
        try:
            await woken
        except BaseException:
            # It may have been woken in the same moment: then the next one has to look in its place.
            self._wake(whose)
            raise

    def _wake(self, whose: Whose) -> None:
        """Has as many look again as there may be room for; who finds none waits on."""
        waiting = self._waiting.get(whose)
        woken = 0
        while waiting and woken < MOST_READS:
            first = waiting.popleft()
            if not first.done():
                first.set_result(None)
                woken += 1
        if waiting is not None and not waiting:
            del self._waiting[whose]


def _whose(caller: Caller) -> Whose:
    return caller.tenant, caller.subject
