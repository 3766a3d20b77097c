"""The way to a client over HTTP: one JSON reply, or a stream of events from the first thing there is to say.

In the older era a stream can be taken up again: its call is put in the ledger, and every event has an id under which
any node finds what came after.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from ....store.contract import Store
from ....wires.contract import LARGE, Headers, Reply, Stream
from ....wires.mcp.envelope import HEADERS, Id, around_result, encode_result
from ....wires.mcp.revisions import R_2025_11_25
from ...http.exchange import Exchange
from ..protocol.event_ids import Places
from ..protocol.peer import Peer

SOON_S = 2.0
"""A request that takes longer is answered with a stream, in which signs of life can be sent."""
KEEP_ALIVE_S = 15.0
RETRY_MS = 500
MOST_WAITING = 2**20
"""Bytes of notifications for a client that does not read. Where there are more, the oldest are left out."""
MOST_KEPT = 2**20
"""Bytes of a call's notifications that are kept for a stream that is taken up again."""
NOTIFICATION = b'{"jsonrpc":"2.0","method"'
_log = logging.getLogger("toolyard.mcp")
_writing: set[asyncio.Task[None]] = set()
"""What is being written down, so that it lives."""
EVENT_STREAM: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def event(message: bytes, id: str | None = None) -> bytes:
    head = f"id: {id}\n".encode() if id else b""
    return head + b"event: message\ndata: " + message + b"\n\n"


class Events:
    """The chunks of one stream, in the order in which they come, with a sign of life where nothing else does."""

    def __init__(self, open_s: float | None = None) -> None:
        """`open_s`: after that it ends, whatever is still to come."""
        self._waiting: deque[tuple[bytes, bool]] = deque()
        """Each with whether it is optional."""
        self._optional_bytes = 0
        self._there = asyncio.Event()
        self._is_closed = self._is_gone = False
        self._until = None if open_s is None else asyncio.get_running_loop().time() + open_s

    def stay_open(self) -> None:
        """It ends with `close` alone."""
        self._until = None

    def put(self, chunk: bytes, *, is_optional: bool = False) -> None:
        """What is optional is left out where too much comes after it, and all of it once nobody reads any more."""
        if self._is_gone:
            return
        self._waiting.append((chunk, is_optional))
        if is_optional:
            self._optional_bytes += len(chunk)
            while self._optional_bytes > MOST_WAITING and self._optional_bytes > len(chunk):
                self._leave_out_oldest()
        self._there.set()

    def _leave_out_oldest(self) -> None:
        """Notifications: what else waits is a few questions and the response, and stays where it is."""
        place = next(place for place, (_, is_optional) in enumerate(self._waiting) if is_optional)
        self._optional_bytes -= len(self._waiting[place][0])
        del self._waiting[place]

    def close(self) -> None:
        self._is_closed = True
        self._there.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks():
                yield chunk
        finally:
            self._is_gone = True
            self._waiting.clear()

    async def _chunks(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while True:
            until = self._until
            if self._waiting:
                yield self._take()
            elif self._is_closed or (until is not None and loop.time() >= until):
                return
            else:
                self._there.clear()
                pause = KEEP_ALIVE_S if until is None else min(KEEP_ALIVE_S, until - loop.time())
                try:
                    async with asyncio.timeout(pause):
                        await self._there.wait()
                except TimeoutError:
                    yield b": still here\n\n"

    def _take(self) -> bytes:
        """All that waits. Nothing of it is held on to while it is on its way."""
        taken = b"".join(chunk for chunk, _ in self._waiting)
        self._waiting.clear()
        self._optional_bytes = 0
        return taken


class Keeping(Struct, frozen=True):
    """Where events are kept for clients that come back, how they are named, and how long a stream is held that can be
    taken up again."""

    store: Store
    places: Places
    stream_s: float


def takes_events(exchange: Exchange) -> bool:
    """Whether the client reads a stream of events as the reply to this request."""
    accepted = exchange.headers.get(b"accept", b"*/*")
    return b"text/event-stream" in accepted or b"*/*" in accepted


def whole_reply(id: Id, result: bytes) -> Reply:
    """The response as the only thing that is said."""
    if len(result) > LARGE:
        before, after = around_result(id)
        return Reply(200, before, HEADERS, (result, after))
    return Reply(200, encode_result(id, result), HEADERS)


class HttpOutlet:
    """The way to the client of one request over HTTP that is not answered at once: a reply, or a stream as soon as
    there is something to say before."""

    seq = 0
    """The call's number in the ledger, once it is there."""
    _events: Events | None = None
    _is_answered = _is_cancelled = False
    _number = _kept_bytes = 0
    _record: Callable[[], None] | None = None
    _when_gone: tuple[Callable[[], object], ...] = ()
    _held_back: list[bytes] | None = None
    """Until the call is in the ledger: no event comes before the one from which the stream can be taken up."""

    def __init__(self, exchange: Exchange, peer: Peer, id: Id, keeping: Keeping, stream_s: float | None) -> None:
        """`stream_s`: how long a stream that can be taken up again is held; None where it cannot."""
        self._exchange, self._peer, self._id, self._keeping = exchange, peer, id, keeping
        self._stream_s, self._is_open = stream_s, takes_events(exchange)

    @contextmanager
    def soon(self) -> Iterator[None]:
        """Opens the stream if the block takes long, and closes it if there will be no response."""
        timer = asyncio.get_running_loop().call_later(SOON_S, self._open_late) if self._is_open else None
        try:
            yield
        except asyncio.CancelledError:  # the server stops: the rest is found elsewhere, or nowhere
            if self._events is not None:
                self._events.close()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def send(self, message: bytes) -> None:
        if not self._is_open or self._is_answered:
            return
        events = self._open()
        if self._stream_s is None or self.seq:
            self._put(events, message)
        else:
            self._hold_back(message)

    def respond(self, result: bytes) -> None:
        if self._is_answered:
            return
        message = encode_result(self._id, result)
        if self._events is None:
            self._is_answered = True
            self._exchange.answer(Reply(200, message, HEADERS))
        else:
            self._finish(self._events, message)

    def result(self, result: bytes) -> Reply:
        """The last word, when all went well."""
        if self._events is None and not self._is_cancelled:
            return whole_reply(self._id, result)
        return self.reply(200, encode_result(self._id, result))

    def reply(self, status: int, message: bytes) -> Reply:
        """The last word, as a reply or at the end of the stream; to who gave up, none."""
        if self._is_cancelled:
            if self._events is not None:
                self._is_answered = True
                self._events.close()
            return Reply(200, b"", EVENT_STREAM)
        if self._events is not None and not self._is_answered:
            self._finish(self._events, message)
        return Reply(status, message, HEADERS)

    def takes_long(self, record: Callable[[], None]) -> None:
        if self._stream_s is not None:
            self._record = record
            if self._events is not None:
                record()

    def on_recorded(self, seq: int) -> None:
        if self.seq:
            return
        self.seq = seq
        if self._events is not None and self._stream_s is not None:
            self._prime(self._events)

    def no_resumption(self) -> None:
        self._stream_s = None
        if self._events is not None:
            self._events.stay_open()

    def when_gone(self, callback: Callable[[], object]) -> None:
        self._when_gone += (callback,)
        self._exchange.when_gone(callback)

    def when_expired(self, callback: Callable[[], object]) -> Callable[[], None]:
        return self._exchange.when_expired(callback)

    def cancel(self) -> None:
        """As if the client had gone: it wants no response any more."""
        self._is_cancelled = True
        for callback in self._when_gone:
            callback()

    def _open_late(self) -> None:
        if not self._is_answered:
            self._open()

    def _open(self) -> Events:
        if self._events is not None:
            return self._events
        self._events = events = Events(self._stream_s)
        self._exchange.answer(Stream(200, EVENT_STREAM, events.chunks(), has_an_end=True))
        if self.seq and self._stream_s is not None:
            self._prime(events)
        elif self._record is not None:
            self._record()
        return events

    def _prime(self, events: Events) -> None:
        """From here on the stream can be taken up again."""
        if self._peer.revision is R_2025_11_25:
            events.put(f"id: {self._event_id()}\nretry: {RETRY_MS}\ndata: \n\n".encode())
        held, self._held_back = self._held_back or (), None
        for message in held:
            self._put(events, message)

    def _hold_back(self, message: bytes) -> None:
        held = self._held_back = self._held_back or []
        if not message.startswith(NOTIFICATION) or self._may_keep(message):
            held.append(message)

    def _event_id(self) -> str:
        return self._keeping.places.id_of((self.seq, self._number, self._id), self._peer)

    def _put(self, events: Events, message: bytes) -> None:
        is_optional = message.startswith(NOTIFICATION)
        if self.seq == 0 or self._stream_s is None:
            events.put(event(message), is_optional=is_optional)
            return
        self._number += 1
        events.put(event(message, self._event_id()), is_optional=is_optional)
        if not is_optional or self._may_keep(message):
            self._keep(self.seq, self._number, message)

    def _may_keep(self, notification: bytes) -> bool:
        self._kept_bytes += len(notification)
        return self._kept_bytes <= MOST_KEPT

    def _keep(self, seq: int, number: int, message: bytes) -> None:
        self._beside(self._keeping.store.add_call_events([(seq, number, message)]))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """What fails is not missed: it is for a client that may never come back."""
        task = asyncio.get_running_loop().create_task(work)
        _writing.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: "asyncio.Task[None]") -> None:
        _writing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("an event was not kept: %s", task.exception())

    def _finish(self, events: Events, message: bytes) -> None:
        self._is_answered = True
        for each in self._held_back or ():
            events.put(event(each))
        events.put(event(message))
        events.close()
