"""How many streams a caller may hold open at once."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from ..model.caller import Caller
from ..trust.meters import refusal
from ..wires.contract import Stream
from .streams import close

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
            stream.chunks = Counted(self, stream.chunks, caller)
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


class Counted(AsyncGenerator[bytes, None]):
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
