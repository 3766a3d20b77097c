"""uvicorn's HTTP protocol with the manners it lacks: limits on slow and oversized requests, and JSON refusals; and a
shorter way through it for whole requests and whole replies.

A timer for every request would cost more than it is worth, so one sweep looks at all connections, twice a second. ASGI
passes a reply in two messages, checked header by header; ours are made of checked parts, so `Direct` writes them as
one piece. (Both reach into uvicorn, which is why its version is pinned closely.)
"""

import asyncio
import sys
import time
from enum import IntEnum
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..wires.contract import Reply
from ..wires.family import encode
from .shell import Shell

SWEEP_S = 0.5


class Phase(IntEnum):
    """What a connection waits for."""

    IDLE = 0
    HEADER = 1
    BODY = 2


class Ticks:
    """The time as of the last sweep: looking at the clock for every request would cost more than it tells."""

    now = 0.0


class PoliteProtocol(HttpToolsProtocol):
    """Made by `polite`, which sets the limits."""

    header_timeout_s = 10.0
    body_timeout_s = 30.0
    max_header_bytes = 65536

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._phase, self._since, self._header_bytes = Phase.HEADER, Ticks.now, 0

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.IDLE:
            self._phase, self._since, self._header_bytes = Phase.HEADER, Ticks.now, 0
        super().data_received(data)
        if self._phase is Phase.HEADER:
            self._header_bytes += len(data)
            if self._header_bytes > self.max_header_bytes:
                self._refuse(431, f"The request's header is larger than {self.max_header_bytes} bytes")

    def on_headers_complete(self) -> None:
        self._phase = Phase.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._phase = Phase.IDLE
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called while the parser's error is being handled."""
        if isinstance(sys.exception(), httptools.HttpParserInvalidMethodError):
            self._refuse(405, "This method is not known", b"allow: GET, HEAD, POST\r\n")
        else:
            self._refuse(400, "This is not an HTTP request that can be read")

    def is_late(self) -> bool:
        limit = self.header_timeout_s if self._phase is Phase.HEADER else self.body_timeout_s
        return self._phase is not Phase.IDLE and Ticks.now - self._since > limit

    def refuse_late(self) -> None:
        nothing_came = self._phase is Phase.HEADER and self._header_bytes == 0
        answered = self._phase is Phase.BODY and self.cycle.response_started
        if nothing_came or answered:
            self.transport.close()
        else:
            self._refuse(408, "The request took too long to arrive")

    def _refuse(self, status: int, message: str, header: bytes = b"") -> None:
        if self.transport.is_closing():
            return
        body = encode({"message": message})
        head = b"content-type: application/json\r\noxp-version: 1.0\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + header + head % len(body) + body)
        self.transport.close()


def polite(header_timeout_s: float, body_timeout_s: float, max_header_bytes: int) -> type[PoliteProtocol]:
    """The protocol with these limits."""
    limits: dict[str, Any] = {
        "header_timeout_s": header_timeout_s,
        "body_timeout_s": body_timeout_s,
        "max_header_bytes": max_header_bytes,
    }
    return type("PoliteProtocol", (PoliteProtocol,), limits)


async def sweep(connections: set[Any]) -> None:
    """Ends connections whose request does not arrive in time. Runs until cancelled."""
    while True:
        Ticks.now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, PoliteProtocol) and connection.is_late():
                connection.refuse_late()
        await asyncio.sleep(SWEEP_S)


class Direct:
    """The shell as an ASGI application for this protocol alone."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._shell(scope, receive, send)
            return
        cycle: RequestResponseCycle = receive.__self__
        whole = not cycle.more_body and not cycle.waiting_for_100_continue
        reply = await self._shell.respond(scope, receive, bytes(cycle.body) if whole else None)
        if reply is not None and not cycle.disconnected:
            if cycle.flow.write_paused:
                await cycle.flow.drain()
            write(cycle, reply)


def write(cycle: RequestResponseCycle, reply: Reply) -> None:
    """A whole reply, and what uvicorn does after one."""
    body = reply.body
    parts = [STATUS_LINE[reply.status]]
    for name, value in reply.headers:
        parts += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    parts.append(b"content-length: %d\r\n\r\n" % len(body) if reply.status != 304 else b"\r\n")
    if cycle.scope["method"] != "HEAD":
        parts.append(body)
    cycle.transport.write(b"".join(parts))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
