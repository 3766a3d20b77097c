"""A connection of the server's own protocol class, without a socket: a test hands it what comes, and sees what is
written."""

import asyncio
from types import SimpleNamespace
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from toolyard.server.http.connection_limits import ConnectionLimits, ReadTimeouts
from toolyard.server.http.outbox import Outbox
from toolyard.server.http.uvicorn_protocol import PoliteProtocol, polite


class Line(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 8000)})
        self.written, self._closed = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self._closed = True

    def is_closing(self) -> bool:
        return self._closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


def connection(answer: Any) -> tuple[PoliteProtocol, Line]:
    """A connection whose requests `answer` answers, as `Answering` has it."""
    return connected(SimpleNamespace(answer=answer, outbox=Outbox()))


def connected(answering: Any) -> tuple[PoliteProtocol, Line]:
    """A connection whose requests this answers, an `Answering`."""
    kind = polite(answering, ReadTimeouts(), 65536, ("GET", "POST"), ConnectionLimits())
    config = uvicorn.Config(lambda: None, http=kind, log_config=None)
    config.load()
    protocol, line = kind(config=config, server_state=ServerState(), app_state={}), Line()
    protocol.connection_made(line)
    return protocol, line
