"""Submits outcomes to the server. Work that is done must not be lost: an outcome is sent again until the server accepts
or refuses it. To send it twice is harmless, because it names its attempt."""

import asyncio
import logging
from contextlib import suppress

from ..client.client import AsyncTransport
from ..model.call import Outcome
from ..model.errors import (
    InvalidInput,
    NotAuthenticated,
    PathNotFound,
    Refused,
    RequestError,
    ServerError,
    ToolyardError,
)
from ..runners.attempt import AttemptBounds, hidden
from ..wires.contract import Request
from ..wires.lifecycle.worker_client import decode_taken, encode_failure, encode_release, encode_response
from .heartbeat import HeartbeatLoop
from .held_request import HeldRequest
from .reachability import Reachability, pause_after, pauses

HAND_BACK_S = 2.0
"""How long a leaving worker tries to hand a request back."""
_log = logging.getLogger("toolyard.worker")


class Submission:
    """Submits the outcomes of a worker's runs, and hands back the requests of those that were stopped."""

    def __init__(
        self, transport: AsyncTransport, worker: str, heartbeat: HeartbeatLoop, reachability: Reachability
    ) -> None:
        self._transport, self._worker, self._heartbeat, self._reachability = transport, worker, heartbeat, reachability

    async def submit(self, held: HeldRequest, outcome: Outcome) -> None:
        """Submits an outcome, until the server has answered. A result that the server refuses as invalid is submitted
        as the tool's failure instead, so that the call ends."""
        try:
            await self._send(held, self._encoded(held, outcome))
        except RequestError as error:
            _log.error("the result of %s was refused: %s", held.name, _reason(error))
            failure = hidden(AttemptBounds(), held.run.tool, error.message)
            await self._send(held, encode_failure(held.claimed, failure, self._worker))

    async def hand_back(self, held: HeldRequest) -> None:
        """Releases the request of a run that was stopped, so that another worker can run it at once. A tool that must
        not be run again is not released: when the lease runs out, the server ends the call as `outcome_unknown`."""
        if held.run.tool.on_lost == "rerun":
            with suppress(ToolyardError, TimeoutError):
                async with asyncio.timeout(HAND_BACK_S):
                    decode_taken(await self._transport.send(encode_release(held.claimed, self._worker)))

    async def _send(self, held: HeldRequest, request: Request) -> None:
        """Sends until the server has answered. Raises RequestError where the request itself is wrong."""
        is_unknown = False
        for pause in pauses():
            try:
                decode_taken(await self._transport.send(request))
            except (ServerError, NotAuthenticated) as error:
                self._reachability.failed(error)
                await asyncio.sleep(pause_after(error, pause))
            except PathNotFound:
                if is_unknown:
                    _log.warning("%s was done in vain: the server does not know it", held.name)
                    return
                # Perhaps the server has only forgotten this worker: register again, and try once more.
                is_unknown = True
                await asyncio.wrap_future(self._heartbeat.beat_now())
            except Refused as refused:
                _log.warning("%s was done in vain: %s", held.name, refused.reason)
                return
            else:
                self._reachability.worked()
                return

    def _encoded(self, held: HeldRequest, outcome: Outcome) -> Request:
        if outcome.error is not None:
            return encode_failure(held.claimed, outcome.error, self._worker)
        return encode_response(held.claimed, {"value": outcome.value}, self._worker)


def _reason(error: RequestError) -> str:
    if isinstance(error, InvalidInput):
        return "; ".join(f"{problem.path}: {problem.sentence}" for problem in error.problems)
    return error.developer_message or error.message
