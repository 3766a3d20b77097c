"""A node's sign of life: a row that says until when it is taken to be alive.

It is renewed from a thread with an event loop and a connection of its own, because it must go on while the server's
loop is busy with something: calls of a node that is thought dead are started elsewhere.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ...supervision import SupervisedThread, Supervisor
from .connections import BREAKS, Connection, connect, hang_up, reason
from .rows import SQL

NOT_FLUSHED = "SET synchronous_commit = off"
"""What a lost second of leases and slots costs is a second."""
TRY_AGAIN_S = 0.5
STOP_S = 15.0
"""A statement that is under way ends sooner."""
_log = logging.getLogger("toolyard.ledger")


class Lease:
    """This node's lease: it is renewed from `start` to `stop`, three times as often as it would have to be."""

    def __init__(self, url: str, node: str, lease_s: float) -> None:
        self._url, self._node, self._lease_s = url, node, lease_s
        self._kept: SupervisedThread | None = None
        self._is_stopped = False
        self._wake: Callable[[], object] = lambda: None

    def start(self, supervisor: Supervisor) -> None:
        self._is_stopped = False
        self._kept = supervisor.thread("node lease", self._run)

    async def stop(self) -> None:
        self._is_stopped = True
        with suppress(RuntimeError):  # its loop has ended
            self._wake()
        if self._kept is not None and not await asyncio.to_thread(self._kept.join, STOP_S):
            _log.error("the thread that renews the lease does not end; it is left behind")

    def _run(self) -> None:
        asyncio.run(self._renewing())

    async def _renewing(self) -> None:
        loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._wake = partial(loop.call_soon_threadsafe, self._stopping.set)
        connection: Connection | None = None
        while not self._is_stopped:
            pause_s = self._lease_s / 3
            try:
                if connection is None or connection.is_closed():
                    connection = await connect(self._url, NOT_FLUSHED)
                await connection.execute(SQL.renew, self._node, self._lease_s)
            except BREAKS as error:
                _log.warning("the lease of this node is not renewed now: %s", reason(error))
                connection, pause_s = None, min(pause_s, TRY_AGAIN_S)
            await self._pause(pause_s)
        if connection is not None:
            await hang_up(connection)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass
