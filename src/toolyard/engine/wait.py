"""engine/wait.py"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import ExitStack

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
Came = Callable[[], Awaitable[bool]]
WhenGone = Callable[[Callable[[], None]], object]
"""Has something called should whoever waits go away."""


class Wait:
    """How long somebody waits: so many seconds from now (None: for ever), and only while they are there."""

    def __init__(self, seconds: float | None, when_gone: WhenGone = lambda callback: None) -> None:
        self._until = math.inf if seconds is None else _now() + seconds
        self.bell = Bell()
        when_gone(self._go)

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.left() <= 0

    def left(self) -> float:
        return self._until - _now()

    def _go(self) -> None:
        self._until = -math.inf
        self.bell.ring()


async def holding(store: Store, topics: Sequence[tuple[Topic, Hashable]], wait: Wait, came: Came) -> bool:
    """Holds a request that has nothing new to say until what it waits for has come, and no longer than it waits.
    Whether it came: each hint of one of the topics has `came` look."""
    with ExitStack() as watching:
        for topic, key in topics:
            watching.enter_context(store.hints.waiting(topic, key, wait.bell))
        while not await came():
            if wait.is_over or store.hints.is_leaving:
                return False
            await wait.bell.wait(min(wait.left(), LOOK_SELDOM_S))
    return True


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
