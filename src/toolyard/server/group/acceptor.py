"""Takes this process's share of the connections to a socket that several processes accept from.

The kernel wakes all of them for a connection, and whoever is first has it. An event loop's own server then accepts all
that wait, so that a client's pool of connections, opened at once, would be one process's, and one core's. So a process
accepts one at a time, and leaves the next one to the others while it has taken more than they have. It does so for a
moment only, and then takes more and more of what they leave: they may be busy, stuck, or dead.

A single process that speaks https accepts by this, too: a connection counts from the moment that it is accepted, and
not only when its client has finished TLS's handshake, which it may never do.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..http.connection_limits import ConnectionLimits
from .shares import ABSENT, Shares

AHEAD = 2
"""How many more than another process this one may have taken and still take the next one at once."""
BEHIND = 8
"""For how many less than another a process is made up for: one that was stuck must not get all that come then."""
LEFT_TO_OTHERS_S = 0.005
"""How long connections are left to processes that have taken fewer."""
MOST_AT_ONCE = 16
"""How many connections are taken at once that others leave."""
MOST_HANDSHAKES = 1000
"""How many connections may be in TLS's handshake at once: each may have sent a hundred kilobytes that nobody can read
yet."""
NO_ROOM_S = 0.1
"""How long nothing is accepted when this process can open no more files."""
_log = logging.getLogger("toolyard.server")


class Secure(Struct, frozen=True):
    """What a connection by https needs: the certificate, where it counts, and how long its handshake may take."""

    context: ssl.SSLContext
    counted: ConnectionLimits
    handshake_s: float


class Acceptor:
    """Accepts connections from a shared socket until it is closed. It has what uvicorn asks of its servers. `secure` is
    None for plain HTTP."""

    def __init__(
        self,
        listener: socket.socket,
        shares: Shares,
        number: int,
        protocol: Callable[[], asyncio.Protocol],
        secure: "Secure | None",
    ) -> None:
        listener.setblocking(False)
        self._listener, self._shares, self._number = listener, shares, number
        self._protocol, self._secure = protocol, secure
        self._loop = asyncio.get_running_loop()
        self._accepted = max(shares.others(number), default=0)
        self._at_once = 1
        """How many are taken at once that others leave: twice as many each time that they do."""
        self._entering: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        shares.put(number, self._accepted)
        self._loop.add_reader(listener, self._on_waiting)

    def close(self) -> None:
        """Leaves what still waits to the other processes."""
        if self._paused is not None:
            self._paused.cancel()
        else:
            self._loop.remove_reader(self._listener)
        self._shares.put(self._number, ABSENT)

    async def wait_closed(self) -> None:
        """Closed at once."""

    def _on_waiting(self) -> None:
        if self._accepted > min(self._shares.others(self._number), default=ABSENT) + AHEAD:
            self._pause(LEFT_TO_OTHERS_S, self._take_what_is_left)
        elif self._shares.is_shared:
            self._accept()
        else:
            all(self._accept() for _ in range(MOST_AT_ONCE))

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener)
        self._paused = self._loop.call_later(seconds, self._resume, then)

    def _resume(self, then: Callable[[], None]) -> None:
        self._paused = None
        self._loop.add_reader(self._listener, self._on_waiting)
        then()

    def _take_what_is_left(self) -> None:
        is_left = all(self._accept() for _ in range(self._at_once))
        self._at_once = min(2 * self._at_once, MOST_AT_ONCE) if is_left else 1

    def _accept(self) -> bool:
        """Takes a connection. Returns whether there was one, and room for it."""
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was first, or the client has gone
        except OSError as error:
            _log.error("no connection can be accepted now: %s", error.strerror)
            self._pause(NO_ROOM_S, _nothing)
            return False
        most = max(self._shares.others(self._number), default=0)
        self._accepted = max(self._accepted + 1, most - BEHIND)
        self._shares.put(self._number, self._accepted)
        entering = self._enter(connection) if self._secure is None else self._shake_hands(connection, address[0])
        task = self._loop.create_task(entering)
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)
        return True

    async def _enter(self, connection: socket.socket) -> None:
        """Until the protocol has the connection. One that fails in between is nobody's loss."""
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()

    async def _shake_hands(self, connection: socket.socket, address: str) -> None:
        """The same, by TLS. The connection counts from now on; one that there is no room for cannot be told so."""
        assert self._secure is not None  # noqa: S101
        has_room = self._secure.counted.enter(address) and len(self._entering) <= MOST_HANDSHAKES
        try:
            if not has_room:
                raise ConnectionRefusedError
            await self._loop.connect_accepted_socket(
                self._counted,
                connection,
                ssl=self._secure.context,
                ssl_handshake_timeout=self._secure.handshake_s,
            )
        except BaseException as error:
            self._secure.counted.leave(address)
            connection.close()
            if not isinstance(error, OSError):
                raise

    def _counted(self) -> asyncio.Protocol:
        protocol: Any = self._protocol()
        protocol.is_counted = True
        return protocol  # type: ignore[no-any-return]


def _nothing() -> None:
    """After a pause in which others closed files."""
