"""For authors' tests: calls of tools through the whole server, in this process and without a socket.

from toolyard.testing import call, client

def test_add():
    assert call(calculator, "Calculator.Add", {"a": 10, "b": 5}) == 15

with client(calculator) as yard:
    yard.list()
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Unpack
from urllib.parse import unquote

from .client.client import AsyncClient, CallOptions, Client
from .client.protocols import WireName
from .model.run import Source
from .server.app.compose import Yard
from .server.settings.table import exactly
from .text.addresses import LOCALHOST
from .wires.contract import Reply, Request


def call(source: Source, tool_id: str, input: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> Any:
    """Calls a tool of a toolkit or app and returns its result. Raises the error that a client would get.

    Options: secrets={id: value}, tokens={provider: token}, user_id, call_id, trace_id.
    """
    with client(source) as yard:
        return yard.call(tool_id, input, **options)


@contextmanager
def client(*sources: Source, wire: WireName = "oxp", retries: int = 0, **settings: Any) -> Iterator[Client]:
    """A client of a server with these tools. While the block runs, the server runs on an event loop of its own, in
    another thread, because the caller's code is synchronous."""
    yard = Yard(sources, exactly(**settings))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="toolyard-testing", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(yard.start(), loop).result()
        with Client(wire=wire, retries=retries, sending=_ThreadedTransport(yard, loop)) as bound:
            yield bound
    finally:
        asyncio.run_coroutine_threadsafe(yard.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def async_client(
    *sources: Source, wire: WireName = "oxp", retries: int = 0, **settings: Any
) -> AsyncIterator[AsyncClient]:
    """As `client`, with the server on the event loop that is running."""
    yard = Yard(sources, exactly(**settings))
    async with yard.lifetime(), AsyncClient(wire=wire, retries=retries, sending=InProcessTransport(yard)) as bound:
        yield bound


class InProcessTransport:
    """A client's transport that calls the server's ASGI application directly, as an ASGI server would."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    async def send(self, request: Request) -> Reply:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._yard.asgi(_scope(request), receive, send)
        return Reply(sent[0]["status"], b"".join(part["body"] for part in sent[1:]), sent[0]["headers"])

    async def close(self) -> None:
        """There is nothing to close."""


class _ThreadedTransport:
    """The same transport for synchronous code: requests are handed to the server's event loop in its own thread."""

    def __init__(self, yard: Yard, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = InProcessTransport(yard), loop

    def send(self, request: Request) -> Reply:
        return asyncio.run_coroutine_threadsafe(self._transport.send(request), self._loop).result()

    def close(self) -> None:
        """There is nothing to close."""


def _scope(request: Request) -> dict[str, Any]:
    """The ASGI scope of a request. The host is one that the server's check of `Host` lets through."""
    return {
        "type": "http",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "headers": [(b"host", LOCALHOST.encode()), *request.headers.items()],
        "scheme": "http",
        "root_path": "",
    }
