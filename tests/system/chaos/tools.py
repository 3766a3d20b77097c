"""Tools that leave a trace outside the ledger at the moment when they do what they are for, in the middle of their
time. What they return says which run of which process it was.

`here` is served by the nodes, `away` by workers. `again` may be run again, `once` may not.
"""

import asyncio
import os
import random
import time
import uuid
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.system.chaos.history import Effect, encode
from toolyard import Context, ToolError, Toolkit

NOT_THIS_TIME = "not this time"
SHORT_S, LONG_S = 0.02, 1.2
ONE_IN = 3
"""Calls, by their mark, takes long, at every attempt: so that one that was lost and the next run at the same time."""

here = Toolkit("Here", version="1.0.0", description="Run by the nodes.")
away = Toolkit("Away", version="1.0.0", description="Run by workers.")


class Run:
    """One start of a tool."""

    def __init__(self, tool: str, mark: str, call_id: str, caller: str = "") -> None:
        self._tool, self._mark, self._call_id, self._caller = tool, mark, call_id, caller
        self.id, self._began = uuid.uuid4().hex[:12], time.time()
        self._process = os.environ["CHAOS_PROCESS"]
        self._longest_s = LONG_S if crc32(mark.encode()) % ONE_IN == 0 else SHORT_S

    def has_its_effect(self) -> None:
        leave_trace(
            Path(os.environ["CHAOS_EFFECTS"]),
            Effect(
                self._call_id, self._tool, self._mark, self.id, self._process, os.getpid(), self._began, self._caller
            ),
        )

    def some_time(self) -> float:
        return random.uniform(self._longest_s / 4, self._longest_s)

    @property
    def result(self) -> dict[str, Any]:
        made = {"run": self.id, "process": self._process, "began": self._began}
        return {**made, "caller": self._caller} if self._caller else made


def leave_trace(path: Path, effect: Effect) -> None:
    """One line, whole, behind all others."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, encode(effect) + b"\n")
    finally:
        os.close(file)


def in_a_thread(run: Run) -> dict[str, Any]:
    time.sleep(run.some_time())
    run.has_its_effect()
    time.sleep(run.some_time())
    return run.result


async def on_the_loop(run: Run) -> dict[str, Any]:
    await asyncio.sleep(run.some_time())
    run.has_its_effect()
    await asyncio.sleep(run.some_time())
    return run.result


@here.tool(name="Again", idempotent=True)
def here_again(mark: str, ctx: Context) -> dict[str, Any]:
    """May be run again."""
    return in_a_thread(Run("Here.Again", mark, ctx.call_id, ctx.caller.subject))


@here.tool(name="Once")
async def here_once(mark: str, ctx: Context) -> dict[str, Any]:
    """May not be run again."""
    return await on_the_loop(Run("Here.Once", mark, ctx.call_id, ctx.caller.subject))


@here.tool(name="Narrow", concurrency=2)
async def here_narrow(mark: str, ctx: Context) -> dict[str, Any]:
    """May not be run again, nor more than twice at once."""
    return await on_the_loop(Run("Here.Narrow", mark, ctx.call_id, ctx.caller.subject))


@here.tool(name="Fickle", idempotent=True)
async def here_fickle(mark: str, ctx: Context) -> dict[str, Any]:
    """Wants to be tried again, every other time."""
    run = Run("Here.Fickle", mark, ctx.call_id, ctx.caller.subject)
    await asyncio.sleep(run.some_time())
    if random.random() < 0.5:
        raise ToolError(f"{NOT_THIS_TIME}: run {run.id}", can_retry=True, retry_after_ms=10)
    return await on_the_loop(run)


@away.tool(name="Again", idempotent=True)
async def away_again(mark: str, ctx: Context) -> dict[str, Any]:
    """May be run again."""
    return await on_the_loop(Run("Away.Again", mark, ctx.call_id))


@away.tool(name="Once")
def away_once(mark: str, ctx: Context) -> dict[str, Any]:
    """May not be run again."""
    return in_a_thread(Run("Away.Once", mark, ctx.call_id))
