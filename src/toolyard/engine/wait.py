"""How a request waits, whatever it waits for: so long, and only while there is somebody who may be told.

Every long poll and every retry that is held waits in `holding`, so there is one place where a wait ends: what was
waited for has come, the time is up, the client has left, its credentials have ended, or the server leaves."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ..model.call import Outcome
from ..model.channel import Audience, QuietChannel
from ..model.errors import KeyConflict, Unavailable
from ..model.lifecycle import ENDED
from ..model.record import CallRecord
from ..store.contract import Store
from ..store.hints import Bell, Topic
from ..store.values import StoreDown

TRY_STORE_AGAIN_S = 0.25
LOOK_AGAIN_S = 0.5
RETRY_AFTER_MS = 1000
LOOK_SELDOM_S = 5.0
"""While somebody waits for a person: a hint from another node may be lost."""
Came = Callable[[], Awaitable[bool]]


class Wait:
    """How long somebody waits: so many seconds from now (None: for ever), and only while they are there and may be
    told."""

    def __init__(self, seconds: float | None, who: Audience, *, stays: bool = False, only_waits: bool = False) -> None:
        """Who `stays` is told in another way that the server leaves. A request that `only_waits` would come again at
        once if a server that leaves answered it at once: such a one is told when to."""
        self._until = math.inf if seconds is None else _now() + seconds
        self._who, self.stays, self.only_waits = who, stays, only_waits
        self.is_given_up = False
        """Whether the client has left or lost its credentials: nothing is for it any more."""
        self.bell = Bell()
        who.when_gone(self._give_up)

    @classmethod
    def nobodys(cls) -> "Wait":
        """For what the server itself waits for, until whoever waits is cancelled."""
        return cls(None, QuietChannel(), stays=True)

    @contextmanager
    def while_valid(self) -> Iterator[None]:
        """In this block, credentials that end give the wait up, and their request is refused."""
        forget = self._who.when_expired(self._give_up)
        try:
            yield
        finally:
            forget()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.left() <= 0

    def left(self) -> float:
        return self._until - _now()

    def _give_up(self) -> None:
        self._until, self.is_given_up = -math.inf, True
        self.bell.ring()


def stopping() -> Unavailable:
    """What whoever comes too late is told, whose request has changed nothing."""
    return Unavailable("The server is stopping; send the request again", retry_after_ms=RETRY_AFTER_MS)


async def holding(
    store: Store,
    topics: Sequence[tuple[Topic, Hashable]],
    wait: Wait,
    came: Came,
    look_s: float = LOOK_SELDOM_S,
) -> bool:
    """Holds a request that has nothing new to say until what it waits for has come, and no longer than it waits.
    Whether it came: each hint of one of the topics has `came` look, and every `look_s` seconds do. Raises Unavailable
    for a request that only waits, and came to a server that leaves."""
    is_late = store.hints.is_leaving and wait.only_waits
    with ExitStack() as watching:
        watching.enter_context(wait.while_valid())
        for topic, key in topics:
            watching.enter_context(store.hints.waiting(topic, key, wait.bell))
        while not await came():
            if is_late:
                raise stopping()
            if wait.is_over or (store.hints.is_leaving and not wait.stays):
                return False
            await wait.bell.wait(min(wait.left(), look_s))
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()


async def until_one_is_done(futures: "Sequence[asyncio.Future[Any]]", timeout_s: float | None = None) -> None:
    """Waits for the first of them, or for so long. Cancelling whoever waits cancels none of them. It does for a call
    what `asyncio.wait` would, which takes several times as long to look at what it is given."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def wake(_: object = None) -> None:
        if not done.done():
            done.set_result(None)

    timer = None if timeout_s is None else loop.call_later(timeout_s, wake)
    for future in futures:
        future.add_done_callback(wake)
    try:
        await done
    finally:
        if timer is not None:
            timer.cancel()
        for future in futures:
            if not future.done():
                future.remove_done_callback(wake)


async def outcome_from_ledger(store: Store, seq: int) -> Outcome:
    """Waits for the end of a call that somebody else runs, until whoever waits is cancelled."""
    while True:
        try:
            row = await until_ended(store, seq, Wait.nobodys())
        except StoreDown:
            await asyncio.sleep(TRY_STORE_AGAIN_S)
            continue
        if row is None:
            raise KeyConflict("This call's result is no longer kept")
        if row.state in ENDED:
            return row.outcome()


async def until_ended(store: Store, seq: int, wait: Wait) -> CallRecord | None:
    """A call once it has ended, or the wait has; None where it is not kept. Everybody waits here who waits for nothing
    but the end."""
    row: CallRecord | None = None

    async def came() -> bool:
        nonlocal row
        row = await store.glance(seq)
        return row is None or row.state in ENDED

    await holding(store, ((Topic.ENDED, seq),), wait, came, LOOK_AGAIN_S)
    return await store.row(seq) if row is not None and row.is_cut else row
