"""Polls that ask for the same: they share what one of them has just found out."""

import asyncio

import pytest

from tests.engine.room import Listener, Room, until
from toolyard import Toolkit
from toolyard.model.errors import InvalidInput
from toolyard.model.tool_patterns import MOST_TRIES
from toolyard.model.worker import Claim, ToolDefinition
from toolyard.model.writes import Claimant

kit = Toolkit("Kit")
POLLS = 20


def serving(tools: int) -> Claimant:
    return Claimant("default", "robot", "w", frozenset(f"Far.Tool{number}@1.0.0 x y" for number in range(tools)))


async def noted(claims: object) -> None:
    """Nothing has to be written down here."""


async def test_one_call_wakes_all_who_wait_for_it_and_few_of_them_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Room(kit) as room:
        robot = await room.offer(ToolDefinition("Far.Add", input_schema={"type": "object"}, on_lost="rerun"))
        claim, looks = room.store.claim, list[object]()

        async def counted(wanted: object) -> object:
            looks.append(wanted)
            return await claim(wanted)  # type: ignore[arg-type]

        monkeypatch.setattr(room.store, "claim", counted)
        polls = [
            asyncio.create_task(room.requests.claim(lambda: robot, Claim(wait_s=60), Listener(), noted))
            for _ in range(POLLS)
        ]

        async def has_looked() -> bool:
            return bool(looks)

        await until(has_looked)
        calls = [room.call("Far.Add", {"n": number}, f"k{number}") for number in range(2)]
        waiting = [asyncio.ensure_future(each) for each in calls]

        async def both_are_claimed() -> bool:
            return sum(poll.done() for poll in polls) == 2

        await until(both_are_claimed)
        assert len(looks) < POLLS / 2
        for task in (*polls, *waiting):
            task.cancel()
        await asyncio.gather(*polls, *waiting, return_exceptions=True)


async def test_patterns_that_would_be_tried_too_often_are_refused() -> None:
    async with Room(kit) as room:
        many = tuple(f"*{number}" for number in range(11))
        for who, tools, is_fine in (
            (serving(MOST_TRIES // 11), many, True),
            (serving(500), many, False),
            (serving(500), ("Far.Tool1", "Far.*", "*"), True),
        ):
            asked = room.requests.claim(lambda who=who: who, Claim(tools), Listener(), noted)  # type: ignore[misc]
            if is_fine:
                assert await asked == []
            else:
                with pytest.raises(InvalidInput) as refused:
                    await asked
                assert "have the only * at the end" in refused.value.problems[0].sentence
