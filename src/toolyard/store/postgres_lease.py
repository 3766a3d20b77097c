"""A node's sign of life: a row that says until when it is taken to be alive.

It is renewed from a thread with an event loop and a connection of its own, because it must go on while the server's
loop is busy with something: calls of a node that is thought dead are started elsewhere.
"""

import asyncio
import logging
import threading

from .postgres_link import BREAKS, Connection, connect, hang_up, reason
from .postgres_rows import SQL

NOT_FLUSHED = "SET synchronous_commit = off"
"""What a lost second of leases and slots costs is a second."""
TRY_AGAIN_S = 0.5
_log = logging.getLogger("toolyard.ledger")


class Lease:
    """Renewed from `start` to `stop`."""

    def __init__(self, url: str, node: str, lease_s: float) -> None:
        self._url, self._node, self._lease_s = url, node, lease_s
        self._thread = threading.Thread(target=self._run, name="toolyard-lease", daemon=True)
        self._ready = threading.Event()

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._ready.wait()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._renewing())

    async def _renewing(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        connection: Connection | None = None
        while not self._stopping.is_set():
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
