"""Calls without a key that do not end at once, and are promoted: recorded while they run.

They began on the fast lane, in the task of their request, and they stay in it: a tool's first step may have looked at
its task. Past `sync_wait_s` such a call is recorded, its client is told where to ask for the result, and the task goes
on. A client that goes away before that takes the call with it, unless its tool says otherwise.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import cast

from ..model.call import CallTool, Outcome
from ..model.errors import OutcomeUnknown, ToolCancelled
from ..model.record import NewCall
from ..model.run import Run
from ..store.hints import Topic
from ..store.values import StoreDown
from ..store.write_behind import WriteBehind
from ..trust.limits.quotas import Quotas
from .durable import ask_later
from .node import NOT_KNOWN, HeldAttempt, Node
from .wait import outcome_from_ledger

TRY_AGAIN_S = 1.0
_log = logging.getLogger("toolyard.ledger")


class Promotions:
    """Goes on with the calls of the fast lane that did not end with their first step, and promotes those that take too
    long for their clients to wait."""

    def __init__(
        self,
        node: Node,
        recorder: WriteBehind | None,
        sync_wait_s: float,
        describe: Callable[[CallTool, Run], NewCall],
        quotas: Quotas,
    ) -> None:
        self.node, self.recorder, self.sync_wait_s, self.describe = node, recorder, sync_wait_s, describe
        self._quotas = quotas

    async def through(self, rest: Awaitable[Outcome], command: CallTool, run: Run) -> Outcome:
        """Goes on with a call whose first step is done."""
        call = PromotedCall(self, command, run)
        self.node.long.add(call.task)
        self._quotas.begin(run.caller.tenant, run.caller.subject)
        try:
            outcome = await call.through(rest)
        except asyncio.CancelledError:
            call.record(Outcome(run.call_id, 0.0, error=OutcomeUnknown(NOT_KNOWN, can_retry=False)))
            raise
        finally:
            self.node.long.discard(call.task)
            self._quotas.end(run.caller.tenant, run.caller.subject)
            if run.place is not None:
                run.channel.when_answered(run.place.give)
        return outcome


class PromotedCall:
    """One such call, in its request's task. Until it is recorded it is its client's alone; then it is the ledger's, and
    goes on whoever goes away."""

    def __init__(self, calls: Promotions, command: CallTool, run: Run) -> None:
        self._calls, self._command, self._run = calls, command, run
        self._held: HeldAttempt | None = None
        self._recording: asyncio.Task[None] | None = None
        self._stopped_by: str | None = None
        self._is_late = False
        self._again: asyncio.TimerHandle | None = None
        self.task = cast("asyncio.Task[Outcome]", asyncio.current_task())
        self._forget: Callable[[], None] = lambda: None

    async def through(self, rest: Awaitable[Outcome]) -> Outcome:
        """Runs the rest of the call and says how it ended. Raises CancelledError where the server stops."""
        loop, run = asyncio.get_running_loop(), self._run
        self._timer = loop.call_later(self._calls.sync_wait_s, self._on_slow)
        run.task, run.promote = self.task, self._start_recording
        run.channel.takes_long(self._start_recording)
        if run.promoted is not None:  # its first step asked something already
            self._start_recording()
        if self._run.tool.on_disconnect != "continue":
            self._run.channel.when_gone(lambda: self._stop("client"))
        try:
            outcome = await rest
        except asyncio.CancelledError:
            return await self._cancelled()
        finally:
            for timer in (self._timer, self._again):
                if timer is not None:
                    timer.cancel()
            self._forget()
            if self._held is not None:
                self._calls.node.held.discard(self._held)
        await self._recorded()
        if self._held is None:
            self.record(outcome)
            return outcome
        return await self._held.finished(outcome)

    def record(self, outcome: Outcome) -> None:
        """Behind, unless the ledger has it already."""
        if self._held is None and self._calls.recorder is not None:
            self._calls.recorder.add(self._command, self._run, outcome)

    async def _cancelled(self) -> Outcome:
        """The client is gone, the ledger says that the call has ended, or the server is leaving."""
        await self._recorded()
        if self._stopped_by is None:
            if self._held is not None:
                await self._held.left()
            raise asyncio.CancelledError
        self.task.uncancel()
        if self._held is not None and self._stopped_by == "ledger":
            return await outcome_from_ledger(self._calls.node.store, self._held.seq)
        stopped = ToolCancelled("The call was cancelled: its client went away", can_retry=False)
        outcome = Outcome(self._run.call_id, 0.0, error=stopped)
        self.record(outcome)
        return outcome if self._held is None else await self._held.finished(outcome)

    async def _recorded(self) -> None:
        """A record that is being written is waited for: what is said of the call must fit it."""
        if self._recording is not None:
            await asyncio.wait((self._recording,))

    def _on_slow(self) -> None:
        """Its client is told where to ask for the result, once that is true."""
        self._is_late = True
        if self._held is not None:
            self._run.channel.answer(ask_later(self._run.call_id))
        else:
            self._start_recording()

    def _start_recording(self) -> None:
        if self._recording is None or self._recording.done():
            self._recording = asyncio.get_running_loop().create_task(self._record())

    async def _record(self) -> None:
        store, run = self._calls.node.store, self._run
        if self._held is not None:
            return
        new = self._calls.describe(self._command, run)
        try:
            begun = await store.begin(new)
        except StoreDown as down:
            _log.warning("a slow call cannot be recorded yet: %s", down.developer_message)
            self._again = asyncio.get_running_loop().call_later(TRY_AGAIN_S, self._start_recording)
            return
        self._held = HeldAttempt(self._calls.node, begun.seq, 1, new.on_lost, run)
        self._calls.node.held.add(self._held)
        self._forget = store.hints.watch(Topic.ENDED, begun.seq, lambda: self._stop("ledger"))
        run.on_recorded(begun.seq, 1)
        if self._is_late:
            run.channel.answer(ask_later(run.call_id))

    def _stop(self, who: str) -> None:
        """By whoever is first. A client cannot stop what was recorded: it was told that it may come back."""
        if self._stopped_by is None and not (who == "client" and self._held is not None):
            self._stopped_by = who
            self._run.channel.cancelled = True
            self.task.cancel()
