"""What becomes of calls whose holder is gone: a second attempt where the tool allows it, an honest end where not.

`on_lost` is the tool's word. `rerun`: the attempt had no effect that a second one would double. `unknown`: nobody can
say whether it had its effect, so nobody says so, and nothing is run again.
"""

import logging

import msgspec

from ..catalogue import Catalogue
from ..model.call import NO_CONTEXT, CallContext, CallTool
from ..model.caller import Caller
from ..model.errors import ToolError, ToolyardError
from ..model.lifecycle import CODES, Move, State
from ..model.record import CallRecord, Ending
from ..model.running import QuietChannel
from ..store.contract import Store
from ..trust.keys import KeyRing
from .engine import Engine
from .keyed import KeyedCalls

NOT_KNOWN = "The server stopped while the tool ran; whether it was done is not known"
_log = logging.getLogger("toolyard.ledger")


class Recovery:
    """Settles what was lost. Run it once, before the server takes calls."""

    def __init__(self, store: Store, catalogue: Catalogue, engine: Engine, keyed: KeyedCalls, ring: KeyRing) -> None:
        self._store, self._catalogue, self._engine, self._keyed, self._ring = store, catalogue, engine, keyed, ring

    async def settle(self, max_attempts: int) -> None:
        for lost in await self._store.lost():
            if lost.on_lost != "rerun":
                await self._end(
                    lost, "outcome_unknown", "The server stopped while the tool ran; whether it was done is not known"
                )
            elif lost.attempt >= max_attempts:
                await self._end(lost, CODES[Move.ABANDON], f"The tool was started {lost.attempt} times and never ended")
            else:
                await self._run_again(lost)

    async def _run_again(self, lost: CallRecord) -> None:
        caller = Caller(lost.key.tenant, lost.key.subject)
        try:
            tool = self._catalogue.resolve(lost.reference)
            attempt = self._engine.work(tool, self._command(lost), caller, QuietChannel()).attempt
        except ToolyardError as error:
            await self._end(lost, CODES[Move.UNKNOWN], f"The tool cannot be run again: {error.message}")
            return
        number = await self._store.restart(lost.seq, lost.attempt)
        if number is not None:
            _log.warning("%s (call %s) was lost; attempt %d starts", lost.reference, lost.key.call_id, number)
            self._keyed.resume(lost, number, attempt)

    async def _end(self, lost: CallRecord, code: str, message: str) -> None:
        _log.warning("%s (call %s) ends as %s", lost.reference, lost.key.call_id, code)
        error = msgspec.json.encode(ToolError(message, can_retry=False).members())
        await self._store.finish(lost.seq, lost.attempt, Ending(State.ERROR, code, 0.0, error=error))

    def _command(self, lost: CallRecord) -> CallTool:
        return CallTool(
            lost.tool,
            msgspec.json.decode(lost.input),
            lost.key.call_id,
            lost.trace_id,
            self._context(lost),
            wire=lost.wire,
            family=lost.key.family,
        )

    def _context(self, lost: CallRecord) -> CallContext:
        if lost.sealed is None:
            return CallContext(user_id=lost.user_id) if lost.user_id else NO_CONTEXT
        opened = self._ring.unseal("context", lost.sealed, lost.key.call_id.encode())
        return msgspec.json.decode(opened, type=CallContext)
