"""How one waits for something that the ledger will say: for a call's end, a person's decision, work to claim.

Whoever waits looks at the ledger, and looks again at each hint that there may be something new. Hints between nodes can
be lost, so one looks now and then without any. The waits of the engine and of the wires are made of these functions;
they differ in what they look at, and in who is sent away when the server leaves.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from ..model.call import Outcome
from ..model.errors import KeyConflict
from ..model.lifecycle import ENDED
from ..model.record import CallRecord
from ..store.contract import Store
from ..store.hints import Bell, Topic
from ..store.values import StoreDown

TRY_STORE_AGAIN_S = 0.25
LOOK_AGAIN_S = 0.5
LOOK_SELDOM_S = 5.0
"""While somebody waits for a person: a hint from another node may be lost."""
FOR_EVER_S = float("inf")
T = TypeVar("T")
WhenGone = Callable[[Callable[[], None]], object]
"""Has something called should whoever waits go away."""


class Wait:
    """How long somebody waits: so many seconds from now (None: for ever), and only while they are there."""

    def __init__(self, seconds: float | None, when_gone: WhenGone = lambda callback: None) -> None:
        self._until = math.inf if seconds is None else _now() + seconds
        self.bell, self.is_gone = Bell(), False
        when_gone(self._go)

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.left() <= 0

    def left(self) -> float:
        return self._until - _now()

    def _go(self) -> None:
        self._until, self.is_gone = -math.inf, True
        self.bell.ring()


Look = Callable[[], Awaitable[T]]
Topics = Sequence[tuple[Topic, Hashable]]


async def looked_for(
    store: Store, topics: Topics, wait: Wait, look: Look[T], every_s: float, *, stays: bool = False
) -> T:
    """What `look` finds, as soon as that is something; what it found last, which is nothing, where the wait is over
    before. It looks now, at each hint of one of the topics, and every so often. A server that leaves sends away whoever
    waits, but not who `stays`: they are told of the leaving in another way."""
    with ExitStack() as watching:
        for topic, key in topics:
            watching.enter_context(store.hints.waiting(topic, key, wait.bell))
        found = await look()
        while not found and not wait.is_over and (stays or not store.hints.is_leaving):
            await wait.bell.wait(min(wait.left(), every_s))
            if wait.is_gone:
                break
            found = await look()
    return found


async def holding(store: Store, topics: Topics, wait: Wait, came: Look[bool]) -> bool:
    """Holds a request that has nothing new to say until what it waits for has come: a person's doing. Whether it
    came."""
    return await looked_for(store, topics, wait, came, LOOK_SELDOM_S)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def outcome_from_ledger(store: Store, seq: int) -> Outcome:
    """Waits for the end of a call that somebody else runs, until whoever waits is cancelled."""
    while True:
        try:
            row = await until_ended(store, seq, FOR_EVER_S, stays=True)
        except StoreDown:
            await asyncio.sleep(TRY_STORE_AGAIN_S)
            continue
        if row is None:
            raise KeyConflict("This call's result is no longer kept")
        if row.state in ENDED:
            return row.outcome()


async def until_ended(store: Store, seq: int, wait_s: float, *, stays: bool = False) -> CallRecord | None:
    """A call once it has ended, the time is up, or the server leaves; None where it is not kept. Everybody waits here
    who waits for nothing but the end; who `stays` is told of the leaving in another way."""
    now = asyncio.get_running_loop().time
    deadline = now() + wait_s
    with store.hints.waiting(Topic.ENDED, seq) as bell:
        while True:
            row = await store.row(seq)
            left = deadline - now()
            if row is None or row.state in ENDED or left <= 0 or (store.hints.is_leaving and not stays):
                return row
            await bell.wait(min(left, LOOK_AGAIN_S))
