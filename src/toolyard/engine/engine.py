"""The path of a call, in one direction:

resolve -> limits -> validate input -> requirements -> run -> check output -> outcome.

`resolve` and `call` are separate, so that a wire can refuse what is not there before it promises anything. The engine
raises one tree of errors before the tool runs and returns an Outcome after; it knows no status code.
A call here makes no task and no lock: what it costs is what the bars in bench/ measure.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from ..catalogue import Catalogue
from ..model.call import CallTool, Outcome
from ..model.caller import Caller
from ..model.errors import ToolError, ToolTimedOut
from ..model.running import Channel, Hook, Run, Runner
from ..model.seam import SYSTEM, Seam
from ..model.tool import Tool
from .output import BrokenResult, to_json
from .slots import Slots
from .validation import compile_schema, explain, first_difference

_log = logging.getLogger("toolyard.engine")


class Limits(Struct, frozen=True):
    """How long things may take, unless a tool says otherwise."""

    run_s: float = 300.0
    queue_s: float = 10.0
    show_exceptions: bool = False


class RequirementsCheck(Protocol):
    """Raises MissingRequirements when a call lacks what its tool needs."""

    def __call__(self, tool: Tool, command: CallTool, caller: Caller, base_url: str) -> None: ...


class Plan(Struct, frozen=True):
    """What is worked out once a tool, so that a call need not."""

    bind: Callable[[Any], dict[str, Any]]
    input_check: Any
    accepts: Callable[[Any], bool]
    output_check: Any
    returns: Callable[[Any], bool]
    run: Callable[[dict[str, Any], Run], Any]
    timeout: float | None
    slots: Slots | None


class Engine:
    """Takes calls of the catalogue's tools."""

    def __init__(
        self,
        catalogue: Catalogue,
        runners: dict[str, Runner],
        check_requirements: RequirementsCheck,
        limits: Limits,
        seam: Seam = SYSTEM,
    ) -> None:
        self._catalogue = catalogue
        self._runners = runners
        self._check_requirements = check_requirements
        self._limits = limits
        self._seam = seam
        self._plans: dict[Tool, Plan] = {}
        self.resolve = catalogue.resolve
        self.prepare()
        catalogue.subscribe(self.prepare)

    def prepare(self) -> None:
        """A plan for each tool that has none. Raises DefinitionError for a schema that cannot be checked."""
        there = self._catalogue.all()
        self._plans = {tool: self._plans.get(tool) or self._plan(tool) for tool in there}

    async def call(
        self, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: str = ""
    ) -> Outcome:
        """Raises RequestError or ServerError when the tool was not run; afterwards always an Outcome."""
        plan = self._plans[tool]
        if plan.slots is None:
            return await self._validated(plan, tool, command, caller, channel, base_url)
        await plan.slots.take()
        try:
            return await self._validated(plan, tool, command, caller, channel, base_url)
        finally:
            plan.slots.give_back()

    async def _validated(
        self, plan: Plan, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: str
    ) -> Outcome:
        input, context = command.input, command.context
        if not plan.accepts(input):
            raise explain(plan.input_check, input)
        arguments = plan.bind(input)
        if context.user_id is not None:
            caller = Caller(caller.tenant, caller.subject, context.user_id)
        if tool.requirements:
            self._check_requirements(tool, command, caller, base_url)
        run = Run(
            tool, command.call_id or self._seam.new_id(), caller, input, channel,
            command.trace_id, context.user_info, context.secrets, context.tokens,
        )  # fmt: skip
        return await self._executed(plan, arguments, run)

    async def _executed(self, plan: Plan, arguments: dict[str, Any], run: Run) -> Outcome:
        monotonic = self._seam.monotonic
        started = monotonic()
        error: ToolError
        try:
            if run.tool.host.around:
                value = await _within(run.tool.host.around, plan, arguments, run)
            elif plan.timeout is None:
                value = await plan.run(arguments, run)
            else:
                value = await _bounded(plan.timeout, plan.run, arguments, run)
            if not plan.returns(value):
                raise BrokenResult(
                    f"the result breaks the output schema at {first_difference(plan.output_check, value)}"
                )
            data = to_json(value)
            return Outcome(run.call_id, _milliseconds(monotonic() - started), data)
        except ToolError as failed:
            error = failed
        except asyncio.CancelledError as cancelled:
            run.channel.cancelled = True
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            error = self._unexpected(run, cancelled)  # the tool cancelled itself
        except BrokenResult as broken:
            _log.error("%s (call %s): %s", run.tool.reference, run.call_id, broken)
            error = self._hidden(run, str(broken))
        except (Exception, SystemExit) as raised:
            error = self._unexpected(run, raised)
        return Outcome(run.call_id, _milliseconds(monotonic() - started), error=error)

    def _unexpected(self, run: Run, raised: BaseException) -> ToolError:
        _log.error("%s (call %s) raised", run.tool.reference, run.call_id, exc_info=raised)
        return self._hidden(run, f"{type(raised).__name__}: {raised}")

    def _hidden(self, run: Run, reason: str) -> ToolError:
        """An unexpected failure: its text is for the log, not for the model."""
        return ToolError(
            f"{run.tool.id} failed unexpectedly",
            developer_message=reason if self._limits.show_exceptions else None,
            can_retry=False,
        )

    def _plan(self, tool: Tool) -> Plan:
        input_check = compile_schema(tool.input_schema, tool)
        output_check = compile_schema({"type": "null"} if tool.output_schema is None else tool.output_schema, tool)
        stoppable = tool.runs != "inline" or tool.code.is_async
        return Plan(
            bind=tool.code.bind,
            input_check=input_check,
            accepts=input_check.is_valid,
            output_check=output_check,
            returns=output_check.is_valid,
            run=self._runners[tool.runs].run,
            timeout=(tool.timeout or self._limits.run_s) if stoppable else None,
            slots=Slots(tool.id, tool.concurrency, self._limits.queue_s) if tool.concurrency else None,
        )


async def _bounded(
    timeout: float, run_tool: Callable[[dict[str, Any], Run], Any], arguments: dict[str, Any], run: Run
) -> Any:
    """Runs until done or `timeout`. (`asyncio.timeout` and `wait_for` cost several times as much.)"""
    task = asyncio.current_task()
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()  # type: ignore[union-attr]

    timer = asyncio.get_running_loop().call_later(timeout, expire)
    try:
        return await run_tool(arguments, run)
    except asyncio.CancelledError:
        if not expired:
            raise
        run.channel.cancelled = True
        task.uncancel()  # type: ignore[union-attr]
        raise ToolTimedOut(
            f"{run.tool.id} took longer than {timeout:g} seconds and was stopped", can_retry=False
        ) from None
    finally:
        timer.cancel()


async def _within(hooks: list[Hook], plan: Plan, arguments: dict[str, Any], run: Run) -> Any:
    """The tool inside its app's hooks, the first hook outermost."""

    async def proceed(index: int = 0) -> Any:
        if index < len(hooks):
            return await hooks[index](run, lambda: proceed(index + 1))
        return await plan.run(arguments, run)

    async def all_of_it(arguments: dict[str, Any], run: Run) -> Any:
        return await proceed()

    if plan.timeout is None:
        return await proceed()
    return await _bounded(plan.timeout, all_of_it, arguments, run)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
