"""How a node hears of what others wrote.

Hints are collected and sent as notifications every few milliseconds, outside the writes they are about: a commit that
holds a notification makes every other such commit wait. A notification can be lost with its connection, so a poller
looks at what is watched, now and then; it is the poller that is relied on.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ...model.errors import ToolyardError
from ...model.json_value import decoder
from ..hints import Hints, Topic
from .connections import BREAKS, Connection, Pool, connect, reason
from .rows import SQL, PendingHints, encode

SEND_EVERY_S = 0.01
LOOK_EVERY_S = 0.2
LOOK_SELDOM = 5
"""At what is looked at as a whole: once in so many looks."""
WHOLE = {
    Topic.WORKERS: SQL.workers_alive,
    Topic.UPSTREAMS: SQL.upstream_revisions,
    Topic.KEYS: SQL.key_changes,
}
LISTEN_AGAIN_S, STILL_THERE_S = 0.5, 5.0
LONGEST_PAYLOAD = 7900
LONGEST_CHANNEL = 63
T = TypeVar("T")
_log = logging.getLogger("toolyard.ledger")


class Notice(Struct):
    """What one notification says. A node takes no notice of its own."""

    node: str
    topic: Topic
    keys: list[int | str]


_decode = decoder(Notice)


def channel_of(schema: str) -> str:
    return f"toolyard_{schema}".encode()[:LONGEST_CHANNEL].decode(errors="ignore")


class Sender:
    """Collects hints for other nodes, and sends them as notifications. One that cannot be sent is dropped: the others'
    pollers see the change all the same."""

    def __init__(self, link: Pool, node: str) -> None:
        self._link, self._node = link, node
        self.channel = ""
        self._waiting: PendingHints = set()
        self._there = asyncio.Event()

    def add(self, told: PendingHints) -> None:
        if told:
            self._waiting |= told
            self._there.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._there = asyncio.Event()
        while True:
            await self.send()
            await self._there.wait()
            await asyncio.sleep(SEND_EVERY_S)
            self._there.clear()

    async def send(self) -> None:
        """What there is to tell. Whoever is stopped in the middle of it leaves it to be told again: who only decides
        something and closes the ledger is heard all the same."""
        told, self._waiting = self._waiting, set()
        if not told:
            return
        try:
            await self._link.read(partial(self._notify, payloads=list(payloads_of(self._node, told))))
        except asyncio.CancelledError:
            self._waiting |= told
            raise
        except ToolyardError as error:
            _log.debug("other nodes are not told now: %s", error.developer_message)

    async def _notify(self, connection: Connection, payloads: list[str]) -> None:
        await connection.execute(SQL.notify, self.channel, payloads)


def payloads_of(node: str, told: PendingHints) -> Iterator[str]:
    changed: defaultdict[Topic, list[Any]] = defaultdict(list)
    for topic, key in told:
        changed[topic].append(key)
    for topic, keys in changed.items():
        yield from _payloads(node, topic, keys)


def _payloads(node: str, topic: Topic, keys: list[Any]) -> Iterator[str]:
    """As few as will hold them. A key that is too long for one is left to the poller."""
    payload = encode(Notice(node, topic, keys))
    if len(payload) <= LONGEST_PAYLOAD:
        yield payload.decode()
    elif len(keys) > 1:
        half = len(keys) // 2
        yield from _payloads(node, topic, keys[:half])
        yield from _payloads(node, topic, keys[half:])


class HintingPool:
    """The pool of connections whose commits are flushed, as most parts of the store use it: what was written is hinted
    at on this node at once, and on the others soon after, but never before it is durable."""

    def __init__(self, pool: Pool, hints: Hints, sender: Sender) -> None:
        self._pool, self._hints, self._sender = pool, hints, sender

    async def write(self, work: Callable[..., Awaitable[T]]) -> T:
        """`work(connection, again, told=…)`, and hints of what it tells once it is durable."""
        told: PendingHints = set()
        done = await self._pool.write(partial(work, told=told))
        self.tell(told)
        return done

    async def execute(self, sql: str, *values: Any) -> list[Any]:
        """A write that has the same effect when it is made twice."""
        rows: list[Any] = await self._pool.write(lambda connection, _: connection.fetch(sql, *values))
        return rows

    async def fetch(self, sql: str, *values: Any) -> list[Any]:
        rows: list[Any] = await self._pool.read(lambda connection: connection.fetch(sql, *values))
        return rows

    def tell(self, told: PendingHints) -> None:
        for topic, key in told:
            self._hints.tell(topic, key)
        self._sender.add(told)


class Listener:
    """Hears the notifications of other nodes on a connection of its own, and passes them on as hints."""

    def __init__(self, url: str, node: str, hints: Hints, channel: str) -> None:
        self._url, self._node, self._hints, self._channel = url, node, hints, channel

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                connection = await connect(self._url)
                try:
                    await self._hear(connection)
                finally:
                    connection.terminate()
            except BREAKS as error:
                _log.debug("other nodes are not heard now: %s", reason(error))
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _hear(self, connection: Connection) -> None:
        """Until the connection breaks."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener(self._channel, self._heard)
        while not gone.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(STILL_THERE_S):
                    await gone.wait()
                return
            await connection.execute("SELECT 1")

    def _heard(self, connection: Connection, pid: int, channel: str, payload: str) -> None:
        try:
            notice = _decode(payload)
        except msgspec.DecodeError:
            return
        if notice.node != self._node:
            for key in notice.keys:
                self._hints.tell(notice.topic, key)


class Poller:
    """Looks at what somebody on this node watches, a few times a second, and hints at what has changed since. So a
    notification that was lost costs a moment and nothing else."""

    def __init__(self, link: Pool, hints: Hints) -> None:
        self._link, self._hints = link, hints
        self._seen: dict[Topic, dict[Hashable, tuple[Any, ...]]] = {}
        self._whole: dict[Topic, list[tuple[Any, ...]]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            looks += 1
            try:
                await self._look(looks)
            except ToolyardError as error:
                _log.debug("nothing is seen of other nodes now: %s", error.developer_message)

    async def _look(self, looks: int) -> None:
        watched = self._hints.watched
        if ended := watched(Topic.ENDED):
            for (seq,) in await self._fetch(SQL.ended_among, ended):
                self._hints.tell(Topic.ENDED, seq)
        if sessions := watched(Topic.SESSION):
            self._compare(Topic.SESSION, await self._fetch(SQL.revisions, sessions))
        if asking := watched(Topic.QUESTION):
            self._compare(Topic.QUESTION, await self._fetch(SQL.asked_among, asking))
        if watched(Topic.PENDING):
            ((is_any,),) = await self._fetch(SQL.any_pending)
            if is_any:
                self._hints.tell(Topic.PENDING)
        for topic, sql in WHOLE.items():
            if watched(topic) and looks % LOOK_SELDOM == 0:
                self._compare_whole(topic, [tuple(row) for row in await self._fetch(sql)])

    def _compare_whole(self, topic: Topic, now: list[tuple[Any, ...]]) -> None:
        if now != self._whole.get(topic):
            self._hints.tell(topic)
        self._whole[topic] = now

    def _compare(self, topic: Topic, rows: list[tuple[Any, ...]]) -> None:
        """What is seen for the first time counts as changed: nobody knows what its watcher saw."""
        before, now = self._seen.get(topic, {}), {key: tuple(rest) for key, *rest in rows}
        self._seen[topic] = now
        for key, seen in now.items():
            if before.get(key) != seen:
                self._hints.tell(topic, key)

    async def _fetch(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await self._link.read(lambda connection: connection.fetch(sql, *given))
        return rows
