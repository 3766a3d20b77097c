"""The pipeline: its order, its limits, and what it keeps from the caller."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated, Any, cast

import pytest
from pydantic import AfterValidator

from toolyard import App, Busy, Context, InvalidInput, MissingRequirements, Run, ToolError, Toolkit, secret
from toolyard.runners import attempt
from toolyard.testing import async_client, call, client

kit = Toolkit("Kit", version="1.0.0")


@kit.tool(timeout=0.05)
async def forever() -> None:
    """Never ends by itself."""
    await asyncio.Event().wait()


@kit.tool(timeout=0.05)
async def deaf() -> str:
    """Does not let itself be stopped."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "never mind"
    return "unreachable"


@kit.tool
async def self_cancelled() -> None:
    """Cancels itself."""
    raise asyncio.CancelledError


@kit.tool
async def waits(seconds: float) -> float:
    """Waits a moment."""
    await asyncio.sleep(seconds)
    return seconds


@kit.tool
async def crash() -> None:
    """Raises with a secret in the text."""
    raise RuntimeError("password=hunter2")


@kit.tool
async def broken() -> int:
    """Breaks its own schema."""
    return "seven"  # type: ignore[return-value]


@kit.tool(requires=secret("KEY"))
async def guarded(number: int, ctx: Context) -> int:
    """Needs a secret."""
    return number


@kit.tool
async def curious(ctx: Context) -> str:
    """Asks for a secret that it did not declare."""
    return ctx.secret("KEY")


@kit.tool(runs="inline")
def whole(number: float) -> float:
    """Gives the number back."""
    return number


def test_a_tool_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(ToolError, match="took longer than") as failure:
        call(kit, "Kit.Forever")
    assert failure.value.can_retry is False


def test_a_tool_that_will_not_be_stopped_has_its_say() -> None:
    assert call(kit, "Kit.Deaf") == "never mind"


@pytest.mark.parametrize("call_id", [None, "key"])
def test_a_tool_that_does_not_stop_is_not_waited_for(
    call_id: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by its callers nor by the next call, and what it does with the second cancellation is its own matter."""
    monkeypatch.setattr(attempt, "STOP_S", 0.01)
    own, go, said = Toolkit("Own"), threading.Event(), list[str]()

    @own.tool(timeout=0.05, concurrency=1)
    async def stay(text: str) -> str:
        """Goes on until it may end."""
        while not go.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                said.append(text)
        said.append("ended")
        return text

    with client(own, queue_wait_s=5) as yard:
        for text in ("first", "second"):
            with pytest.raises(ToolError, match=r"Own\.Stay took longer than 0\.05 seconds") as failure:
                yard.call("Own.Stay", {"text": text}, call_id=call_id and text)
            assert failure.value.can_retry is False
        assert "did not stop when it was told to, and goes on" in caplog.text
        go.set()
        wait_until(lambda: said.count("ended") == 2)
    assert (said.count("first"), said.count("second")) == (2, 2)


def test_what_a_tool_that_did_not_stop_raises_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempt, "STOP_S", 0.01)
    own, go = Toolkit("Own"), threading.Event()

    @own.tool(timeout=0.05)
    async def stay() -> None:
        """Goes on until it may fail."""
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)
        raise RuntimeError("too late")

    with client(own) as yard:
        with pytest.raises(ToolError, match="took longer than"):
            yard.call("Own.Stay")
        go.set()
        wait_until(lambda: "raised after its time" in caplog.text)


def wait_until(is_so: Callable[[], bool]) -> None:
    """The tool runs on another thread's loop."""
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_tool_that_cancels_itself_has_failed() -> None:
    with pytest.raises(ToolError, match="failed unexpectedly"):
        call(kit, "Kit.SelfCancelled")


def test_a_tool_that_waits_gets_there() -> None:
    assert call(kit, "Kit.Waits", {"seconds": 0.001}) == 0.001


def test_an_exceptions_text_goes_to_the_log_and_not_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    with client(kit) as yard, pytest.raises(ToolError) as failure:
        yard.call("Kit.Crash")
    assert "hunter2" not in f"{failure.value} {failure.value.developer_message}"
    assert "hunter2" in caplog.text


def test_show_exceptions_shows_them_to_developers_alone() -> None:
    with client(kit, show_exceptions=True) as yard, pytest.raises(ToolError) as failure:
        yard.call("Kit.Crash")
    assert failure.value.message == "Kit.Crash failed unexpectedly"
    assert failure.value.developer_message == "RuntimeError: password=hunter2"


def test_a_result_that_breaks_its_schema_is_a_failure_logged_with_the_path(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(ToolError, match="failed unexpectedly"):
        call(kit, "Kit.Broken")
    assert "the result: Must be a whole number" in caplog.text


def test_input_is_checked_before_requirements() -> None:
    with pytest.raises(InvalidInput):
        call(kit, "Kit.Guarded", {"number": "seven"})
    with pytest.raises(MissingRequirements):
        call(kit, "Kit.Guarded", {"number": 7})
    assert call(kit, "Kit.Guarded", {"number": 7}, secrets={"KEY": "k"}) == 7


def test_a_tool_sees_only_the_secrets_it_declares() -> None:
    with pytest.raises(ToolError, match="failed unexpectedly"):
        call(kit, "Kit.Curious", secrets={"KEY": "k"})


@pytest.mark.parametrize("number", [15.0, -0.5, 0.0, 1e300, 2.0**60])
def test_a_number_comes_back_as_it_is(number: float) -> None:
    assert call(kit, "Kit.Whole", {"number": number}) == number


def test_only_so_many_of_a_tool_run_at_once() -> None:
    limited = Toolkit("Limited")
    running: list[int] = []
    most: list[int] = []

    @limited.tool(concurrency=2)
    async def work() -> None:
        """Counts how many of it run."""
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.001)
        running.pop()

    async def ten() -> None:
        async with async_client(limited) as yard:
            await asyncio.gather(*(yard.call("Limited.Work") for _ in range(10)))

    asyncio.run(ten())
    assert max(most) == 2
    assert len(most) == 10


def test_who_waits_too_long_in_line_is_told_to_come_back() -> None:
    limited = Toolkit("Limited")

    @limited.tool(concurrency=1)
    async def hold(until: str) -> str:
        """Holds its place."""
        await asyncio.sleep(0 if until == "now" else 0.2)
        return until

    async def two() -> None:
        async with async_client(limited, queue_wait_s=0.01) as yard:
            holder = asyncio.ensure_future(yard.call("Limited.Hold", {"until": "later"}))
            await asyncio.sleep(0)
            with pytest.raises(Busy) as refusal:
                await yard.call("Limited.Hold", {"until": "now"})
            assert refusal.value.retry_after_ms > 0
            assert await holder == "later"
            assert await yard.call("Limited.Hold", {"until": "now"}) == "now"

    asyncio.run(two())


LEAVING = {kind.__name__: kind for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)}


def leave(kind: str) -> str:
    """An author's validator."""
    raise LEAVING[kind](9)


@pytest.mark.parametrize("call_id", [None, "a-key"])
@pytest.mark.parametrize("kind", LEAVING)
def test_a_validator_that_would_end_the_server_has_failed(kind: str, call_id: str | None) -> None:
    validated = Toolkit("Validated")

    @validated.tool
    async def take(kind: Annotated[str, AfterValidator(leave)]) -> str:
        """Is never given anything."""
        return kind

    with client(validated) as yard, pytest.raises(ToolError, match=r"Validated\.Take failed unexpectedly"):
        yard.call("Validated.Take", {"kind": kind}, call_id=call_id)


@pytest.mark.parametrize("call_id", [None, "a-key"])
@pytest.mark.parametrize("waits_first", [False, True])
def test_a_tool_that_cancels_its_own_task_has_failed(waits_first: bool, call_id: str | None) -> None:
    own = Toolkit("Own")

    @own.tool
    async def stop(waits_first: bool) -> None:
        """Stops itself."""
        if waits_first:
            await asyncio.sleep(0)
        cast("asyncio.Task[None]", asyncio.current_task()).cancel()
        await asyncio.sleep(0)

    @own.tool
    async def there() -> str:
        """Is there."""
        await asyncio.sleep(0)
        return "there"

    with client(own) as yard:
        with pytest.raises(ToolError, match=r"Own\.Stop failed unexpectedly"):
            yard.call("Own.Stop", {"waits_first": waits_first}, call_id=call_id)
        assert yard.call("Own.There") == "there"


def test_a_tool_with_hooks_is_bounded_too() -> None:
    app = App(kit)

    @app.around
    async def pass_on(run: Run, proceed: Any) -> Any:
        return await proceed()

    with pytest.raises(ToolError, match="took longer than"):
        call(app, "Kit.Forever")


def test_resources_live_as_long_as_the_server() -> None:
    life: list[str] = []
    shared = Toolkit("Shared")

    @shared.tool
    async def use(ctx: Context) -> str:
        """Uses what the app made."""
        life.append("used")
        return str(ctx.resources)

    async def lifespan() -> AsyncIterator[str]:
        life.append("made")
        yield "a pool"
        life.append("closed")

    with client(App(shared, lifespan=lifespan)) as yard:
        assert yard.call("Shared.Use") == yard.call("Shared.Use") == "a pool"
    assert life == ["made", "used", "used", "closed"]
