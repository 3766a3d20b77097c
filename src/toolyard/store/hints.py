"""Who wants to know when something in the ledger changes.

A hint says where to look, not what is there: whoever gets one reads the ledger. A store tells of its own writes at
once; one that is shared by many nodes also tells of theirs, at the latest when its poller looks at what is watched.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from ..model.lifecycle import ENDED, State
from ..model.record import NewCall
from ..model.writes import CallState


class Topic(StrEnum):
    """The kinds of change in a ledger that somebody may wait for; each says what its key is."""

    ENDED = "ended"
    """A call ended; its key is the call's number."""
    PENDING = "pending"
    """There may be work to claim."""
    SESSION = "session"
    """Something happened in a session; its key is the session's id."""
    WORKERS = "workers"
    """A worker came, went, or has other tools."""
    UPSTREAMS = "upstreams"
    """An upstream offers something else than before, or was dropped."""
    QUESTION = "question"
    """A call asked something, or was answered; its key is the call's number."""
    KEYS = "keys"
    """An API key came, or was revoked."""
    WAITING = "waiting"
    """A call waits for something from now on; its key is what."""
    DECIDED = "decided"
    """What a person was sent for is done, or not wanted any more; its key is the number of the call that waited, or a
    challenge's id."""
    KEPT = "kept"
    """Something new was put into the vault; its key is the kind of thing."""
    OFFERED = "offered"
    """The prompts or resources of an author's own server changed; its key says which."""
    FOLLOWED = "followed"
    """A client follows other resources than before; its key is the client's session."""
    HEARD = "heard"
    """There is something to be told to a client; its key is the client's session."""


def came(call: NewCall) -> Iterator[tuple[Topic, Hashable]]:
    """The hints that a new call gives."""
    if call.queue != "node" and call.ending is None:
        yield Topic.PENDING, ""
    if call.waiting_for is not None:
        yield Topic.WAITING, call.waiting_for


def changed(before: CallState, after: CallState) -> Iterator[tuple[Topic, Hashable]]:
    """The hints that a change of a call gives."""
    if after.state in ENDED:
        yield Topic.ENDED, after.seq
    elif after.state is State.PENDING:
        yield Topic.PENDING, ""
    if before.waiting_for not in (None, after.waiting_for):
        yield Topic.DECIDED, after.seq
    if after.waiting_for not in (None, before.waiting_for):
        yield Topic.WAITING, after.waiting_for


class Hints:
    """Listeners by topic and key. For one event loop."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[Topic, Hashable], list[Callable[[], None]]] = {}
        self._by_topic: dict[Topic, list[Callable[[Hashable], None]]] = {}
        self._bells: set[Bell] = set()
        self.told: Counter[Topic] = Counter()
        """How many hints there were of each topic: who has looked since the last one has nothing new to see."""
        self.is_leaving = False
        """Whoever only waits should stop waiting: the server leaves."""

    def watch(self, topic: Topic, key: Hashable, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` at each hint, until what this returns is called."""
        there = self._listeners.setdefault((topic, key), [])
        there.append(listener)

        def forget() -> None:
            if listener in there:
                there.remove(listener)
            if not there and self._listeners.get((topic, key)) is there:
                del self._listeners[topic, key]

        return forget

    def watch_all(self, topic: Topic, listener: Callable[[Hashable], None]) -> Callable[[], None]:
        """Calls `listener` with the key of each hint of a topic, until what this returns is called."""
        there = self._by_topic.setdefault(topic, [])
        there.append(listener)
        return lambda: there.remove(listener)

    def tell(self, topic: Topic, key: Hashable = "") -> None:
        self.told[topic] += 1
        for hear in list(self._by_topic.get(topic, ())):
            hear(key)
        for listener in list(self._listeners.get((topic, key), ())):
            listener()

    def watched(self, topic: Topic) -> list[Hashable]:
        """The keys somebody waits for."""
        return [key for watched, key in self._listeners if watched is topic]

    @contextmanager
    def waiting(self, topic: Topic, key: Hashable = "", bell: "Bell | None" = None) -> Iterator["Bell"]:
        """A bell, the given one or another, that rings at each hint. Look at the ledger after this began, and again
        after each ring."""
        bell = bell or Bell()
        forget = self.watch(topic, key, bell.ring)
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)
            forget()

    def stay(self) -> None:
        """The server starts, perhaps again: whoever waits may wait."""
        self.is_leaving = False

    def leave(self) -> None:
        """Rings every bell, for the last time."""
        self.is_leaving = True
        for bell in self._bells:
            bell.ring()


class Bell:
    """Rings once for any number of hints since it was last waited for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float | None) -> bool:
        """Whether it rang, in that time; None is for ever."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
