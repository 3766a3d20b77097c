"""uvicorn's HTTP protocol with the manners it lacks: limits on slow and oversized requests, and JSON refusals.

A timer for every request would cost more than it is worth, so one sweep a second looks at all connections.
"""

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ..wires.family import encode

SWEEP_S = 0.5


class PoliteProtocol(HttpToolsProtocol):
    """Made by `polite`, which sets the limits."""

    header_timeout_s = 10.0
    body_timeout_s = 30.0
    max_header_bytes = 65536

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._header_bytes = 0
        self._waiting_for_header: float | None = time.monotonic()
        self._waiting_for_body: float | None = None

    def data_received(self, data: bytes) -> None:
        if self._waiting_for_body is None:
            if self._waiting_for_header is None:
                self._waiting_for_header = time.monotonic()
                self._header_bytes = 0
            self._header_bytes += len(data)
            super().data_received(data)
            if self._waiting_for_header is not None and self._header_bytes > self.max_header_bytes:
                self._refuse(431, f"The request's header is larger than {self.max_header_bytes} bytes")
        else:
            super().data_received(data)

    def on_headers_complete(self) -> None:
        self._waiting_for_body, self._waiting_for_header = self._waiting_for_header or time.monotonic(), None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._waiting_for_body = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "This is not an HTTP request that can be read")

    def is_late(self, now: float) -> bool:
        if self._waiting_for_header is not None:
            return now - self._waiting_for_header > self.header_timeout_s
        return self._waiting_for_body is not None and now - self._waiting_for_body > self.body_timeout_s

    def refuse_late(self) -> None:
        answered = self.cycle is not None and self.cycle.response_started and self._waiting_for_body is not None
        if self._header_bytes == 0 or answered:
            self.transport.close()
        else:
            self._refuse(408, "The request took too long to arrive")

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        body = encode({"message": message})
        head = b"content-type: application/json\r\noxp-version: 1.0\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
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
        await asyncio.sleep(SWEEP_S)
        now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, PoliteProtocol) and connection.is_late(now):
                connection.refuse_late()
