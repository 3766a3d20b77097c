"""Callers take turns at a tool's concurrent runs, and one that fills the line loses its last place to another."""

import asyncio

import pytest

from toolyard.engine.concurrency import Slots
from toolyard.model.caller import Caller
from toolyard.model.errors import Busy

MANY, FEW = Caller("default", "many"), Caller("default", "few")


async def run(slots: Slots, caller: Caller, ended: list[str]) -> None:
    async with slots.turn(caller):
        await asyncio.sleep(0)
        ended.append(caller.subject)


def test_callers_take_turns() -> None:
    async def scenario() -> None:
        slots, ended = Slots("Kit.Tool", 1, 10, 100, None), list[str]()
        await asyncio.gather(*(run(slots, caller, ended) for caller in [MANY] * 6 + [FEW] * 2))
        assert ended == ["many", "many", "few", "many", "few", "many", "many", "many"]

    asyncio.run(scenario())


def test_who_fills_the_line_makes_room_for_another() -> None:
    async def scenario() -> None:
        slots, ended = Slots("Kit.Tool", 1, 10, 4, None), list[str]()
        async with slots.turn(MANY):
            many = [asyncio.create_task(run(slots, MANY, ended)) for _ in range(4)]
            await asyncio.sleep(0)
            few = [asyncio.create_task(run(slots, FEW, ended)) for _ in range(3)]
            await asyncio.sleep(0)
        results = await asyncio.gather(*many, *few, return_exceptions=True)
        refused = [number for number, result in enumerate(results) if isinstance(result, Busy)]
        assert refused == [2, 3, 6], "each has two places in a line of four"
        assert sorted(ended) == ["few"] * 2 + ["many"] * 2

    asyncio.run(scenario())


def test_a_place_that_was_left_is_nobodys() -> None:
    async def scenario() -> None:
        slots, ended = Slots("Kit.Tool", 1, 0.05, 4, None), list[str]()
        async with slots.turn(MANY):
            with pytest.raises(Busy, match="busy"):
                await run(slots, FEW, ended)
            waiting = asyncio.create_task(run(slots, FEW, ended))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await run(slots, FEW, ended)
        assert ended == ["few"]

    asyncio.run(scenario())
