"""Replies that come bit by bit: each is carried to its client until it ends. When the server stops, those that have no
end of their own are ended at once, and the others once running calls have had their time. A stream also ends with the
credentials that it was asked for with: then its client comes again, and is refused.

A generator that waits for its next event can be ended only through the task that waits in it, so each has its own.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from ..trust.validity import Validity
from ..wires.contract import Stream

Write = Callable[[bytes], Awaitable[None]]

LAST_WORD_S = 0.1
_log = logging.getLogger("toolyard.server")


class BrokenOff(Exception):
    """A stream failed on the way; its client must not take what it got for the whole."""


class Streams:
    """Those that are open."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()
        self._endless: set[asyncio.Task[None]] = set()
        self._is_over = self._is_leaving = False
        self.validity: Validity | None = None
        """Knows when credentials end, where there are any."""

    def open(self, stream: Stream, write: Write, scope: Mapping[str, Any]) -> "asyncio.Task[None]":
        """Carries the stream in a task; to end it, cancel that."""
        carrying = asyncio.create_task(_carry(stream.chunks, write), name=f"{scope['method']} {scope['path']}")
        for kept in (self._open,) if stream.has_an_end else (self._open, self._endless):
            kept.add(carrying)
            carrying.add_done_callback(kept.discard)
        if self._is_over or (self._is_leaving and not stream.has_an_end):
            carrying.cancel()
        if stream.caller is not None and self.validity is not None:
            forget = self.validity.watch(stream.caller, carrying.cancel)
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
