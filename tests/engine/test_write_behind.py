"""The fast lane's calls: written in batches behind the calls, bounded, and counted where they are lost."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from tests.engine.room import Room, there, until
from tests.store.calls import ran
from toolyard import Toolkit
from toolyard.model.lifecycle import State
from toolyard.model.record import Ran
from toolyard.store import write_behind
from toolyard.store.values import StoreDown

kit = Toolkit("Kit")


def add(room: Room, *call_ids: str) -> list[Ran]:
    rows = [ran(call_id, 1) for call_id in call_ids]
    for row in rows:
        room.behind.add(*row)
    return rows


async def ids(room: Room) -> list[str]:
    return [row.key.call_id for row in await room.rows()]


async def test_calls_wait_until_they_are_flushed() -> None:
    async with Room(kit) as room:
        add(room, "a", "b")
        assert room.behind.is_waiting
        await room.behind.flush()
        assert not room.behind.is_waiting
        await room.behind.flush()
        assert await ids(room) == ["a", "b"], "each is written once"


async def test_whoever_reads_sees_what_waits() -> None:
    async with Room(kit) as room:
        add(room, "a")
        assert await ids(room) == ["a"]
        add(room, "b")
        assert there(await room.store.get("default", "ada", "b")).code == "success"
        add(room, "c")
        assert await room.store.counted(100) == {State.COMPLETE: 3}
        assert not room.behind.is_waiting


async def test_a_large_call_is_a_row_and_others_are_lines() -> None:
    async with Room(kit) as room:
        large = ran("large", 1, {"text": "x" * 5000})
        for call in (ran("small", 1), large):
            room.behind.add(*call)
        assert await ids(room) == ["small", "large"]
        (rows,) = await room.store._writer.write(lambda cursor: cursor.execute("SELECT call_id FROM calls").fetchall())
        assert rows == ("large",)


async def test_a_text_that_is_no_unicode_costs_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with Room(kit) as room:
        broken = ran("broken", 1)
        broken[1].trace_id = "\ud800"
        for call in (ran("a", 1), broken, ran("b", 1)):
            room.behind.add(*call)
        assert await ids(room) == ["a", "b"]
        assert (room.behind.lost, "1 calls are missing in the ledger (1 in all)" in caplog.text) == (1, True)


async def test_what_comes_is_written_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "FLUSH_S", 0.0)
    async with Room(kit) as room:
        running = asyncio.create_task(room.behind.run())
        for call_id in ("a", "b"):
            add(room, call_id)

            async def written(call_id: str = call_id) -> bool:
                return call_id in await ids(room)

            await until(written)
        running.cancel()


async def test_no_more_than_so_many_wait_and_what_is_lost_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "MOST_WAITING", 2)
    async with Room(kit) as room:
        add(room, "a", "b", "c", "d")
        assert room.behind.lost == 2
        await room.behind.flush()
        assert await ids(room) == ["a", "b"]
        add(room, "e")
        await room.behind.flush()
        assert await ids(room) == ["a", "b", "e"]


async def test_no_more_bytes_than_so_many_wait_and_what_is_lost_is_told_once_a_flush(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_behind, "MOST_BYTES_WAITING", 15_000)
    async with Room(kit) as room:
        for number in range(5):
            room.behind.add(*ran(f"large{number}", 1, {"text": "x" * 7000}))
        add(room, "small")
        assert await ids(room) == ["small", "large0", "large1"]
        assert (room.behind.lost, caplog.text.count("are missing in the ledger")) == (3, 1)
        room.behind.add(*ran("larger", 1, {"text": "x" * 70_000}))
        assert (await ids(room))[-1] == "larger", "one alone is always written"


async def test_what_stands_beside_a_value_counts_among_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "MOST_BYTES_WAITING", 15_000)
    monkeypatch.setattr(write_behind, "WRITTEN_AT_ONCE", 10_000)
    calls = [ran(f"large{number}", 1) for number in range(5)]
    for _, _, outcome in calls:
        outcome.extra = Raw(b'{"meta":{"a":"%b"}}' % (b"x" * 7000))
    assert [len(portion) for portion in write_behind.in_portions(calls)] == [1] * 5
    async with Room(kit) as room:
        for call in calls:
            room.behind.add(*call)
        assert await ids(room) == ["large0", "large1"]


def test_large_calls_are_written_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "WRITTEN_AT_ONCE", 10_000)
    sizes = (4000, 4000, 4000, 20_000, 4000, 4000)
    portions = write_behind.in_portions(ran("c", 1, {"text": "x" * size}) for size in sizes)
    assert [len(portion) for portion in portions] == [2, 1, 1, 2]


async def test_a_ledger_that_is_away_costs_rows_and_says_how_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Room(kit) as room:

        async def down(blocks: Any, rows: Any) -> int:
            raise StoreDown("The ledger is away", retry_after_ms=1)

        with monkeypatch.context() as patch:
            patch.setattr(room.behind, "_write", down)
            add(room, "a", "b")
            await room.behind.flush()
        assert room.behind.lost == 2
        assert "2 calls are missing in the ledger (2 in all)" in caplog.text
        add(room, "c")
        await room.behind.flush()
        assert await ids(room) == ["c"]


async def test_who_is_cancelled_while_it_flushes_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Room(kit) as room:
        write, writing, goes_on = room.behind._write, asyncio.Event(), asyncio.Event()

        async def slow(blocks: Any, rows: Any) -> int:
            writing.set()
            await goes_on.wait()
            return await write(blocks, rows)

        monkeypatch.setattr(room.behind, "_write", slow)
        add(room, "a")
        flushing = asyncio.create_task(room.behind.flush())
        await writing.wait()
        flushing.cancel()
        await asyncio.sleep(0)
        assert not flushing.done(), "it ends when the rows are written"
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        assert await ids(room) == ["a"]


async def test_a_result_that_is_to_be_collected_is_written_now() -> None:
    """Also where it was not to be recorded at all."""
    async with Room(kit) as room:
        (command, run, outcome), *_ = add(room, "a")
        assert await room.engine.kept(run.tool, command, run.caller, outcome)
        assert await ids(room) == ["a"]
        assert await room.engine.kept(run.tool, command, run.caller, outcome)
        assert await ids(room) == ["a"], "once"
