"""What stands before several nodes: every request goes to the next one, whoever sent it."""

import asyncio
import itertools
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ...conformance.serving import free_port

_length = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE).search
_connection = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE).sub


class RoundRobin:
    """One request a connection, so that each is anybody's. A node that is gone is passed over."""

    def __init__(self, ports: Sequence[int], more: bytes = b"") -> None:
        """`more`: a header that each request gets on its way."""
        self._more = more
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.served: list[int] = []
        """By which node each request was."""
        self._next, self._count = itertools.cycle(ports), len(ports)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            found = _length(head)
            body = await reader.readexactly(int(found[1]) if found else 0)
            head = _connection(b"", head).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n" + self._more + b"\r\n")
            there, back = await self._node()
            back.write(head + body)
            ends = [asyncio.create_task(pump(there, writer)), asyncio.create_task(pump(reader, back))]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            back.close()
        writer.close()

    async def _node(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in range(self._count):
            port = next(self._next)
            with suppress(ConnectionRefusedError):
                found = await asyncio.open_connection("127.0.0.1", port)
                self.served.append(port)
                return found
        raise ConnectionRefusedError


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()


@contextmanager
def proxying(*ports: int, more: bytes = b"") -> Iterator[RoundRobin]:
    """On a loop of its own, as long as the block lasts."""
    proxy, loop = RoundRobin(ports, more), asyncio.new_event_loop()
    serving = loop.run_until_complete(asyncio.start_server(proxy.handle, "127.0.0.1", proxy.port))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def end() -> None:
        serving.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
