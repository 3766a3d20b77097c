"""Calls with a key: recorded before they run, run once, and answered from the ledger ever after.

An attempt runs in a task of its own. Whoever asks for it, the first time or again, waits for that task; who will not
wait longer is told to come back, and the attempt goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from ..model.call import CallTool, Outcome
from ..model.caller import Caller
from ..model.errors import KeyConflict, RequestError, ToolError
from ..model.lifecycle import ENDED
from ..model.record import CallRecord, Key, NewCall, ending_of
from ..store.contract import Begun, Store, StoreDown
from ..trust.fingerprints import Fingerprints
from .slots import Slots

RETRY_AFTER_MS = 1000
TRY_STORE_AGAIN_S = 0.25
_log = logging.getLogger("toolyard.ledger")

Attempt = Callable[[], Awaitable[Outcome]]
"""Runs the tool: everything after the call was checked and recorded."""


class Work(Struct):
    """A call that was proved valid: what to record, how to run it, and the line it has to stand in first."""

    new: NewCall
    attempt: Attempt
    slots: Slots | None


class Running(Struct):
    """A keyed call that runs on this node."""

    fingerprint: bytes
    task: "asyncio.Task[Outcome]"


class KeyedCalls:
    """One key, one execution."""

    def __init__(self, store: Store, fingerprints: Fingerprints, sync_wait_s: float) -> None:
        self._store, self._fingerprints, self._sync_wait_s = store, fingerprints, sync_wait_s
        self._running: dict[Key, Running] = {}

    async def call(self, command: CallTool, caller: Caller, check: Callable[[], Work]) -> Outcome:
        """`check` proves the call valid, or raises what is wrong with it. A known key with the same fingerprint is
        answered before anything is checked, one with another only after."""
        key = Key(caller.tenant, caller.subject, command.family, command.call_id or "")
        fingerprint = self._fingerprints.of(command.tool_id, command.context.user_id, command.input)
        running = self._running.get(key)
        if running is not None and running.fingerprint == fingerprint:
            return await self._wait(key, running.task)
        try:
            work = check()
        except RequestError:
            known = await self._known(key, fingerprint)
            if known is None:
                raise
            return known
        if running is not None:
            raise _conflict(key)
        work.new.key, work.new.fingerprint = key, fingerprint
        return await self._wait(key, self._start(key, fingerprint, self._once(work)))

    async def replay(self, command: CallTool, caller: Caller) -> Outcome | None:
        """What a call whose tool is gone was answered with."""
        key = Key(caller.tenant, caller.subject, command.family, command.call_id or "")
        return await self._known(key, self._fingerprints.of(command.tool_id, command.context.user_id, command.input))

    async def close(self, grace_s: float) -> None:
        """Waits for what still runs, so long; then stops it. The ledger says that it was running, and the next start
        settles it."""
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def resume(self, lost: CallRecord, number: int, attempt: Attempt) -> None:
        """Runs a further attempt of a call whose last one was lost."""
        self._start(lost.key, lost.fingerprint, self._finished(lost.seq, number, attempt))

    async def changed(self, key: Key, timeout_s: float) -> None:
        """Waits until a call that runs on this node ends, or so long."""
        running = self._running.get(key)
        if running is None:
            await asyncio.sleep(timeout_s)
        else:
            await asyncio.wait((running.task,), timeout=timeout_s)

    def _start(self, key: Key, fingerprint: bytes, work: "asyncio._CoroutineLike[Outcome]") -> "asyncio.Task[Outcome]":
        task = asyncio.get_running_loop().create_task(work)
        self._running[key] = Running(fingerprint, task)
        task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: Key, task: "asyncio.Task[Outcome]") -> None:
        self._running.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            _log.debug("call %s was not made: %s", key.call_id, task.exception())  # its callers are told

    async def _once(self, work: Work) -> Outcome:
        """Who has to stand in line does so before anything is recorded, but not for what is known already."""
        if work.slots is None:
            return await self._recorded(work)
        known = await self._known(work.new.key, work.new.fingerprint)
        if known is not None:
            return known
        await work.slots.take()
        try:
            return await self._recorded(work)
        finally:
            work.slots.give_back()

    async def _recorded(self, work: Work) -> Outcome:
        begun = await self._store.begin(work.new)
        if begun.seq == 0:
            return self._answer(begun, work.new.key, work.new.fingerprint)
        return await self._finished(begun.seq, 1, work.attempt)

    async def _finished(self, seq: int, number: int, attempt: Attempt) -> Outcome:
        outcome = await attempt()
        ending = ending_of(outcome)
        while True:
            try:
                winner = await self._store.finish(seq, number, ending)
            except StoreDown as down:
                _log.error("an outcome waits to be recorded: %s", down.developer_message)
                await asyncio.sleep(TRY_STORE_AGAIN_S)
            else:
                return outcome if winner is None else winner.outcome()

    async def _known(self, key: Key, fingerprint: bytes) -> Outcome | None:
        begun = await self._store.find(key)
        if begun is None or _fingerprint(begun) != fingerprint:
            return None
        return self._answer(begun, key, fingerprint)

    def _answer(self, begun: Begun, key: Key, fingerprint: bytes) -> Outcome:
        if _fingerprint(begun) != fingerprint:
            raise _conflict(key)
        if begun.known is None:
            raise KeyConflict(
                "This call was made before, and its result is no longer kept",
                developer_message=f"call_id {key.call_id!r} is still taken; use another for a new call",
            )
        if begun.known.state in ENDED:
            return begun.known.outcome()
        return still_running(key.call_id)

    async def _wait(self, key: Key, task: "asyncio.Task[Outcome]") -> Outcome:
        done, _ = await asyncio.wait((task,), timeout=self._sync_wait_s)
        return task.result() if done else still_running(key.call_id)


def still_running(call_id: str) -> Outcome:
    """For who will not wait longer: the same call again joins it."""
    error = ToolError(
        "The tool is still running",
        developer_message="call again with the same call_id and input to wait for its result",
        can_retry=True,
        retry_after_ms=RETRY_AFTER_MS,
    )
    return Outcome(call_id, 0.0, error=error)


def _fingerprint(begun: Begun) -> bytes:
    return begun.known.fingerprint if begun.known is not None else begun.tombstone or b""


def _conflict(key: Key) -> KeyConflict:
    return KeyConflict(
        "This call_id was used for another call",
        developer_message=f"call_id {key.call_id!r} was used before with another tool, user or input",
    )
