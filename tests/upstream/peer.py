"""A server that does as it is told, on a real socket: for clients that must stand whatever a server does."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Line:
    """The server's end of one connection."""

    def __init__(self, peer: "Peer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = len(peer.lines) + 1
        self._peer, self._reader, self._writer = peer, reader, writer

    async def request(self) -> bytes:
        """The next request, head and body. Raises EOFError where the client has closed."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await self._reader.readexactly(int(length[0].partition(b":")[2])) if length else b""
        self._peer.requests.append(head + body)
        return head + body

    async def send(self, reply: bytes) -> None:
        self._writer.write(reply)
        await self._writer.drain()

    async def gone(self) -> None:
        """Returns when the client has closed the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(2**16):
                pass

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        self._writer.transport.abort()


Script = Callable[[Line], Awaitable[None]]


class Peer:
    """What is known of the server: its address, its connections, and the requests it got."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self.lines: list[Line] = []
        self.requests: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(self, reader, writer)
        self.lines.append(line)
        task = asyncio.current_task()
        if task is not None:
            self.tasks.add(task)
        try:
            await self.script(line)
        except (EOFError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def serving(script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Peer]:
    """A server whose connections follow this script."""
    peer = Peer(script)
    server = await asyncio.start_server(peer.serve, host, 0, ssl=tls)
    named = f"[{host}]" if ":" in host else host
    peer.url = f"{'https' if tls else 'http'}://{named}:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield peer
    finally:
        server.close()
        for task in peer.tasks:
            task.cancel()
        await asyncio.gather(*peer.tasks, return_exceptions=True)


def answering(*replies: bytes) -> Script:
    """Answers the requests of a connection with these, and those that follow with the last."""

    async def script(line: Line) -> None:
        for reply in replies:
            await line.request()
            await line.send(reply)
        while True:
            await line.request()
            await line.send(replies[-1])

    return script


def once(reply: bytes) -> Script:
    """Answers the first request of a connection with this, and closes it."""

    async def script(line: Line) -> None:
        await line.request()
        await line.send(reply)

    return script
