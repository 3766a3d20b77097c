"""The loop that claims calls, as many as there is capacity for, until the worker leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ..client.client import AsyncTransport
from ..model.errors import PathNotFound, RequestError, ServerError
from ..model.worker import Claim, Claimed
from ..wires.lifecycle.worker_client import decode_claims, encode_claim
from .capacity import Capacity
from .heartbeat import HeartbeatLoop
from .reachability import Reachability, pause_after, pauses
from .runs import Runs

EARLY_S = 0.5
"""A claim that comes back empty sooner than this was not held by the server, and is not repeated at once."""


class ClaimLoop:
    """Claims calls, one claim at a time, and starts a run for each call that it gets."""

    def __init__(
        self,
        transport: AsyncTransport,
        worker: str,
        capacity: Capacity,
        runs: Runs,
        heartbeat: HeartbeatLoop,
        reachability: Reachability,
    ) -> None:
        self._transport, self._worker, self._capacity, self._runs = transport, worker, capacity, runs
        self._heartbeat, self._reachability = heartbeat, reachability

    async def until(self, leaving: asyncio.Event) -> None:
        """Claims until the worker leaves. A server that refuses or does not answer is asked again after a pause."""
        waits = pauses()
        while not leaving.is_set():
            claim = self._capacity.claim()
            if claim is None:
                await _unless(leaving, self._capacity.changed())
                continue
            began = asyncio.get_running_loop().time()
            try:
                claims = await self._ask(claim)
            except (ServerError, RequestError) as error:
                self._reachability.failed(error)
                await _unless(leaving, asyncio.sleep(pause_after(error, next(waits))))
                continue
            self._reachability.worked()
            for claimed in claims:
                self._runs.start(claimed)
            if claims or asyncio.get_running_loop().time() - began > EARLY_S:
                waits = pauses()
            else:
                await _unless(leaving, asyncio.sleep(next(waits)))

    async def _ask(self, claim: Claim) -> list[Claimed]:
        try:
            return decode_claims(await self._transport.send(encode_claim(claim, self._worker)))
        except PathNotFound:
            # The server does not know this worker any more: it was restarted, or the lease has run out.
            self._heartbeat.beat_now()
            raise


async def _unless(leaving: asyncio.Event, waiting: Coroutine[Any, Any, None]) -> None:
    """Waits for a coroutine, or until the worker leaves, whichever comes first."""
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(leaving.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
