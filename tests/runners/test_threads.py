"""Sync tools: off the loop, several at once, given up without being waited for."""

import asyncio
import contextvars
import threading
import time

import pytest

from toolyard import Context, ToolError, Toolkit
from toolyard.testing import async_client, call

kit = Toolkit("Threads")
started, released = threading.Event(), threading.Event()
seen: list[bool] = []
color: contextvars.ContextVar[str] = contextvars.ContextVar("color", default="none")


@kit.tool
def which_thread() -> str:
    """Names the thread it runs in."""
    return threading.current_thread().name


@kit.tool
def meet(count: int) -> int:
    """Ends when `count` of it run at once."""
    barrier.wait(timeout=20)
    return count


@kit.tool(timeout=0.2)
def stubborn(ctx: Context) -> None:
    """Runs until it is released, and then says whether it was told that nobody waits."""
    started.set()
    released.wait(timeout=20)
    seen.append(ctx.cancelled)
    released.clear()


@kit.tool
def leave() -> None:
    """Tries to end the server."""
    raise SystemExit(3)


@kit.tool
def stop_iteration() -> None:
    """Raises what a coroutine cannot raise."""
    raise StopIteration("done")


@kit.tool
def generator_exit() -> None:
    """Raises what would close a coroutine."""
    raise GeneratorExit


@kit.tool
def painted() -> str:
    """Sees the caller's context variables."""
    return color.get()


barrier = threading.Barrier(8)


def test_a_sync_tool_runs_off_the_event_loop() -> None:
    assert call(kit, "Threads.WhichThread").startswith("toolyard-")


def test_blocking_tools_run_at_once() -> None:
    async def together() -> list[int]:
        async with async_client(kit) as yard:
            return list(await asyncio.gather(*(yard.call("Threads.Meet", {"count": 8}) for _ in range(8))))

    assert asyncio.run(together()) == [8] * 8


def test_more_calls_than_threads_all_end() -> None:
    async def many() -> set[str]:
        async with async_client(kit, threads=2) as yard:
            return set(await asyncio.gather(*(yard.call("Threads.WhichThread") for _ in range(200))))

    assert asyncio.run(many()) <= {"toolyard-tool-thread-0", "toolyard-tool-thread-1"}


def test_a_thread_that_runs_too_long_is_given_up_and_told() -> None:
    with pytest.raises(ToolError, match=r"took longer than 0\.2 seconds") as failure:
        call(kit, "Threads.Stubborn")
    assert failure.value.can_retry is False
    released.set()
    deadline = time.monotonic() + 20
    while not seen and time.monotonic() < deadline:
        pass
    assert seen == [True]
    seen.clear()


@pytest.mark.parametrize("tool", ["Threads.Leave", "Threads.StopIteration", "Threads.GeneratorExit"])
def test_whatever_a_tool_raises_the_server_lives(tool: str) -> None:
    async def then_another() -> str:
        async with async_client(kit) as yard:
            with pytest.raises(ToolError, match="failed unexpectedly"):
                await yard.call(tool)
            return str(await yard.call("Threads.WhichThread"))

    assert asyncio.run(then_another()).startswith("toolyard-")


def test_context_variables_reach_the_thread() -> None:
    async def painted_red() -> str:
        async with async_client(kit) as yard:
            color.set("red")
            return str(await yard.call("Threads.Painted"))

    assert asyncio.run(painted_red()) == "red"
