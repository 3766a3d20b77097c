"""Brings an outcome to the server. Work that is done is not lost: it is sent until the server takes it or will not
have it. To send it twice is harmless, because it names its attempt."""

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
_log = logging.getLogger("toolyard.worker")


class Submission:
    """For all the runs of a worker."""

    def __init__(self, sending: AsyncTransport, worker: str, pulse: HeartbeatLoop, connection: Reachability) -> None:
        self._sending, self._worker, self._pulse, self._connection = sending, worker, pulse, connection

    async def submit(self, held: HeldRequest, outcome: Outcome) -> None:
        """Until there is an answer, whatever it is. What the server cannot read becomes the tool's failure."""
        try:
            await self._send(held, self._encoded(held, outcome))
        except RequestError as error:
            _log.error("the result of %s was refused: %s", held.name, _reason(error))
            failure = hidden(AttemptBounds(), held.run.tool, error.message)
            await self._send(held, encode_failure(held.claimed, failure, self._worker))

    async def hand_back(self, held: HeldRequest) -> None:
        """A run that was stopped, to whoever comes next: if it may be run again. Of any other the server will say that
        its outcome is not known, once the lease runs out."""
        if held.run.tool.on_lost == "rerun":
            with suppress(ToolyardError, TimeoutError):
                async with asyncio.timeout(HAND_BACK_S):
                    decode_taken(await self._sending.send(encode_release(held.claimed, self._worker)))

    async def _send(self, held: HeldRequest, request: Request) -> None:
        """Raises RequestError where the request itself is wrong."""
        is_unknown = False
        for pause in pauses():
            try:
                decode_taken(await self._sending.send(request))
            except (ServerError, NotAuthenticated) as error:
                self._connection.failed(error)
                await asyncio.sleep(pause_after(error, pause))
            except PathNotFound:
                if is_unknown:
                    _log.warning("%s was done in vain: the server does not know it", held.name)
                    return
                is_unknown = True  # or the server only has forgotten who we are
                await asyncio.wrap_future(self._pulse.beat_now())
            except Refused as refused:
                _log.warning("%s was done in vain: %s", held.name, refused.reason)
                return
            else:
                self._connection.worked()
                return

    def _encoded(self, held: HeldRequest, outcome: Outcome) -> Request:
        if outcome.error is not None:
            return encode_failure(held.claimed, outcome.error, self._worker)
        return encode_response(held.claimed, {"value": outcome.value}, self._worker)


def _reason(error: RequestError) -> str:
    if isinstance(error, InvalidInput):
        return "; ".join(f"{problem.path}: {problem.sentence}" for problem in error.problems)
    return error.developer_message or error.message
