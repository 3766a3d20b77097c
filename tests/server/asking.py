"""A test as an ASGI server: it hands a shell one request and keeps what is sent back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolyard.server.http.shell import Shell

DEADLINE_S = 20.0


class Asked:
    """A request under way. The client stays until it `leaves`."""

    def __init__(
        self,
        shell: Shell,
        path: str,
        method: str = "GET",
        send: Callable[[Any], Awaitable[None]] | None = None,
        headers: Mapping[bytes, bytes] | None = None,
        body: bytes = b"",
    ) -> None:
        """`send` is what happens to each message before it is sent."""
        self.sent: list[Any] = []
        self.times_received = 0
        self._before = send
        self.has_heard = asyncio.Event()
        """Whoever listens has been told that the client left."""
        self._gone, self._news = asyncio.Event(), asyncio.Event()
        scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "query_string": b""}
        scope["headers"] = list((headers or {}).items())
        self._body = body
        self.task = asyncio.ensure_future(shell(scope, self._receive, self._send))

    def leave(self) -> None:
        self._gone.set()

    async def end(self) -> None:
        await self.task

    async def messages(self, count: int) -> list[Any]:
        """What has been sent, once it is this much."""
        while len(self.sent) < count:
            self._news.clear()
            await self._news.wait()
        return self.sent

    async def _receive(self) -> dict[str, Any]:
        self.times_received += 1
        if self.times_received == 1:
            return {"type": "http.request", "body": self._body, "more_body": True}
        if self.times_received == 2:
            return {"type": "http.request"}
        await self._gone.wait()
        self.has_heard.set()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._before is not None:
            await self._before(message)
        self.sent.append(message)
        self._news.set()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """A test on a loop of its own. What never comes is a failure."""

    async def in_time() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test()

    asyncio.run(in_time())
