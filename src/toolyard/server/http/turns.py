"""Turns among callers for what is large: the requests with a large body, or one of many values, and (`large_results`)
the results.

What a large body costs, to check it, to decode it and to walk through it, is time on the loop: little for one, and
seconds for sixty that came at once. So they are worked on one at a time, and between two of them the loop goes round a
few times: whoever else has something ready is served first. A call of somebody else's may also wait for the ledger or
for a worker between two of its steps, and would then find the next large body before it each time: so who took the
loop for long leaves it to others for half as long. Callers take turns among themselves, however many requests each of
them has waiting. Small requests never come here.

A request that only waits, for its tool or for a person, must hold nobody up: its turn is over when it is answered, or
when the loop has had nothing to do for a while.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ...model.caller import Caller
from ...runners.turns import TurnQueue, turn_of
from .exchange import Exchange, Gone, give_up

LARGE_BODY = 64 * 2**10
DENSE_BODY, MOST_VALUES = 8 * 2**10, 2000
"""A smaller body takes turns, too, where it has more values than that: sixteen thousand numbers are less than 64 KiB,
and 20 ms."""
COLLECT_S, COLLECTED_S = 2.0, 60.0
"""How often all garbage is collected after a large request, and for how long: it may wait for a person meanwhile."""
ROUNDS = 8
"""How often the loop goes round between two turns. A call of somebody else's takes about so many from its first byte to
its reply; on a loop that has nothing else to do they take no time."""
GIVEN_BACK = 0.5
"""Of the processor time that a turn took, how much passes before the next."""
LEAST_S, MOST_S = 0.01, 1.0
"""What is not worth it, and what is enough."""
TICK_S = 0.005
IDLE_TICKS = 4
"""A tick that comes in time shows that the loop was free; after so many, the request whose turn it is only waits."""
MOST_TICKS = 200
"""After which its turn is over in any case."""


def takes_turns(body: bytes) -> bool:
    """Whether a body is one that costs much. To be asked of those that are larger than `DENSE_BODY`."""
    return len(body) > LARGE_BODY or body.count(b",") > MOST_VALUES


class Turns:
    """Whose turn it is, and who waits for one."""

    def __init__(self) -> None:
        self._line: TurnQueue[asyncio.Future[None]] = TurnQueue()
        self._number = 0
        """Counts turns: one that is over twice is over once."""
        self._is_taken = False
        self._since = 0.0
        """How much processor time the loop's thread had taken when this turn began."""
        self._collects, self._collects_until = False, 0.0

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
        self._line.join(turn_of(caller), turn)
        on_wait(turn)
        try:
            await turn
        except (asyncio.CancelledError, Gone):
            self._line.leave(turn_of(caller), turn)
            # Stopped just as its turn came: that goes to the next.
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
        self._since = time.thread_time()
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
        given_back = min((time.thread_time() - self._since) * GIVEN_BACK, MOST_S)
        if given_back > LEAST_S:
            asyncio.get_running_loop().call_later(given_back, self._give)
        else:
            self._give()

    def _give(self) -> None:
        # A request that was refused may be held by its own exception, in a cycle. With a large body that must not wait
        # until Python looks for cycles by itself, which a server has it do seldom.
        gc.collect(1)
        self._collect_later()
        turn = self._next()
        if turn is None:
            self._is_taken = False
        else:
            turn.set_result(None)

    def _collect_later(self) -> None:
        """One that is refused only after it has waited, as for a person, is old by then, and found by a look at all."""
        loop = asyncio.get_running_loop()
        self._collects_until = loop.time() + COLLECTED_S
        if not self._collects:
            self._collects = True
            loop.call_later(COLLECT_S, self._collect)

    def _collect(self) -> None:
        gc.collect()
        loop = asyncio.get_running_loop()
        self._collects = loop.time() < self._collects_until
        if self._collects:
            loop.call_later(COLLECT_S, self._collect)

    def _next(self) -> "asyncio.Future[None] | None":
        """The turn of the caller who has waited longest for one."""
        while (turn := self._line.next()) is not None:
            if not turn.done():  # otherwise its client has left, and it is about to leave the line
                return turn
        return None
