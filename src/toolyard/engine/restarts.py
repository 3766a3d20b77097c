"""What becomes of calls whose holder is gone: a second attempt where the tool allows it, an honest end where not.

`on_lost` is the tool's word. `rerun`: the attempt had no effect that a second one would double. `unknown`: nobody can
say whether it had its effect, so nobody says so, and nothing is run again. A call that was handed back has not been
lost: it is simply run.
"""

import asyncio
import logging
from functools import partial

from msgspec.structs import replace

from ..catalogue import Catalogue
from ..model.channel import Channel, LedgerChannel, QuietChannel
from ..model.errors import MissingRequirements, ToolNotFound, ToolyardError, Unavailable
from ..model.judge import ended_by
from ..model.lifecycle import Move, State
from ..model.record import CallRecord
from ..model.tool import Tool
from ..store.contract import Store
from ..store.values import StoreDown
from ..trust.sealing.ring import BrokenSeal, KeyRing
from .account_wait import AccountNeeds
from .durable import DurableCalls
from .engine import Engine
from .node import NOT_KNOWN
from .rebuild import NO_INPUT, NO_KEY, UNREADABLE, caller_of, command_of, context_of

AT_ONCE = 100
SOON_S = 1.0
_log = logging.getLogger("toolyard.ledger")


class Restarts:
    """Settles what was lost."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        engine: Engine,
        recorded: DurableCalls,
        ring: KeyRing,
        lacking: AccountNeeds,
        max_attempts: int,
    ) -> None:
        self._store, self._catalogue, self._engine, self._recorded = store, catalogue, engine, recorded
        self._ring, self._lacking, self._max_attempts = ring, lacking, max_attempts
        self._beginning: dict[int, asyncio.Task[bool]] = {}
        """By the call's number: those that wait for what is kept for them."""

    async def settle(self) -> None:
        """Once: all that is lost now."""
        while True:
            lost = await self._store.unstarted(AT_ONCE)
            settled = [await self._settle_one(call) for call in lost if call.seq not in self._beginning]
            if len(lost) < AT_ONCE or not any(settled):
                return

    async def stop(self) -> None:
        """What has not begun soon is left to the next start, or to others."""
        tasks = list(self._beginning.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=SOON_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _settle_one(self, call: CallRecord) -> bool:
        """One that cannot be settled, whatever is wrong with it, keeps no other from it: it ends."""
        try:
            return await self._settle(call)
        except StoreDown:
            raise
        except Exception:
            _log.exception("%s (call %s) cannot be settled", call.reference, call.key.call_id)
            return await self._end(call, Move.UNKNOWN, NOT_KNOWN)

    async def _settle(self, call: CallRecord) -> bool:
        """Whether anything was done about it."""
        was_running = call.state is State.PROCESSING
        if was_running and call.on_lost != "rerun":
            return await self._end(call, Move.UNKNOWN, NOT_KNOWN)
        if was_running and call.losses + 1 >= self._max_attempts:
            message = f"The tool was started {call.attempt} times and never ended"
            return await self._end(call, Move.ABANDON, message)
        if not self._needs_something(call):
            return await self._run_again(call)
        self._beginning[call.seq] = task = asyncio.get_running_loop().create_task(self._run_again(call))
        task.add_done_callback(partial(self._begun, call.seq))
        return True

    def _needs_something(self, call: CallRecord) -> bool:
        """Then it is begun beside the others: the provider of a token may take its time."""
        try:
            return bool(self._own_tool(call).requirements)
        except ToolNotFound:
            return False

    def _own_tool(self, call: CallRecord) -> Tool:
        """The server's. A worker may have taken its name since, where the server does not have it any more; the call
        was not made to that worker. Raises ToolNotFound."""
        tool = self._catalogue.resolve(call.reference)
        if tool.runs == "worker":
            raise ToolNotFound(f"Tool '{tool.wire_name}' was not found", developer_message="a worker has its name now")
        return tool

    def _begun(self, seq: int, task: "asyncio.Task[bool]") -> None:
        del self._beginning[seq]
        if not task.cancelled() and task.exception() is not None:
            _log.warning("a call cannot be begun yet: %s", task.exception())

    async def _run_again(self, call: CallRecord) -> bool:
        try:
            tool = self._own_tool(call)
            brought = context_of(call, self._ring)
            command, caller = command_of(call, brought), caller_of(call, brought, tool)
            command = await self._engine.filled(tool, command, caller)
            work = self._engine.work(tool, command, caller, _channel(call))
        except StoreDown:
            raise  # it is settled later
        except ToolNotFound as error:
            if self._store.shared:
                return False  # another node may have it
            return await self._end(call, Move.UNKNOWN, _why_not(call, error))
        except BrokenSeal:
            return await self._end(call, Move.UNKNOWN, NO_KEY)
        except UNREADABLE as error:
            _log.error("the call %s of %s cannot be read: %s", call.key.call_id, call.reference, error)
            return await self._end(call, Move.UNKNOWN, NO_INPUT)
        except (MissingRequirements, Unavailable) as error:
            return await self._lacks(call, error)
        except ToolyardError as error:
            return await self._end(call, Move.UNKNOWN, _why_not(call, error))
        number = await self._store.restart(call.seq, call.attempt)
        if number is None:
            return False
        level = logging.WARNING if call.attempt else logging.INFO  # what waited for a yes was not lost
        _log.log(level, "%s (call %s): attempt %d starts", call.reference, call.key.call_id, number)
        work.new.key, work.new.fingerprint = call.key, call.fingerprint
        self._recorded.go_on(call.seq, number, work)
        return True

    async def _lacks(self, call: CallRecord, error: MissingRequirements | Unavailable) -> bool:
        """What is kept for it is not there any more. One whose attempt was lost is taken over first."""
        if call.state is State.PROCESSING:
            number = await self._store.restart(call.seq, call.attempt)
            if number is None:
                return False
            call = replace(call, attempt=number)
        await self._lacking.hold(call, error)
        return True

    async def _end(self, call: CallRecord, move: Move, message: str) -> bool:
        if call.attempt == 0:  # it waited for a person, and never began
            move, effects = Move.FAIL, "none"
        else:
            effects = "unknown"
        ending = ended_by(move, message, effects)
        _log.warning("%s (call %s) ends as %s", call.reference, call.key.call_id, ending.code)
        return await self._store.give_up(call.seq, call.attempt, ending)


def _why_not(call: CallRecord, error: ToolyardError) -> str:
    """One that only waited was never run."""
    what = "The tool cannot be run again" if call.attempt else "The call was not begun"
    return f"{what}: {error.message}"


def _channel(call: CallRecord) -> Channel:
    """Nobody waits for it now. Who called over MCP comes back for what it asks."""
    return LedgerChannel() if call.wire.startswith("mcp") else QuietChannel()
