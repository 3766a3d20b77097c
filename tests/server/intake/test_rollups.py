"""The counters of a node, written into the ledger minute by minute."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from toolyard.server.intake.metrics import Metrics
from toolyard.server.intake.rollups import RollupWriter
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import StoreDown


class Minutes:
    """A ledger, counters, and a clock that the test owns."""

    def __init__(self) -> None:
        self.now, self.metrics, self.store = 6000.0, Metrics(), SqliteStore(":memory:", "node")
        self.writer = RollupWriter(self.metrics, self.store, lambda: self.now)

    def call(self, seconds: float = 0.0005, code: str = "success") -> None:
        self.metrics.record("oxp", "Kit.Tool", code, seconds)

    async def written(self) -> list[tuple[int, str, int, tuple[int, ...]]]:
        await self.writer.write()
        return [(each.minute, each.code, each.calls, each.buckets) for each in await self.store.rollups(0, 1000)]


def play(story: Callable[[Minutes], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        made = Minutes()
        await made.store.open()
        await story(made)
        await made.store.close()

    asyncio.run(run())


def test_each_call_is_counted_once_in_its_minute() -> None:
    async def story(minutes: Minutes) -> None:
        assert await minutes.written() == []
        minutes.call()
        assert await minutes.written() == [(100, "success", 1, (1,))]
        minutes.call()
        minutes.call(0.002, "tool_failed")
        assert await minutes.written() == [(100, "success", 2, (2,)), (100, "tool_failed", 1, (0, 1))]
        assert await minutes.written() == [(100, "success", 2, (2,)), (100, "tool_failed", 1, (0, 1))]
        minutes.now += 60
        minutes.call()
        assert (await minutes.written())[2:] == [(101, "success", 1, (1,))]
        minutes.call()
        assert (await minutes.written())[2:] == [(101, "success", 2, (2,))]

    play(story)


def test_what_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(minutes: Minutes) -> None:
        async def down(rollups: object) -> None:
            raise StoreDown("The ledger is away", retry_after_ms=1)

        minutes.call()
        with monkeypatch.context() as patch:
            patch.setattr(minutes.store, "put_rollups", down)
            assert await minutes.written() == []
        minutes.now += 60
        minutes.call()
        assert await minutes.written() == [(101, "success", 2, (2,))]

    play(story)
