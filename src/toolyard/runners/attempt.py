"""One attempt at a tool, from its arguments to its outcome: inside its app's hooks, within its time, and with a result
that fits what the tool promises.

Whoever runs tools runs them through here: a server's engine, and a worker.
"""

import asyncio
import logging
import time
import types
from collections.abc import Callable, Coroutine, Generator
from math import isfinite
from typing import Any, Protocol, cast

from msgspec import UNSET, Raw, Struct

from ..model.call import Outcome, ResultExtra
from ..model.channel import tellable
from ..model.errors import ToolError, ToolTimedOut
from ..model.raised import is_stopped, log_raised, named, text_of
from ..model.run import Hook, RichResult, Run, Runner
from ..model.tool import Tool
from ..text.log_scrubbing import begin, end
from .processes import ChildFailed
from .result import BrokenResult, from_json, to_json
from .scrub_thread import scrubbed, scrubbed_error
from .validation import compile_schema, first_difference

LARGE_RESULT = 256 * 2**10
"""Bytes. What a result of this size costs is little; sixty of many megabytes at once take seconds of the loop."""
STOP_S = 1.0
"""How long a tool has to stop once its time is over: to close what it has open."""
_log = logging.getLogger("toolyard.engine")
_left: "set[asyncio.Task[None]]" = set()
"""Tools that did not stop, and go on with nobody waiting for them."""


class AttemptBounds(Struct, frozen=True):
    """How long an attempt may say nothing and how long it may take in all, whether callers may read what it raised, and
    how much it may return."""

    silent_s: float = 300.0
    total_s: float = 86400.0
    show_exceptions: bool = False
    result_bytes: int = 32 * 2**20


class ResultTurn(Protocol):
    """The time in which one large result is checked and encoded."""

    def end(self, size: int) -> None:
        """The result is there, with so many bytes; 0 where there is none after all."""
        ...


class ResultTurns(Protocol):
    """Lets large results be worked on one after the other, so that the loop serves others in between."""

    def may_be_large(self, tool: Tool, value: Any) -> bool:
        """Whether a value has to wait for its turn before anybody looks through it. Asked of every result, so it takes
        no time."""
        ...

    async def turn(self, run: Run) -> ResultTurn:
        """Waits for the turn of a run's result, and for its `place`."""
        ...


class Recipe(Struct, frozen=True):
    """How a tool is run, and how its result is checked. Worked out once for each tool."""

    run: Callable[[dict[str, Any], Run], Coroutine[Any, Any, Any]]
    output_check: Any
    returns: Callable[[Any], bool]
    timeout: float
    bounds: AttemptBounds
    turns: ResultTurns | None = None
    """None where nobody else is to be served beside it."""


def recipe_of(tool: Tool, runner: Runner, bounds: AttemptBounds, turns: ResultTurns | None = None) -> Recipe:
    """Raises DefinitionError for an output schema that cannot be checked."""
    output_check = compile_schema({"type": "null"} if tool.output_schema is None else tool.output_schema, tool)
    returns = _AT_A_GLANCE.get(str(tool.output_schema), output_check.is_valid)
    return Recipe(runner.run, output_check, returns, tool.timeout or bounds.silent_s, bounds, turns)


async def attempt(recipe: Recipe, arguments: dict[str, Any], run: Run, monotonic: Callable[[], float]) -> Outcome:
    """How it ended. A tool that never waits is done after its first step, and then needs no timer."""
    hooks, turns = run.tool.host.around, recipe.turns
    started = monotonic()
    error: ToolError
    turn, size = None, 0
    beside, beside_error, extra = None, None, None  # of a result that has more than a value
    if run.scrubber is not None:
        begin(run.scrubber)
    try:
        steps = _within(hooks, recipe, arguments, run) if hooks else recipe.run(arguments, run)
        try:
            waiting_for = steps.send(None)
        except StopIteration as done:
            value = done.value
        else:
            value = await _bounded(recipe, steps, waiting_for, run)
        if type(value) is RichResult:
            value, beside = value.value, value.extra
            is_large = beside.size + (len(value) if type(value) is Raw else 0) > LARGE_RESULT
            if turns is not None and (is_large or turns.may_be_large(run.tool, beside)):
                turn = await turns.turn(run)
            value = from_json(value) if type(value) is Raw else value
        if turn is None and turns is not None and turns.may_be_large(run.tool, value):
            turn = await turns.turn(run)
        if not recipe.returns(value):
            raise BrokenResult(f"it breaks the output schema at {first_difference(recipe.output_check, value)}")
        if run.scrubber is not None:
            value = await scrubbed(run.scrubber.value, value)
        result = to_json(value)
        size = len(result)
        if beside is not None:
            extra = await _beside_value(beside, value, result, run)
            size += len(extra or b"")
        del value
        if size > recipe.bounds.result_bytes:
            raise too_large(run.tool.id, size, recipe.bounds.result_bytes)
        if size > LARGE_RESULT and turn is None and turns is not None:
            turn = await turns.turn(run)
        return Outcome(run.call_id, (monotonic() - started) * 1e6 // 1 / 1e3, result, None, extra)
    except ToolError as failed:
        error = settled(failed, recipe.bounds, run)
        beside_error = failed.extra if type(failed.extra) is ResultExtra else None
    except asyncio.CancelledError as cancelled:
        run.channel.cancelled = True
        if is_stopped(cancelled):
            raise
        error = unexpected(recipe.bounds, run.tool, run.call_id, cancelled)  # the tool cancelled itself
    except BrokenResult as broken:
        _log.error("%s (call %s) gave a result that cannot be used: %s", run.tool.reference, run.call_id, broken)
        error = hidden(recipe.bounds, run.tool, f"the result cannot be used: {broken}")
    except BaseException as raised:  # a tool that says sys.exit() has failed like any other
        error = unexpected(recipe.bounds, run.tool, run.call_id, raised)
    finally:
        if run.scrubber is not None:
            end(run.scrubber)
        if turn is not None:
            turn.end(size)
    if run.scrubber is not None:
        error = await scrubbed_error(run.scrubber, error)
    extra = None if beside_error is None else await _beside_error(beside_error, error, recipe, run)
    return Outcome(run.call_id, (monotonic() - started) * 1e6 // 1 / 1e3, error=error, extra=extra)


class _BesideResult:
    """What a result has beside its value, or a failure beside its message, on its way to the outcome: it is scrubbed as
    the value is, and becomes one JSON text."""

    def __init__(self, extra: ResultExtra) -> None:
        self._is_content = extra.is_content
        self._content = None if extra.content is UNSET else from_json(extra.content)
        self._meta = None if extra.meta is UNSET else from_json(extra.meta)
        if not isinstance(self._content, list | None) or not isinstance(self._meta, dict | None):
            raise BrokenResult("its content is not a list of blocks, or its _meta is not an object")

    async def scrub(self, run: Run) -> None:
        if run.scrubber is not None:
            self._content, self._meta = await scrubbed(run.scrubber.value, [self._content, self._meta])

    def leave_out(self, text: str) -> None:
        """Content that is this text and nothing else: whoever shows the result makes that of it anyway."""
        if self._content == [{"type": "text", "text": text}]:
            self._content = None

    def json(self) -> Raw | None:
        """None where there is nothing."""
        members = {"content": self._content, "is_content": self._is_content or None, "meta": self._meta or None}
        said = {name: value for name, value in members.items() if value is not None}
        return to_json(said) if said else None


async def _beside_value(extra: ResultExtra, value: Any, result: Raw, run: Run) -> Raw | None:
    """What a result has beside its value, as it is told and recorded."""
    beside, tool = _BesideResult(extra), run.tool
    await beside.scrub(run)
    if tool.output_schema is not None and not tool.returns_content:  # then the value's text is beside the value
        beside.leave_out(value if type(value) is str else bytes(result).decode())
    return beside.json()


async def _beside_error(extra: ResultExtra, error: ToolError, recipe: Recipe, run: Run) -> Raw | None:
    """What a failure has beside its message. Where that cannot be used, or is more than a result may be, it is left
    out, and the failure is told all the same."""
    turns, turn, size = recipe.turns, None, extra.size
    try:
        if turns is not None and (size > LARGE_RESULT or turns.may_be_large(run.tool, extra)):
            turn = await turns.turn(run)
        if size > recipe.bounds.result_bytes:
            raise BrokenResult(f"it has {size} bytes, and at most {recipe.bounds.result_bytes} can be returned")
        beside = _BesideResult(extra)
        await beside.scrub(run)
        if error.additional_prompt_content is None:
            beside.leave_out(error.message)
        return beside.json()
    except (BrokenResult, RecursionError) as broken:
        _log.error("%s (call %s) failed with content that is left out: %s", run.tool.reference, run.call_id, broken)
        return None
    finally:
        if turn is not None:
            turn.end(size)


def too_large(name: str, size: int, most: int) -> ToolError:
    """What is said of a result that is larger than any may be."""
    return ToolError(
        f"{name} returned {size} bytes, and at most {most} can be returned; ask for less of it",
        developer_message="max_result_bytes is the limit",
        can_retry=False,
    )


def settled(failed: ToolError, bounds: AttemptBounds, run: Run) -> ToolError:
    """What a tool raised, as it is told and recorded: a copy, which the tool cannot change afterwards. What it says may
    come from anywhere: characters that cannot be sent are replaced, and what is no number is left out. It is no longer
    than a result may be."""
    try:
        texts = (failed.message, failed.developer_message, failed.additional_prompt_content)
        size = sum(len(text) for text in texts if isinstance(text, str))
        if size > bounds.result_bytes:
            return too_large(run.tool.id, size, bounds.result_bytes)
        said = ToolError(
            tellable(failed.message),
            developer_message=_text_or_none(failed.developer_message),
            can_retry=None if failed.can_retry is None else bool(failed.can_retry),
            retry_after_ms=_whole_or_none(failed.retry_after_ms),
            additional_prompt_content=_text_or_none(failed.additional_prompt_content),
        )
        said.code, said.effects = str(failed.code), _text_or_none(failed.effects)
    except BaseException as raised:  # an author's own kind of error
        return unexpected(bounds, run.tool, run.call_id, raised)
    return said


def _text_or_none(said: Any) -> str | None:
    return None if said is None else tellable(said)


def _whole_or_none(number: Any) -> int | None:
    return int(number) if isinstance(number, int | float) and isfinite(number) else None


def unexpected(bounds: AttemptBounds, tool: Tool, call_id: str, raised: BaseException) -> ToolError:
    """What callers are told of an exception that nobody meant them to see."""
    log_raised(_log, raised, "%s (call %s) raised", tool.reference, call_id)
    return hidden(bounds, tool, text_of(raised) if isinstance(raised, ChildFailed) else named(raised))


def hidden(bounds: AttemptBounds, tool: Tool, reason: str) -> ToolError:
    """An unexpected failure: its text is for the log, not for the model."""
    return ToolError(
        f"{tool.id} failed unexpectedly",
        developer_message=reason if bounds.show_exceptions else None,
        can_retry=False,
    )


_AT_A_GLANCE: dict[str, Callable[[Any], bool]] = {
    "{'type': 'number'}": lambda value: type(value) is int or (type(value) is float and isfinite(value)),
    "{'type': 'string'}": lambda value: type(value) is str,
    "{'type': 'boolean'}": lambda value: type(value) is bool,
}
"""The output schemas of most tools, for which the validator is more than is needed."""


async def _bounded(recipe: Recipe, steps: Coroutine[Any, Any, Any], waiting_for: Any, run: Run) -> Any:
    """Goes on with an attempt until it is done, or silent for longer than its timeout, or running for longer than
    anything may. (`wait_for` would make a task, and cost as much as the call.)"""
    timeout, total = recipe.timeout, recipe.bounds.total_s
    task, loop = cast("asyncio.Task[Any]", asyncio.current_task()), asyncio.get_running_loop()
    started, expired = time.monotonic(), False
    accounted = _Accounted(steps, task)
    timer: asyncio.TimerHandle

    def expire() -> None:
        nonlocal expired, timer
        if expired:
            accounted.is_left = True
            task.cancel()
            return
        now = time.monotonic()
        last_sign_of_life = now if run.open_questions else run.last_sign_of_life
        left = min(last_sign_of_life + timeout - now, started + total - now)
        if left > 0:
            timer = loop.call_later(left, expire)
            return
        expired = True
        timer = loop.call_later(STOP_S, expire)
        task.cancel()

    timer = loop.call_later(min(timeout, total), expire)
    try:
        return await resumed(accounted, waiting_for)
    except asyncio.CancelledError as cancelled:
        if not expired:
            raise
        run.channel.cancelled = True
        task.uncancel()
        if accounted.is_left:
            task.uncancel()
            _leave(steps, cancelled, run)
        limit = "said nothing for" if run.last_progress else "took longer than"
        raise ToolTimedOut(f"{run.tool.id} {limit} {timeout:g} seconds and was stopped", can_retry=False) from None
    finally:
        timer.cancel()


class Steps(Protocol):
    """What drives a coroutine one step further."""

    def send(self, value: Any, /) -> Any: ...

    def throw(self, thrown: BaseException, /) -> Any: ...


class _Accounted:
    """The steps of a tool that may cancel the task it runs in. Whoever else cancels that does so between two steps: so
    what is asked for within one is the tool's own, and is taken back when the tool has ended. A task that runs a tool
    was not cancelled before the tool's first step."""

    def __init__(self, steps: Coroutine[Any, Any, Any], task: "asyncio.Task[Any]") -> None:
        self._steps, self._task, self._own = steps, task, task.cancelling()
        self.is_left = False
        """Whether nobody waits for it any more: it does not stop when it is cancelled."""

    def send(self, value: Any) -> Any:
        return self._counted(self._steps.send, value)

    def throw(self, thrown: BaseException) -> Any:
        if self.is_left:
            raise thrown
        return self._counted(self._steps.throw, thrown)

    def _counted(self, step: Callable[[Any], Any], given: Any) -> Any:
        before = self._task.cancelling()
        try:
            waiting_for = step(given)
        except BaseException:
            for _ in range(self._own_after(before)):
                self._task.uncancel()
            raise
        self._own = self._own_after(before)
        return waiting_for

    def _own_after(self, before: int) -> int:
        return max(0, self._own + self._task.cancelling() - before)


@types.coroutine
def resumed(steps: Steps, waiting_for: Any) -> Generator[Any, Any, Any]:
    """Awaits a coroutine whose first step is done: hands on what it waits for, and gives it what comes back."""
    try:
        while True:
            try:
                sent = yield waiting_for
            except BaseException as thrown:  # cancelled: the coroutine must know
                waiting_for = steps.throw(thrown)
            else:
                waiting_for = steps.send(sent)
    except StopIteration as done:
        return done.value


def _leave(steps: Coroutine[Any, Any, Any], cancelled: BaseException, run: Run) -> None:
    """Lets a tool that does not stop go on in a task of its own. Its call has ended: no coroutine can be made to stop,
    as no thread can, and neither its callers nor its next call wait for that."""
    _log.warning("%s (call %s) did not stop when it was told to, and goes on", run.tool.reference, run.call_id)
    task = asyncio.get_running_loop().create_task(_to_its_end(steps, cancelled, run))
    _left.add(task)
    task.add_done_callback(_left.discard)


async def _to_its_end(steps: Coroutine[Any, Any, Any], thrown: BaseException, run: Run) -> None:
    try:
        await resumed(steps, steps.throw(thrown))
    except StopIteration:
        pass  # it has ended with this step
    except asyncio.CancelledError as cancelled:
        if is_stopped(cancelled):  # once more, as the server stops
            raise
    except BaseException as raised:
        log_raised(_log, raised, "%s (call %s) raised after its time", run.tool.reference, run.call_id)


async def _within(hooks: list[Hook], recipe: Recipe, arguments: dict[str, Any], run: Run) -> Any:
    """The tool inside its app's hooks, the first hook outermost. Hooks are given values alone: what else a result has
    stays with it unless a hook returns something else."""
    rich: RichResult | None = None

    async def inside(index: int) -> Any:
        nonlocal rich
        if index < len(hooks):
            return await hooks[index](run, lambda: inside(index + 1))
        value = await recipe.run(arguments, run)
        if type(value) is not RichResult:
            return value
        rich = RichResult(from_json(value.value) if isinstance(value.value, Raw) else value.value, value.extra)
        return rich.value

    value = await inside(0)
    return rich if rich is not None and value is rich.value else value
