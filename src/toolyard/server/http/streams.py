"""Replies that come bit by bit: each is carried to its client until it ends. When the server stops, those that have no
end of their own are ended at once, and the others once running calls have had their time. A stream also ends with the
credentials that it was asked for with: then its client comes again, and is refused.

A generator that waits for its next event can be ended only through the task that waits in it, so each has its own.

How many streams a caller may hold open at once.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...model.caller import Caller
from ...trust.credentials.expiry import CredentialExpiry
from ...trust.limits.meters import refusal
from ...wires.contract import Stream

Write = Callable[[bytes], Awaitable[None]]

LAST_WORD_S = 0.1
_log = logging.getLogger("toolyard.server")


class BrokenOff(Exception):
    """A stream failed on the way; its client must not take what it got for the whole."""


class Streams:
    """Those that are open."""

    def __init__(self, validity: CredentialExpiry | None = None) -> None:
        """`validity` knows when credentials end, where there are any."""
        self._validity = validity
        self._open: set[asyncio.Task[None]] = set()
        self._endless: set[asyncio.Task[None]] = set()
        self._is_over = self._is_leaving = False

    def open(self, stream: Stream, write: Write, scope: Mapping[str, Any]) -> "asyncio.Task[None]":
        """Carries the stream in a task; to end it, cancel that."""
        carrying = asyncio.create_task(_carry(stream.chunks, write), name=f"{scope['method']} {scope['path']}")
        for kept in (self._open,) if stream.has_an_end else (self._open, self._endless):
            kept.add(carrying)
            carrying.add_done_callback(kept.discard)
        if self._is_over or (self._is_leaving and not stream.has_an_end):
            carrying.cancel()
        if stream.caller is not None and self._validity is not None:
            forget = self._validity.watch(stream.caller, carrying.cancel)
            carrying.add_done_callback(lambda _: forget())
        return carrying

    async def is_whole(self, carrying: "asyncio.Task[None]", stream: Stream) -> bool:
        """Waits for its end: False if it failed, and not when it was ended."""
        try:
            await asyncio.wait([carrying])
        finally:
            carrying.cancel()
        await close(stream.chunks)  # it may have been ended before it began
        if carrying.cancelled() and carrying.cancelling():
            return True
        error = asyncio.CancelledError() if carrying.cancelled() else carrying.exception()
        if error is not None:
            _log.error("%s broke off", carrying.get_name(), exc_info=error)
        return error is None

    async def end_endless(self) -> None:
        """Those that have no end of their own: if they have a last word they may say it. Those to come end as they
        begin."""
        self._is_leaving = True
        if self._endless:
            await asyncio.wait(self._endless, timeout=LAST_WORD_S)
        for carrying in self._endless:
            carrying.cancel()

    async def end(self) -> None:
        """All of them: their calls have had their time."""
        self._is_over = True
        if self._open:
            await asyncio.wait(self._open, timeout=LAST_WORD_S)
        for carrying in self._open:
            carrying.cancel()


async def close(chunks: AsyncIterator[bytes]) -> None:
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def _carry(chunks: AsyncIterator[bytes], write: Write) -> None:
    try:
        async for chunk in chunks:
            if chunk:
                await write(chunk)
                await asyncio.sleep(0)  # others have their turn, also beside a generator that never waits
    finally:
        await close(chunks)


RETRY_MS = 1000


class StreamCount:
    """`most` is None where nobody counts."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._open: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """One more while the block lasts. Raises LimitReached."""
        self.take(caller)
        try:
            yield
        finally:
            self.give(caller)

    def counted(self, stream: Stream, caller: Caller) -> Stream:
        """One more until it is closed, and the caller's. Raises LimitReached."""
        stream.caller = caller
        if self._most is not None:
            self.take(caller)
            stream.chunks = CountedStream(self, stream.chunks, caller)
        return stream

    def take(self, caller: Caller) -> None:
        who = (caller.tenant, caller.subject)
        if self._most is not None and self._open[who] >= self._most:
            raise refusal(RETRY_MS, f"max_streams_per_caller: {self._most}")
        self._open[who] += 1

    def give(self, caller: Caller) -> None:
        who = (caller.tenant, caller.subject)
        self._open[who] -= 1
        if not self._open[who]:
            del self._open[who]


class CountedStream(AsyncGenerator[bytes, None]):
    """Chunks of a stream that counts. Unlike a generator's, its end also comes where it never began."""

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
