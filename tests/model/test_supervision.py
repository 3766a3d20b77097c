"""What runs beside the calls is kept running: who dies is named, and started again."""

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from toolyard import supervision
from toolyard.supervision import Supervisor


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(supervision, "STEADY_S", 0.05)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.002)


def test_a_task_that_dies_is_named_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        supervisor, starts, may_die = Supervisor(), list[int](), asyncio.Event()

        async def run() -> None:
            starts.append(1)
            await may_die.wait()
            may_die.clear()
            raise ValueError("a defect")

        kept = supervisor.task("the cleaner", run)
        assert supervisor.ailing == []
        may_die.set()
        await until(lambda: supervisor.ailing == ["the cleaner"])
        assert "the cleaner died" in caplog.text
        assert "ValueError: a defect" in caplog.text
        await until(lambda: supervisor.ailing == [] and len(starts) == 2)
        await kept.stop()
        assert supervisor.supervised == []

    asyncio.run(scene())


def test_a_task_that_nobody_may_cancel_is_started_again() -> None:
    async def scene() -> None:
        supervisor, starts = Supervisor(), list[int]()

        async def run() -> None:
            starts.append(1)
            await asyncio.Event().wait()

        kept = supervisor.task("the cleaner", run)
        await until(lambda: len(starts) == 1)
        kept.task.cancel()
        await until(lambda: supervisor.ailing == ["the cleaner"])
        await until(lambda: supervisor.ailing == [])
        assert len(starts) == 2
        await kept.stop()

    asyncio.run(scene())


def test_who_dies_again_and_again_is_started_less_and_less_often_and_stays_ailing() -> None:
    async def scene() -> None:
        supervisor, starts = Supervisor(), list[float]()

        async def run() -> None:
            starts.append(time.monotonic())
            raise ValueError

        kept = supervisor.task("the cleaner", run)
        await until(lambda: len(starts) == 5)
        assert supervisor.ailing == ["the cleaner"]
        pauses = [after - before for before, after in pairwise(starts)]
        assert pauses[-1] >= 4 * 0.01
        await kept.stop()
        before = len(starts)
        await asyncio.sleep(0)
        assert len(starts) == before

    asyncio.run(scene())


def test_a_task_that_is_stopped_while_it_rests_is_not_started_again() -> None:
    async def scene() -> None:
        supervisor, starts = Supervisor(), list[int]()

        async def run() -> None:
            starts.append(1)
            raise ValueError

        kept = supervisor.task("the cleaner", run)
        await until(lambda: supervisor.ailing == ["the cleaner"])
        await kept.stop()
        assert supervisor.supervised == []

    asyncio.run(scene())


@pytest.mark.parametrize("error", [ValueError, SystemExit, MemoryError])
def test_a_thread_that_dies_is_named_and_started_again(error: type[BaseException]) -> None:
    supervisor, starts, may_die, may_end = Supervisor(), list[int](), threading.Event(), threading.Event()

    def run() -> None:
        starts.append(1)
        while not may_end.wait(0.005):
            if may_die.is_set():
                may_die.clear()
                raise error

    async def scene() -> None:
        kept = supervisor.thread("the writer", run)
        may_die.set()
        await until(lambda: supervisor.ailing == ["the writer"])
        await until(lambda: supervisor.ailing == [])
        assert len(starts) == 2
        may_end.set()
        assert await asyncio.to_thread(kept.join, 5.0)
        assert supervisor.supervised == []

    asyncio.run(scene())


def test_who_returns_is_over_and_not_missed() -> None:
    async def scene() -> None:
        supervisor = Supervisor()

        async def run() -> None:
            return

        supervisor.task("once", run)
        supervisor.thread("once", lambda: None)
        await until(lambda: supervisor.supervised == [])
        assert supervisor.ailing == []

    asyncio.run(scene())
