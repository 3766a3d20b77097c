"""How much a worker asks for."""

import asyncio

import pytest

from toolyard import Toolkit
from toolyard.model.tool import Tool
from toolyard.wires.lifecycle.requests import MOST_CLAIMED, MOST_PATTERNS
from toolyard.worker.capacity import POLL_S, SHORT_POLL_S, Capacity


def tools(*limits: int | None) -> tuple[Tool, ...]:
    kit = Toolkit("Kit", version="1.0.0")
    for number, limit in enumerate(limits):

        @kit.tool(name=f"T{number}", concurrency=limit)
        def tool() -> None: ...

    return kit.tools


def test_as_much_as_there_is_room_for() -> None:
    room = Capacity(tools(None, None), 3)
    for left in (3, 2, 1):
        claim = room.claim()
        assert claim is not None
        assert (claim.tools, claim.limit, claim.wait_s) == (("Kit.T0@1.0.0", "Kit.T1@1.0.0"), left, POLL_S)
        room.take("Kit.T0@1.0.0")
    assert room.claim() is None
    room.give_back("Kit.T0@1.0.0")
    claim = room.claim()
    assert claim is not None
    assert claim.limit == 1


def test_no_more_than_a_server_gives_at_once() -> None:
    claim = Capacity(tools(None), 10_000).claim()
    assert claim is not None
    assert claim.limit == MOST_CLAIMED


def test_no_more_of_a_tool_than_may_run_at_once() -> None:
    room = Capacity(tools(2, None), 10)
    claim = room.claim()
    assert claim is not None
    assert claim.limit == 2, "all of them could be of the limited tool"


def test_a_tool_that_is_full_is_not_asked_for_and_not_left_waiting_for_long() -> None:
    room = Capacity(tools(1, None), 10)
    room.take("Kit.T0@1.0.0")
    claim = room.claim()
    assert claim is not None
    assert (claim.tools, claim.limit, claim.wait_s) == (("Kit.T1@1.0.0",), 9, SHORT_POLL_S)


def test_nothing_is_asked_for_when_every_tool_is_full() -> None:
    room = Capacity(tools(1), 10)
    room.take("Kit.T0@1.0.0")
    assert room.claim() is None


def test_what_is_given_back_before_anybody_waits_is_not_missed() -> None:
    async def check() -> None:
        room = Capacity(tools(None), 1)
        room.take("Kit.T0@1.0.0")
        assert room.claim() is None
        room.give_back("Kit.T0@1.0.0")
        await asyncio.wait_for(room.changed(), 30)
        assert room.claim() is not None

    asyncio.run(check())


@pytest.mark.parametrize("count", [MOST_PATTERNS + 1, 3 * MOST_PATTERNS])
def test_more_tools_than_one_claim_may_name_take_turns(count: int) -> None:
    room = Capacity(tools(*[None] * count), 10)
    asked: set[str] = set()
    for _ in range(3):
        claim = room.claim()
        assert claim is not None
        assert len(set(claim.tools)) == MOST_PATTERNS
        assert claim.wait_s == SHORT_POLL_S
        asked |= set(claim.tools)
    assert len(asked) == count
