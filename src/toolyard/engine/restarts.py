"""Where every call starts that is recorded and has nobody who runs it: one that a person approved, one whose account
was connected, one that a stopping node handed back, one whose node died.

All of these are rows that say the same: this call should run here and no node holds it. So whoever lets a call go on
(`approvals`, `account_wait`, a node that stops) only writes that to the ledger, and `Upkeep` has them started from
here, on this node or another, whichever looks first: `store.restart` is the fence. A node that leaves begins none of
them: it would only have to hand them back once more.

Only a call whose node died was lost. What that means is the tool's word, `on_lost`. `rerun`: the attempt had no effect
that a second one would double, so there is another, up to `max_attempts`. `unknown`: nobody can say whether it had its
effect, so nobody says so, and nothing is run again.
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
    """Starts the recorded calls that nobody runs, or ends those that cannot be started."""

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
        """By the call's number: the calls that are being prepared beside the others."""

    async def start_all(self) -> None:
        """Starts every call that is unstarted now. Calls that come later are for the next time."""
        while not self._store.hints.is_leaving:
            found = await self._store.unstarted(AT_ONCE)
            started = [await self._start_one(call) for call in found if call.seq not in self._beginning]
            # Where nothing can be done about any of them, the same ones would be found again.
            if len(found) < AT_ONCE or not any(started):
                return

    async def stop(self) -> None:
        """Waits a moment for the calls that are being prepared. What has not begun by then is left to the next start,
        or to other nodes: the ledger still says that nobody runs it."""
        tasks = list(self._beginning.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=SOON_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _start_one(self, call: CallRecord) -> bool:
        """Whether anything was done about it. A call that cannot be started, whatever is wrong with it, keeps no other
        from starting: it ends."""
        try:
            return await self._start(call)
        except StoreDown:
            raise
        except Exception:
            _log.exception("%s (call %s) cannot be started", call.reference, call.key.call_id)
            return await self._end(call, Move.UNKNOWN, NOT_KNOWN)

    async def _start(self, call: CallRecord) -> bool:
        was_running = call.state is State.PROCESSING
        if was_running and call.on_lost != "rerun":
            return await self._end(call, Move.UNKNOWN, NOT_KNOWN)
        if was_running and call.losses + 1 >= self._max_attempts:
            message = f"The tool was started {call.losses + 1} times and never ended"
            return await self._end(call, Move.ABANDON, message)
        try:
            tool = self._own_tool(call)
        except ToolNotFound as error:
            if self._store.shared:
                return False  # another node may have it
            return await self._end(call, Move.UNKNOWN, _why_not(call, error))
        if not self._engine.plans.needs_filling(tool):
            return await self._begin(call, tool)
        # To prepare it takes time, such as the provider of a token may need: the others do not wait for that.
        self._beginning[call.seq] = task = asyncio.get_running_loop().create_task(self._begin(call, tool))
        task.add_done_callback(partial(self._begun, call.seq))
        return True

    def _own_tool(self, call: CallRecord) -> Tool:
        """The tool, if this node runs it. Where the server does not have it any more, a worker may have taken its name
        since; the call was not made to that worker. Raises ToolNotFound."""
        tool = self._catalogue.resolve(call.reference)
        if self._engine.plans.waits_for_claim(tool):
            raise ToolNotFound(f"Tool '{tool.wire_name}' was not found", developer_message="a worker has its name now")
        if call.offer is not None and call.offer != tool.offer:  # nobody agreed to what it is by now
            raise ToolNotFound(f"Tool '{tool.wire_name}' has another definition by now; look at it and call it again")
        return tool

    def _begun(self, seq: int, task: "asyncio.Task[bool]") -> None:
        """The ledger still has a call that failed to begin, so it is tried again the next time."""
        del self._beginning[seq]
        if not task.cancelled() and task.exception() is not None:
            _log.warning("a call cannot be begun yet: %s", task.exception())

    async def _begin(self, call: CallRecord, tool: Tool) -> bool:
        """Prepares the call as it was made and runs it, or ends it with the reason why it cannot run."""
        try:
            brought = context_of(call, self._ring)
            command, caller = command_of(call, brought), caller_of(call, brought, tool)
            work = await self._engine.prepare(tool, command, caller, _channel(call))
        except StoreDown:
            raise  # it is started later
        except BrokenSeal:
            return await self._end(call, Move.UNKNOWN, NO_KEY)
        except UNREADABLE as error:
            _log.error("the call %s of %s cannot be read: %s", call.key.call_id, call.reference, error)
            return await self._end(call, Move.UNKNOWN, NO_INPUT)
        except (MissingRequirements, Unavailable) as error:
            return await self._lacks(call, error)
        except ToolyardError as error:
            return await self._end(call, Move.UNKNOWN, _why_not(call, error))
        if self._store.hints.is_leaving:
            return False  # the calls that this node has just handed back are found here, too
        number = await self._store.restart(call.seq, call.attempt)
        if number is None:
            return False
        level = logging.WARNING if call.attempt else logging.INFO  # what waited for a yes was not lost
        _log.log(level, "%s (call %s): attempt %d starts", call.reference, call.key.call_id, number)
        work.new.key, work.new.fingerprint = call.key, call.fingerprint
        self._recorded.go_on(call.seq, number, work)
        return True

    async def _lacks(self, call: CallRecord, error: MissingRequirements | Unavailable) -> bool:
        """What was kept for the call is not there any more, so it waits for that or ends. A call whose attempt was lost
        is taken over first: the wait is a write of the attempt that holds it."""
        if call.state is State.PROCESSING:
            number = await self._store.restart(call.seq, call.attempt)
            if number is None:
                return False
            call = replace(call, attempt=number)
        await self._lacking.hold(call, error)
        return True

    async def _end(self, call: CallRecord, move: Move, message: str) -> bool:
        if call.attempt == 0:  # it waited for a person and never began, so nothing can have happened
            move, effects = Move.FAIL, "none"
        else:
            effects = "unknown"
        ending = ended_by(move, message, effects)
        _log.warning("%s (call %s) ends as %s", call.reference, call.key.call_id, ending.code)
        return await self._store.give_up(call.seq, call.attempt, ending)


def _why_not(call: CallRecord, error: ToolyardError) -> str:
    """What its caller is told; one that only waited was never run."""
    what = "The tool cannot be run again" if call.attempt else "The call was not begun"
    return f"{what}: {error.message}"


def _channel(call: CallRecord) -> Channel:
    """Nobody waits for it now. A client that called over MCP comes back for what it asks."""
    return LedgerChannel() if call.wire.startswith("mcp") else QuietChannel()
