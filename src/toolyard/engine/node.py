"""What this process, a node, holds in the ledger: the attempts that run here.

Whoever ends a call in the ledger (a cancel, a limit, a node that took this one for dead) stops its attempt here. How
the attempt ends is recorded, if it still holds the call; and whoever waits is answered from the ledger. So two nodes
that both believe they run a call give one answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import Any, cast

import msgspec

from ..model.call import Outcome
from ..model.errors import ToolError
from ..model.judge import ended_by
from ..model.lifecycle import ENDED, Move
from ..model.record import ending_of
from ..model.run import Run
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import StoreDown
from .wait import TRY_STORE_AGAIN_S, outcome_from_ledger

NOT_KNOWN = "The server stopped while the tool ran; whether it was done is not known"
_log = logging.getLogger("toolyard.ledger")
_encode = msgspec.json.Encoder().encode


class HeldAttempt:
    """An attempt at a recorded call that runs here. Its `seq` and `attempt` are the fence: every write about the call
    names them, and changes nothing once another attempt holds the call."""

    def __init__(self, node: "Node", seq: int, attempt: int, on_lost: str, run: Run) -> None:
        self._node, self._store = node, node.store
        self.seq, self.attempt, self._on_lost, self.run = seq, attempt, on_lost, run
        self._told: object = None

    async def through(self, outcome: Awaitable[Outcome]) -> Outcome:
        """Runs the attempt in the task that calls this. Raises CancelledError if the server leaves it."""
        task = cast("asyncio.Task[Outcome]", asyncio.current_task())
        self.run.task = task
        self.run.on_recorded(self.seq, self.attempt)
        ended = False

        def stop() -> None:
            """Once: a hint may come twice, and the second must not stop who waits for the end."""
            nonlocal ended
            if not ended:
                ended = True
                self.run.channel.cancelled = True
                task.cancel()

        forget = self._store.hints.watch(Topic.ENDED, self.seq, stop)
        self._node.held.add(self)
        try:
            try:
                ran = await outcome
            except asyncio.CancelledError:
                if not ended:
                    await self.left()
                    raise
                task.uncancel()  # the cancellation was for the tool; who waits for this task is answered
                return await outcome_from_ledger(self._store, self.seq)
            finally:
                self._node.held.discard(self)
                forget()
            if ended and task.cancelling():  # the tool took the cancellation for its own
                task.uncancel()
            return await self.finished(ran)
        finally:
            if self.run.place is not None:
                self.run.place.give()

    async def finished(self, outcome: Outcome) -> Outcome:
        """Records how it ended; what is answered is what the ledger says."""
        ending = ending_of(outcome)
        while True:
            try:
                winner = await self._store.finish(self.seq, self.attempt, ending)
            except StoreDown as down:
                _log.error("an outcome waits to be recorded: %s", down.developer_message)
                await asyncio.sleep(TRY_STORE_AGAIN_S)
            except Exception:  # whatever is wrong with it: its call must end
                if outcome.error is not None:
                    raise
                _log.exception("%s (call %s): its result cannot be recorded", self.run.tool.id, self.run.call_id)
                lost = ToolError(f"{self.run.tool.id} ran, and its result could not be recorded", can_retry=False)
                outcome = Outcome(outcome.call_id, outcome.duration_ms, error=lost)
                ending = ending_of(outcome)
            else:
                break
        if winner is None:
            return outcome
        return winner.outcome() if winner.state in ENDED else await outcome_from_ledger(self._store, self.seq)

    async def left(self) -> None:
        """The server stops before the attempt is done: it is left to another, or ended honestly."""
        with suppress(StoreDown):
            if self._on_lost == "rerun":
                await self._store.hand_back(self.seq, self.attempt)
            else:
                await self._store.finish(self.seq, self.attempt, ended_by(Move.UNKNOWN, NOT_KNOWN, "unknown"))

    def news(self) -> bytes | None:
        """How far it is, if it has said more since the last time."""
        said = self.run.last_progress
        if said is None or said == self._told:
            return None
        self._told = said
        done, total, message = said
        told = {"done": done, "total": total, "message": message}
        return _encode({name: value for name, value in told.items() if value is not None})


class Node:
    """The attempts and the loose tasks of this process: what has to be stopped, or said to be left, when it stops."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held: set[HeldAttempt] = set()
        """The attempts at recorded calls that run here."""
        self.long: set[asyncio.Task[Outcome]] = set()
        """The tasks of calls that run in their request's task and did not end at once."""
        self._beside: set[asyncio.Task[Any]] = set()

    def run_of(self, seq: int) -> Run | None:
        """The attempt at a call that runs here."""
        return next((held.run for held in self.held if held.seq == seq), None)

    def beside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Does something that nobody waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._beside.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("something was not done: %s", task.exception())

    async def leave(self) -> None:
        """Stops what is still running; each says what becomes of it."""
        for task in self.long:
            task.cancel()
        if self.long:
            await asyncio.wait(self.long)

    async def tell_progress(self) -> None:
        """Writes down how far its attempts are."""
        news = [(held.seq, held.attempt, said) for held in self.held if (said := held.news()) is not None]
        if news:
            await self.store.note_progress(news)
