"""Streams, the replies that come bit by bit: how each is carried to its client, what ends it, and how many a caller may
hold open at once.

When the server stops, streams that have no end of their own are ended at once, and the others once running calls have
had their time. A stream also ends with the credentials that it was asked for with: then its client comes again, and is
refused. A generator that waits for its next event can be ended only through the task that waits in it, so each stream
has a task of its own.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...engine.wait import stopping
from ...model.caller import Caller
from ...trust.credentials.expiry import CredentialExpiry
from ...trust.limits.meters import refusal
from ...wires.contract import Stream

Write = Callable[[bytes], Awaitable[None]]
"""Writes a chunk to the client, and returns when there is room for the next."""
LAST_WORD_S = 0.1
"""How long a stream that is ended may take for what it still has to say."""
RETRY_MS = 1000
"""When a caller with too many streams may come back: nobody knows when one ends."""
_log = logging.getLogger("toolyard.server")


class BrokenOff(Exception):
    """A stream failed on the way; its client must not take what it got for the whole."""


class Streams:
    """The streams of a server that are open, each in its task. `validity` knows when credentials end, where there are
    any."""

    def __init__(self, validity: CredentialExpiry | None = None) -> None:
        self._open: set[asyncio.Task[None]] = set()
        self._endless: set[asyncio.Task[None]] = set()
        self._is_over = self._is_leaving = False
        self._validity = validity

    async def refuse_endless(self, stream: Stream) -> None:
        """Raises Unavailable for a stream that a server which leaves would end as it begins: its client would come for
        another one at once."""
        if self._is_leaving and not stream.has_an_end:
            await close(stream.chunks)
            raise stopping()

    def open(self, stream: Stream, write: Write, scope: Mapping[str, Any]) -> "asyncio.Task[None]":
        """Carries the stream in a task; to end it, cancel that."""
        carrying = asyncio.create_task(_carry(stream.chunks, write), name=f"{scope['method']} {scope['path']}")
        # The sets also keep the tasks from being collected: asyncio itself holds them weakly.
        for kept in (self._open,) if stream.has_an_end else (self._open, self._endless):
            kept.add(carrying)
            carrying.add_done_callback(kept.discard)
        # It came while the server stops, after the others had been ended.
        if self._is_over or (self._is_leaving and not stream.has_an_end):
            carrying.cancel()
        if stream.caller is not None and self._validity is not None:
            forget = self._validity.watch(stream.caller, carrying.cancel)
            carrying.add_done_callback(lambda _: forget())
        return carrying

    async def is_whole(self, carrying: "asyncio.Task[None]", stream: Stream) -> bool:
        """Waits for a stream's end: False if it failed, which its client must notice; True if it came to its end or was
        ended from here."""
        try:
            await asyncio.wait([carrying])
        finally:
            carrying.cancel()
        await close(stream.chunks)  # a task that is cancelled before its first step has closed nothing
        # `cancelling` counts requests to cancel the task: without one, the generator raised CancelledError by itself.
        if carrying.cancelled() and carrying.cancelling():
            return True
        error = asyncio.CancelledError() if carrying.cancelled() else carrying.exception()
        if error is not None:
            _log.error("%s broke off", carrying.get_name(), exc_info=error)
        return error is None

    async def end_endless(self) -> None:
        """Ends the streams that have no end of their own, once they have had a moment for a last word. Those that come
        later end as they begin."""
        self._is_leaving = True
        if self._endless:
            await asyncio.wait(self._endless, timeout=LAST_WORD_S)
        for carrying in self._endless:
            carrying.cancel()

    async def end(self) -> None:
        """Ends all streams: their calls have had their time."""
        self._is_over = True
        if self._open:
            await asyncio.wait(self._open, timeout=LAST_WORD_S)
        for carrying in self._open:
            carrying.cancel()


async def close(chunks: AsyncIterator[bytes]) -> None:
    """Has a generator run its `finally`, also if nobody iterates it to its end."""
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def _carry(chunks: AsyncIterator[bytes], write: Write) -> None:
    try:
        async for chunk in chunks:
            if chunk:
                await write(chunk)
                # Writing to a fast client never waits, and neither may the generator: others must have their turn.
                await asyncio.sleep(0)
    finally:
        await close(chunks)


class StreamCount:
    """Counts the streams that each caller holds open, and refuses those beyond `most`, which is None where nobody
    counts."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._open: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """Counts one more stream of the caller's while the block lasts. Raises LimitReached."""
        self.take(caller)
        try:
            yield
        finally:
            self.give(caller)

    def counted(self, stream: Stream, caller: Caller) -> Stream:
        """The same stream, as the caller's, which counts until it is closed. Raises LimitReached."""
        stream.caller = caller
        if self.most is not None:
            self.take(caller)
            stream.chunks = CountedStream(self, stream.chunks, caller)
        return stream

    def take(self, caller: Caller) -> None:
        """Counts one more stream, until `give`. Raises LimitReached."""
        who = (caller.tenant, caller.subject)
        if self.most is not None and self._open[who] >= self.most:
            raise refusal(RETRY_MS, f"max_streams_per_caller: {self.most}")
        self._open[who] += 1

    def give(self, caller: Caller) -> None:
        """A stream that was taken is closed."""
        who = (caller.tenant, caller.subject)
        self._open[who] -= 1
        if not self._open[who]:
            del self._open[who]


class CountedStream(AsyncGenerator[bytes, None]):
    """The chunks of a stream that counts. Unlike a generator, which runs nothing when it is closed before its first
    step, this one stops counting also where it never began."""

    def __init__(self, count: StreamCount, chunks: AsyncIterator[bytes], caller: Caller) -> None:
        self._count, self._chunks, self._caller = count, chunks, caller
        self._is_open = True

    async def asend(self, value: None) -> bytes:
        return await anext(self._chunks)

    async def athrow(self, *error: Any) -> bytes:
        await self.aclose()
        raise error[0]

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            self._count.give(self._caller)
        await close(self._chunks)
