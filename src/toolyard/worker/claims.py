"""Asks for work, as much as there is room for, until the worker leaves."""

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
"""A server that has nothing to give, and does not wait for it, is not asked again at once."""


class ClaimLoop:
    """One claim at a time."""

    def __init__(
        self,
        sending: AsyncTransport,
        worker: str,
        room: Capacity,
        runs: Runs,
        pulse: HeartbeatLoop,
        connection: Reachability,
    ) -> None:
        self._sending, self._worker, self._room, self._runs = sending, worker, room, runs
        self._pulse, self._connection = pulse, connection

    async def until(self, leaving: asyncio.Event) -> None:
        waits = pauses()
        while not leaving.is_set():
            claim = self._room.claim()
            if claim is None:
                await _unless(leaving, self._room.changed())
                continue
            began = asyncio.get_running_loop().time()
            try:
                claims = await self._ask(claim)
            except (ServerError, RequestError) as error:
                self._connection.failed(error)
                await _unless(leaving, asyncio.sleep(pause_after(error, next(waits))))
                continue
            self._connection.worked()
            for claimed in claims:
                self._runs.start(claimed)
            if claims or asyncio.get_running_loop().time() - began > EARLY_S:
                waits = pauses()
            else:
                await _unless(leaving, asyncio.sleep(next(waits)))

    async def _ask(self, claim: Claim) -> list[Claimed]:
        try:
            return decode_claims(await self._sending.send(encode_claim(claim, self._worker)))
        except PathNotFound:
            self._pulse.beat_now()  # the server has forgotten who we are
            raise


async def _unless(leaving: asyncio.Event, waiting: Coroutine[Any, Any, None]) -> None:
    """Waits for it, unless the worker leaves before."""
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(leaving.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
