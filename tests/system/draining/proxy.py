"""A plain proxy before several nodes: each request goes to the next node that says on `/ready` that it should be sent
some. It keeps connections to nodes as long as they let it, and retries nothing: what a node does not answer is a 502.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

POLL_S = 0.1
_length = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE).search
_closes = re.compile(rb"\r\nconnection: *close", re.IGNORECASE).search
_chunked = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE).search
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"


class Proxy:
    """Before nodes at these ports."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self.ready: list[int] = []
        self._idle: dict[int, list[Line]] = defaultdict(list)
        self._turn = 0
        self.served: dict[int, int] = defaultdict(int)
        """By the node's port, how many requests it was sent."""
        self.reused = 0
        """How many of them by a connection that was kept."""
        self.why: list[str] = []
        """Of each 502."""

    async def look(self) -> None:
        """Asks each node whether it should be sent calls, again and again."""
        while True:
            self.ready = [port for port in self._ports if await self._is_ready(port)]
            for port in self._ports:
                if port not in self.ready:
                    self._forget(port)
            await asyncio.sleep(POLL_S)

    async def _is_ready(self, port: int) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        try:
            writer.write(b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return (await reader.readline()).startswith(b"HTTP/1.1 200")
        except OSError:
            return False
        finally:
            writer.close()

    def _forget(self, port: int) -> None:
        for _, writer in self._idle.pop(port, []):
            writer.close()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await message(reader)
                writer.write(await self._passed_on(request))
                await writer.drain()
        writer.close()

    async def _passed_on(self, request: bytes) -> bytes:
        if not self.ready:
            self.why.append("no node is ready")
            return BAD_GATEWAY
        self._turn += 1
        port = self.ready[self._turn % len(self.ready)]
        self.served[port] += 1
        try:
            line = self._kept(port) or await asyncio.open_connection("127.0.0.1", port)
            line[1].write(request)
            reply = await message(line[0])
        except (OSError, asyncio.IncompleteReadError) as error:
            self.why.append(f"{port}: {error!r}")
            return BAD_GATEWAY
        if _closes(reply.partition(b"\r\n\r\n")[0]):
            line[1].close()
        elif port in self.ready:
            self._idle[port].append(line)
        return reply

    def _kept(self, port: int) -> Line | None:
        while self._idle[port]:
            line = self._idle[port].pop()
            if not line[0].at_eof():
                self.reused += 1
                return line
        return None


async def message(reader: asyncio.StreamReader) -> bytes:
    """A whole request or reply."""
    whole = await reader.readuntil(b"\r\n\r\n")
    if _chunked(whole):
        while True:
            size = await reader.readuntil(b"\r\n")
            whole += size + await reader.readexactly(int(size, 16) + 2)
            if int(size, 16) == 0:
                return whole
    found = _length(whole)
    return whole + (await reader.readexactly(int(found[1])) if found else b"")


@asynccontextmanager
async def proxying(ports: Sequence[int]) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy, and its port, as long as the block lasts."""
    proxy = Proxy(ports)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    looking = asyncio.create_task(proxy.look())
    try:
        async with asyncio.timeout(30):
            while len(proxy.ready) < len(ports):
                await asyncio.sleep(0.02)
        yield proxy, server.sockets[0].getsockname()[1]
    finally:
        looking.cancel()
        server.close()
