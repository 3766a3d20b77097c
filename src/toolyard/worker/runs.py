"""The runs of a worker: each from a claimed request to the outcome that is submitted."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..model.call import Outcome
from ..model.channel import QuietChannel
from ..model.clock import SYSTEM_CLOCK
from ..model.errors import InvalidInput, ToolError
from ..model.run import Run
from ..model.tool import Host, Tool
from ..model.worker import Claimed
from ..model.writes import call_id_of
from ..runners.attempt import Recipe, attempt, unexpected
from ..text.scrubber import scrubber_of
from .capacity import Capacity
from .heartbeat import HeartbeatLoop
from .held_request import HeldRequest
from .submission import Submission

STOP_S = 1.0
"""How long a run may take to notice that it was stopped."""
_log = logging.getLogger("toolyard.worker")


class Bench(Struct, frozen=True):
    """What a worker has ready to run: each tool with its recipe, by reference, and the resources of its app."""

    tools: Mapping[str, tuple[Tool, Recipe]]
    resources: Mapping[Host, Any]


class Runs:
    """The runs under way. Each is a task of its own, whose request is renewed by the heartbeat until its outcome is
    submitted."""

    def __init__(self, bench: Bench, capacity: Capacity, heartbeat: HeartbeatLoop, submission: Submission) -> None:
        self._bench, self._capacity, self._heartbeat, self._submission = bench, capacity, heartbeat, submission
        self._tasks: dict[asyncio.Task[None], HeldRequest] = {}
        self.done = 0

    def start(self, claimed: Claimed) -> None:
        known = self._bench.tools.get(claimed.tool)
        if known is None:  # nothing is said to the server: the lease runs out, and another worker may get it
            _log.error("the server gave out %s, which this worker does not have", claimed.tool)
            return
        tool, recipe = known
        held = HeldRequest(claimed, self._run(tool, claimed))
        task = asyncio.get_running_loop().create_task(self._through(held, recipe))
        self._tasks[task] = held
        held.begins(task)
        self._capacity.take(tool.reference)
        self._heartbeat.hold(held)
        task.add_done_callback(self._ended)

    async def drain(self, grace_s: float) -> int:
        """Waits for the runs to end; after `grace_s` stops those that are left, and hands their requests back where
        they may be run again. Returns how many were stopped."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        stopped = dict(self._tasks)
        for task, held in stopped.items():
            held.stop()
            task.cancel()
        if stopped:
            await asyncio.wait(stopped, timeout=STOP_S)
            await asyncio.gather(*map(self._submission.hand_back, stopped.values()))
        return len(stopped)

    async def _through(self, held: HeldRequest, recipe: Recipe) -> None:
        """Runs a request and submits its outcome, unless the request was lost meanwhile."""
        try:
            outcome = await self._outcome(held, recipe)
        except asyncio.CancelledError:  # by `HeldRequest.lose`, or by `drain`, which hands the request back itself
            if held.lost_because is None:
                raise
        if held.lost_because is not None:
            _log.info("%s was given up: %s", held.name, held.lost_because)
            return
        held.ends()
        await self._submission.submit(held, outcome)

    async def _outcome(self, held: HeldRequest, recipe: Recipe) -> Outcome:
        run = held.run
        try:
            arguments = run.tool.code.bind(run.input)
        except InvalidInput as invalid:
            return Outcome(run.call_id, 0.0, error=_explained(invalid))
        except BaseException as raised:  # an author's validator
            return Outcome(run.call_id, 0.0, error=unexpected(recipe.bounds, run.tool, run.call_id, raised))
        return await attempt(recipe, arguments, run, SYSTEM_CLOCK.monotonic)

    def _run(self, tool: Tool, claimed: Claimed) -> Run:
        context = claimed.context
        return Run(
            tool, call_id_of(claimed.session, claimed.request), claimed.caller, claimed.input, QuietChannel(),
            claimed.trace_id, context.user_info, context.secrets, context.tokens, self._bench.resources.get(tool.host),
            scrubber=scrubber_of(context.secrets, context.tokens), input_json=msgspec.json.encode(claimed.input),
        )  # fmt: skip

    def _ended(self, task: "asyncio.Task[None]") -> None:
        held = self._tasks.pop(task)
        self._heartbeat.release(held)
        self._capacity.give_back(held.run.tool.reference)
        if task.cancelled():
            return
        self.done += 1
        if (error := task.exception()) is not None:
            _log.error("the outcome of %s could not be submitted", held.name, exc_info=error)


def _explained(invalid: InvalidInput) -> ToolError:
    """The error for input that fits the schema, which the server has checked, and not the author's own validators."""
    problems = [f"{each.path}: {each.sentence}" if each.path else each.sentence for each in invalid.problems]
    return ToolError(f"{invalid.message}: {'; '.join(problems)}", can_retry=False)
