"""uvicorn's HTTP protocol with the manners it lacks: limits on slow and oversized requests, and JSON refusals; and a
shorter way through it for whole requests and whole replies.

A timer for every request would cost more than it is worth, so one sweep looks at all connections, five times a second.
ASGI passes a reply in two messages, checked header by header; ours are made of checked parts, so `Direct` writes them
as one piece. (Both reach into uvicorn, which is why its version is pinned closely.)
"""

import asyncio
import sys
import time
from enum import IntEnum
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..wires import otc, otc_draft, oxp
from ..wires.contract import Headers, Reply
from ..wires.family import encode
from .shell import Shell

SWEEP_S = 0.2


class Phase(IntEnum):
    """What a connection waits for."""

    IDLE = 0
    HEADER = 1
    BODY = 2
    TRAILER = 3
    """After a chunk's first line, until its data comes. After the last one's come trailers instead."""


IDLE, HEADER, BODY, TRAILER = Phase


class Ticks:
    """The time as of the last sweep: looking at the clock for every request would cost more than it tells."""

    now = time.monotonic()


class HeaderTooLarge(Exception):
    """More than `max_header_bytes`."""


class PoliteProtocol(HttpToolsProtocol):
    """Made by `polite`, which sets the limits."""

    header_timeout_s = 10.0
    body_timeout_s = 30.0
    max_header_bytes = 65536

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._phase, self._since, self._header_bytes = HEADER, Ticks.now, 0
        self._answered = Ticks.now

    def data_received(self, data: bytes) -> None:
        if self._phase is IDLE:
            self._phase, self._since, self._header_bytes = HEADER, Ticks.now, 0
        if self._phase is not BODY:
            self._header_bytes += len(data)
        HttpToolsProtocol.data_received(self, data)
        if self._header_bytes > self.max_header_bytes and self._phase in (HEADER, TRAILER):
            self._refuse_large_header()

    # -- what the parser calls ---------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        if self._header_bytes > self.max_header_bytes:
            self._measure_header()
        HttpToolsProtocol.on_headers_complete(self)
        self._phase = BODY
        self.headers = []  # trailers go here, and are not to be taken for headers

    def on_chunk_header(self) -> None:
        self._phase, self._header_bytes = TRAILER, 0

    def on_body(self, body: bytes) -> None:
        self._phase, cycle = BODY, self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._phase = IDLE
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """As uvicorn's, but for its timer: the sweep ends a connection that waits too long for another request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._answered = Ticks.now
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def send_400_response(self, msg: str) -> None:
        """Called while the parser's error is being handled."""
        error = sys.exception()
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            self._refuse(405, "This method is not known", b"allow: GET, HEAD, POST\r\n")
        elif error is not None and isinstance(error.__context__, HeaderTooLarge):
            self._refuse_large_header()
        else:
            self._refuse(400, "This is not an HTTP request that can be read")

    def _unsupported_upgrade_warning(self) -> None:
        """The parser reads nothing after a wish for another protocol, so this request, answered as if it had not
        wished, is the last one."""
        self.cycle.keep_alive = False
        if self.cycle.response_complete:
            self.transport.close()

    # -- refusals ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Called by the sweep: ends a wait that has been too long."""
        if self._phase is IDLE:
            if self.cycle.response_complete and self._is_over(self._answered, self.timeout_keep_alive):
                self.transport.close()
            return
        limit = self.header_timeout_s if self._phase is HEADER else self.body_timeout_s
        if self._is_over(self._since, limit):
            self._refuse_late()

    def _is_over(self, since: float, limit_s: float) -> bool:
        """Whether a wait has been longer than its limit. `since` may be older than it says, by one sweep."""
        return Ticks.now - since > limit_s + SWEEP_S

    def _refuse_late(self) -> None:
        if self._is_answering_another():
            self._since = Ticks.now
        elif self._phase is HEADER and self._header_bytes == 0:
            self.transport.close()
        else:
            self._refuse(408, "The request took too long to arrive")

    def _refuse_large_header(self) -> None:
        self._refuse(431, f"The request's header is larger than {self.max_header_bytes} bytes")

    def _measure_header(self) -> None:
        """What was counted may have a body in it, or another request."""
        lines = sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        if len(self.url) + lines > self.max_header_bytes:
            raise HeaderTooLarge

    def _refuse(self, status: int, message: str, header: bytes = b"") -> None:
        """Ends the connection, with an answer to the request that is being read unless it has one."""
        if self._is_answering_another():  # that answer comes first, and is the last
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing() and not (self._is_in_body() and self.cycle.response_started):
            body = encode({"message": message})
            common = b"content-type: application/json\r\noxp-version: 1.0\r\nconnection: close\r\n"
            length = b"content-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + header + common + length + body)
        self.transport.close()

    def _is_in_body(self) -> bool:
        return self._phase in (BODY, TRAILER)

    def _is_answering_another(self) -> bool:
        """Whether a request before the one that is being read has no answer yet."""
        if self._is_in_body():
            return bool(self.pipeline)
        return self.cycle is not None and not self.cycle.response_complete


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
            if isinstance(connection, PoliteProtocol):
                connection.look()
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
        if cycle.flow.write_paused:
            await cycle.flow.drain()
        if reply is not None and not cycle.disconnected:
            write(cycle, reply)


def write(cycle: RequestResponseCycle, reply: Reply) -> None:
    """A whole reply, and what uvicorn does after one."""
    body, headers = reply.body, reply.headers
    if cycle.waiting_for_100_continue:
        cycle.keep_alive = False  # the body was not asked for, so whether it comes is not known
    head = STATUS_LINE[reply.status] + (_RENDERED.get(id(headers)) or _rendered(headers))
    if not cycle.keep_alive:
        head += b"connection: close\r\n"
    length = b"content-length: %d\r\n\r\n" % len(body) if reply.status != 304 else b"\r\n"
    cycle.transport.write(head + length + body if cycle.scope["method"] != "HEAD" else head + length)
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


def _rendered(headers: Headers) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)


_RENDERED = {
    id(wire.headers): _rendered(wire.headers) for wire in (oxp.FLAT, otc.OTC, otc.OTC_FOR_OXP, otc_draft.DRAFT)
}
"""The headers that almost every reply has. They live as long as the program, so their identity is their name."""
