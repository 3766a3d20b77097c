"""The path of a call, in one direction:

resolve -> limits -> validate input -> requirements -> run -> check output -> outcome.

`resolve` and `call` are separate, so that a wire can refuse what is not there before it promises anything. The engine
raises one tree of errors before the tool runs and returns an Outcome after; it knows no status code.
A call here makes no task and no lock: what it costs is what the bars in bench/ measure.
"""

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from math import isfinite
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..catalogue import Catalogue
from ..model.call import CallTool, Outcome
from ..model.caller import Caller
from ..model.errors import InvalidInput, ToolError, ToolTimedOut
from ..model.record import new_call
from ..model.running import Channel, Hook, Host, Run, Runner
from ..model.seam import SYSTEM, Seam
from ..model.tool import Tool
from ..running.processes import ChildFailed
from ..trust.keys import KeyRing
from .keyed import KeyedCalls, Work
from .output import BrokenResult, to_json
from .recorder import Recorder
from .slots import Slots
from .validation import compile_schema, explain, first_difference

_log = logging.getLogger("toolyard.engine")
_encode = msgspec.json.Encoder().encode


class Limits(Struct, frozen=True):
    """How long things may take, unless a tool says otherwise."""

    run_s: float = 300.0
    queue_s: float = 10.0
    show_exceptions: bool = False


class RequirementsCheck(Protocol):
    """Raises MissingRequirements when a call lacks what its tool needs. `base_url` is this server's address."""

    def __call__(self, tool: Tool, command: CallTool, caller: Caller, base_url: Callable[[], str]) -> None: ...


class Plan(Struct, frozen=True):
    """What is worked out once a tool, so that a call need not."""

    bind: Callable[[Any], dict[str, Any]]
    input_check: Any
    accepts: Callable[[Any], bool]
    output_check: Any
    returns: Callable[[Any], bool]
    run: Callable[[dict[str, Any], Run], Coroutine[Any, Any, Any]]
    timeout: float
    slots: Slots | None
    has_requirements: bool


class Engine:
    """Takes calls of the catalogue's tools."""

    def __init__(
        self,
        catalogue: Catalogue,
        runners: dict[str, Runner],
        check_requirements: RequirementsCheck,
        limits: Limits,
        keyed: KeyedCalls,
        recorder: Recorder | None,
        ring: KeyRing,
        seam: Seam = SYSTEM,
    ) -> None:
        self._catalogue = catalogue
        self._runners = runners
        self._check_requirements = check_requirements
        self._limits, self._keyed, self._recorder = limits, keyed, recorder
        self._seal = partial(ring.seal, "context")
        self._new_id, self._monotonic = seam.new_id, seam.monotonic
        self._plans: dict[Tool, Plan] = {}
        self.resources: dict[Host, Any] = {}
        """What each app's lifespan made, while the server runs."""
        self.resolve = catalogue.resolve
        self.prepare()
        catalogue.subscribe(self.prepare)

    def prepare(self) -> None:
        """A plan for each tool that has none. Raises DefinitionError for a schema that cannot be checked."""
        there = self._catalogue.all()
        self._plans = {tool: self._plans.get(tool) or self._plan(tool) for tool in there}

    async def call(
        self, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str] = str
    ) -> Outcome:
        """Raises RequestError or ServerError when the tool was not run; afterwards always an Outcome."""
        if command.call_id is not None:
            return await self._keyed.call(command, caller, lambda: self.work(tool, command, caller, channel, base_url))
        plan = self._plans[tool]
        if plan.slots is not None:
            await plan.slots.take()
        try:
            try:
                arguments, run = self._checked(plan, tool, command, caller, channel, base_url)
            except ToolError as error:
                return Outcome(self._new_id(), 0.0, error=error)
            outcome = await self._execute(plan, arguments, run)
        finally:
            if plan.slots is not None:
                plan.slots.give_back()
        if self._recorder is not None:
            self._recorder.add(command, run, outcome)
        return outcome

    def _checked(
        self, plan: Plan, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str]
    ) -> tuple[dict[str, Any], Run]:
        """The arguments and the run of a call that may be made. Raises what is wrong with it, and ToolError where the
        author's own validator fails."""
        input, context = command.input, command.context
        if not plan.accepts(input):
            raise explain(plan.input_check, tool.input_schema, input)
        try:
            arguments = plan.bind(input)
        except InvalidInput:
            raise
        except Exception as raised:  # an author's validator
            raise self._unexpected(tool, command.call_id or "", raised) from None
        if context.user_id is not None:
            caller = Caller(caller.tenant, caller.subject, context.user_id)
        if plan.has_requirements:
            self._check_requirements(tool, command, caller, base_url)
        run = Run(
            tool, command.call_id or self._new_id(), caller, input, channel,
            command.trace_id, context.user_info, context.secrets, context.tokens, self.resources.get(tool.host),
        )  # fmt: skip
        return arguments, run

    async def replay(self, command: CallTool, caller: Caller) -> Outcome | None:
        """What is known of a call whose tool is not there any more."""
        return await self._keyed.replay(command, caller) if command.call_id is not None else None

    def work(
        self, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str] = str
    ) -> Work:
        """What to record of a keyed call, and how to run it then. Raises what is wrong with it."""
        plan = self._plans[tool]
        arguments, run = self._checked(plan, tool, command, caller, channel, base_url)
        new = new_call(command, run)
        if tool.on_lost == "rerun" and (command.context.secrets or command.context.tokens):
            new.sealed = self._seal(_encode(command.context), run.call_id.encode())
        return Work(new, lambda: self._execute(plan, arguments, run), plan.slots)

    async def _execute(self, plan: Plan, arguments: dict[str, Any], run: Run) -> Outcome:
        """A tool that never waits is done after its first step, and then needs no timer."""
        monotonic, hooks = self._monotonic, run.tool.host.around
        started = monotonic()
        error: ToolError
        try:
            attempt = _within(hooks, plan, arguments, run) if hooks else plan.run(arguments, run)
            try:
                waiting_for = attempt.send(None)
            except StopIteration as done:
                value = done.value
            else:
                value = await _bounded(plan.timeout, attempt, waiting_for, run)
            if not plan.returns(value):
                raise BrokenResult(f"it breaks the output schema at {first_difference(plan.output_check, value)}")
            return Outcome(run.call_id, (monotonic() - started) * 1e6 // 1 / 1e3, to_json(value))
        except ToolError as failed:
            error = failed
        except asyncio.CancelledError as cancelled:
            run.channel.cancelled = True
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            error = self._unexpected(run.tool, run.call_id, cancelled)  # the tool cancelled itself
        except BrokenResult as broken:
            _log.error("%s (call %s) gave a result that cannot be used: %s", run.tool.reference, run.call_id, broken)
            error = self._hidden(run.tool, f"the result cannot be used: {broken}")
        except BaseException as raised:  # a tool that says sys.exit() has failed like any other
            error = self._unexpected(run.tool, run.call_id, raised)
        return Outcome(run.call_id, (monotonic() - started) * 1e6 // 1 / 1e3, error=error)

    def _unexpected(self, tool: Tool, call_id: str, raised: BaseException) -> ToolError:
        _log.error("%s (call %s) raised", tool.reference, call_id, exc_info=raised)
        return self._hidden(tool, _text_of(raised))

    def _hidden(self, tool: Tool, reason: str) -> ToolError:
        """An unexpected failure: its text is for the log, not for the model."""
        return ToolError(
            f"{tool.id} failed unexpectedly",
            developer_message=reason if self._limits.show_exceptions else None,
            can_retry=False,
        )

    def _plan(self, tool: Tool) -> Plan:
        input_check = compile_schema(tool.input_schema, tool)
        output_check = compile_schema({"type": "null"} if tool.output_schema is None else tool.output_schema, tool)
        return Plan(
            bind=tool.code.bind,
            input_check=input_check,
            accepts=input_check.is_valid,
            output_check=output_check,
            returns=_AT_A_GLANCE.get(str(tool.output_schema), output_check.is_valid),
            run=self._runners[tool.runs].run,
            timeout=tool.timeout or self._limits.run_s,
            slots=Slots(tool.id, tool.concurrency, self._limits.queue_s) if tool.concurrency else None,
            has_requirements=bool(tool.requirements),
        )


_AT_A_GLANCE: dict[str, Callable[[Any], bool]] = {
    "{'type': 'number'}": lambda value: type(value) is int or (type(value) is float and isfinite(value)),
    "{'type': 'string'}": lambda value: type(value) is str,
    "{'type': 'boolean'}": lambda value: type(value) is bool,
}
"""The output schemas of most tools, for which the validator is more than is needed."""


def _text_of(raised: BaseException) -> str:
    """Even of an exception that cannot say what it is."""
    try:
        text = str(raised)
    except Exception:  # an author's code
        text = "it cannot be shown"
    return text if isinstance(raised, ChildFailed) else f"{type(raised).__name__}: {text}"


async def _bounded(timeout: float, attempt: Coroutine[Any, Any, Any], waiting_for: Any, run: Run) -> Any:
    """Goes on with an attempt until it is done or `timeout`. (`wait_for` would make a task, and cost as much as the
    call.)"""
    task = asyncio.current_task()
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()  # type: ignore[union-attr]

    timer = asyncio.get_running_loop().call_later(timeout, expire)
    try:
        return await _resumed(attempt, waiting_for)
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


@types.coroutine
def _resumed(attempt: Coroutine[Any, Any, Any], waiting_for: Any) -> Generator[Any, Any, Any]:
    """Awaits a coroutine whose first step is done: hands on what it waits for, and gives it what comes back."""
    try:
        while True:
            try:
                sent = yield waiting_for
            except BaseException as thrown:  # cancelled: the coroutine must know
                waiting_for = attempt.throw(thrown)
            else:
                waiting_for = attempt.send(sent)
    except StopIteration as done:
        return done.value


async def _within(hooks: list[Hook], plan: Plan, arguments: dict[str, Any], run: Run, index: int = 0) -> Any:
    """The tool inside its app's hooks, the first hook outermost."""
    if index == len(hooks):
        return await plan.run(arguments, run)
    return await hooks[index](run, lambda: _within(hooks, plan, arguments, run, index + 1))
