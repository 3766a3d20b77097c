"""Turns among callers for what is large: the requests with a large body, and (`large_results`) the results.

What a large body costs, to check it, to decode it and to walk through it, is time on the loop: little for one, and
seconds for sixty that came at once. So they are worked on one at a time, and between two of them the loop goes round a
few times: whoever else has something ready is served first. Callers take turns among themselves, however many requests
each of them has waiting. Small requests never come here.

A request that only waits, for its tool or for a person, must hold nobody up: its turn is over when it is answered, or
when the loop has had nothing to do for a while.
"""

import asyncio
import gc
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ...model.caller import Caller
from .exchange import Exchange, give_up

LARGE_BODY = 64 * 2**10
ROUNDS = 8
"""How often the loop goes round between two turns. A call of somebody else's takes about so many from its first byte to
its reply; on a loop that has nothing else to do they take no time."""
TICK_S = 0.005
IDLE_TICKS = 4
"""A tick that comes in time shows that the loop was free; after so many, the request whose turn it is only waits."""
MOST_TICKS = 200
"""After which its turn is over in any case."""


class Turns:
    """Whose turn it is, and who waits for one."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str], deque[asyncio.Future[None]]] = OrderedDict()
        """By caller; the first of them is next."""
        self._number = 0
        """Counts turns: one that is over twice is over once."""
        self._is_taken = False

    async def wait(self, exchange: Exchange) -> None:
        """Returns when it is the request's turn, for `held`. Raises Gone where its client leaves before that."""
        await self.wait_for(exchange.caller, lambda turn: exchange.when_gone(partial(give_up, turn)))

    async def wait_for(
        self, caller: Caller, on_wait: "Callable[[asyncio.Future[None]], object]" = lambda turn: None
    ) -> None:
        """Returns when it is the turn of one that this caller has waiting, for `begin`. `on_wait` is told of the future
        that it waits for, if it has to."""
        if not self._is_taken:
            self._is_taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((caller.tenant, caller.subject), deque()).append(turn)
        on_wait(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(0)
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """In this block the request is worked on, whose turn it is."""
        number = self.begin()
        try:
            yield
        finally:
            self.end(number)

    def begin(self) -> int:
        """The one whose turn it is is worked on, until `end` is told this number."""
        self._number += 1
        self._tick(self._number, asyncio.get_running_loop().time(), 0, 0)
        return self._number

    def _tick(self, number: int, due: float, ticks: int, idle: int) -> None:
        """Ends a turn in which the loop has been free, or which has been long enough."""
        loop = asyncio.get_running_loop()
        if number != self._number:
            return
        now = loop.time()
        idle += ticks > 0 and now - due < TICK_S
        if idle >= IDLE_TICKS or ticks >= MOST_TICKS:
            self.end(number)
        else:
            loop.call_later(TICK_S, self._tick, number, now + TICK_S, ticks + 1, idle)

    def end(self, number: int) -> None:
        """That turn is over, if it is not yet."""
        if number == self._number:
            self._number += 1
            self._pass_on(0)

    def _pass_on(self, rounds: int) -> None:
        """Once the loop has gone round, it is the turn of the next."""
        if rounds < ROUNDS:
            asyncio.get_running_loop().call_soon(self._pass_on, rounds + 1)
            return
        # A request that was refused may be held by its own exception, in a cycle. With a large body that must not wait
        # until Python looks for cycles by itself, which a server has it do seldom.
        gc.collect(1)
        turn = self._next()
        if turn is None:
            self._is_taken = False
        else:
            turn.set_result(None)

    def _next(self) -> "asyncio.Future[None] | None":
        """The turn of the caller who has waited longest for one; the caller goes to the end of the row."""
        while self._waiting:
            whose, turns = self._waiting.popitem(last=False)
            while turns:
                turn = turns.popleft()
                if not turn.done():  # its client has not left
                    if turns:
                        self._waiting[whose] = turns
                    return turn
        return None
