"""The replies of one turn of the event loop, written together.

To write to a socket wakes whoever reads at its other end, which costs as much as the rest of a call. Written one by
one, each reply wakes a client that has nothing else to read; written together, the first one does. So where several
requests came at once their replies wait until the last of them has taken its first step. That is a fraction of a
millisecond; where a tool computes on the loop, the others' replies wait for its step and not for those of the rest. A
request that came alone is answered at once.

Whoever writes to a transport by itself, or closes it, flushes first: replies stay in order, and none is lost.
"""

import asyncio
import time
from contextlib import suppress

MOST_TOGETHER = 16
"""Replies that wait for one another: the first of more would wait for too long."""
LONGEST_S = 0.002
"""How long replies are collected."""
LARGEST = 16 * 2**10
"""Bytes of a reply that waits; a larger one is written at once."""


class Outbox:
    """The replies of a server's connections that are about to be written."""

    def __init__(self) -> None:
        self._replies: list[tuple[asyncio.WriteTransport, bytes]] = []
        self.starting = 0
        """Requests that came and have not taken their first step."""
        self._is_scheduled = False
        self._since = 0.0
        """When the first of them came."""

    def put(self, transport: asyncio.WriteTransport, reply: bytes) -> None:
        """Writes a reply, now or together with others of this turn."""
        replies = self._replies
        if self.starting == 0 or len(reply) > LARGEST or len(replies) >= MOST_TOGETHER:
            if replies:
                self.flush()
            transport.write(reply)
            return
        now = time.monotonic()
        if not replies:
            self._since = now
        replies.append((transport, reply))
        if now - self._since > LONGEST_S:
            self.flush()
        elif not self._is_scheduled:
            # The last one to start may have to wait for something, and then nobody else would flush.
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def flush(self) -> None:
        """Writes what waits."""
        replies, self._replies = self._replies, []
        for transport, reply in replies:
            if not transport.is_closing():  # its client has left since
                # Whatever is wrong with one connection, the replies on the others are written.
                with suppress(OSError, RuntimeError):
                    transport.write(reply)

    def _end_turn(self) -> None:
        self._is_scheduled, self.starting = False, 0
        self.flush()
