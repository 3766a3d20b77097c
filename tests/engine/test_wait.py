"""How long somebody waits for something that the ledger will say."""

import asyncio
from collections.abc import Callable

import pytest

from tests.engine.room import Room, until, value_of
from tests.store.calls import DONE, call
from toolyard import Toolkit
from toolyard.engine import wait
from toolyard.engine.wait import Wait, holding, looked_for, outcome_from_ledger, until_ended
from toolyard.model.errors import KeyConflict
from toolyard.model.lifecycle import State
from toolyard.store.hints import Topic
from toolyard.store.values import StoreDown

kit = Toolkit("Kit")
TOPICS = [(Topic.KEPT, "here"), (Topic.DECIDED, 7)]


async def test_a_wait_is_over_when_its_time_is_up_or_nobody_waits() -> None:
    gone: list[Callable[[], None]] = []
    assert Wait(0.0).is_over
    assert not Wait(None).is_over
    waits = Wait(1000.0, gone.append)
    assert not waits.is_over
    gone[0]()
    assert waits.is_over
    assert await waits.bell.wait(1000.0), "who waits hears of it"


@pytest.mark.parametrize("topic", TOPICS)
async def test_who_is_held_looks_again_at_each_hint_of_each_topic(topic: tuple[Topic, str | int]) -> None:
    async with Room(kit) as room:
        looks: list[bool] = []

        async def came() -> bool:
            looks.append(True)
            return len(looks) == 3

        held = asyncio.create_task(holding(room.store, TOPICS, Wait(None), came))
        for number in (1, 2):
            await until(lambda number=number: len(looks) == number)  # type: ignore[misc]
            await asyncio.sleep(0)
            room.store.hints.tell(*topic)
        assert await held
        assert room.store.hints.watched(topic[0]) == [], "nobody watches any more"


async def test_what_came_before_anybody_waited_is_seen() -> None:
    async with Room(kit) as room:

        async def came() -> bool:
            return True

        assert await holding(room.store, TOPICS, Wait(0.0), came)


async def never() -> bool:
    return False


async def test_who_goes_away_is_held_no_longer() -> None:
    async with Room(kit) as room:
        gone: list[Callable[[], None]] = []
        held = asyncio.create_task(holding(room.store, TOPICS, Wait(None, gone.append), never))
        await until(lambda: bool(room.store.hints.watched(Topic.DECIDED)))
        gone[0]()
        assert not await held


async def test_who_looks_for_something_is_given_what_is_found() -> None:
    async with Room(kit) as room:
        found: list[int] = []

        async def look() -> list[int]:
            return list(found)

        assert await looked_for(room.store, TOPICS, Wait(0.0), look, 1000.0) == []
        looking = asyncio.create_task(looked_for(room.store, TOPICS, Wait(None), look, 1000.0))
        await until(lambda: bool(room.store.hints.watched(Topic.DECIDED)))
        found.append(1)
        room.store.hints.tell(Topic.DECIDED, 7)
        assert await looking == [1]


@pytest.mark.parametrize("stays", [False, True])
async def test_a_server_that_leaves_goes_on_looking_for_who_stays(stays: bool) -> None:
    async with Room(kit) as room:
        room.store.hints.leave()
        looks: list[bool] = []

        async def look() -> bool:
            looks.append(True)
            room.store.hints.tell(Topic.DECIDED, 7)
            return len(looks) == 3

        assert await looked_for(room.store, TOPICS, Wait(None), look, 1000.0, stays=stays) == stays


async def test_a_server_that_leaves_holds_nobody() -> None:
    async with Room(kit) as room:
        held = asyncio.create_task(holding(room.store, TOPICS, Wait(None), never))
        await until(lambda: bool(room.store.hints.watched(Topic.DECIDED)))
        room.store.hints.leave()
        assert not await held


async def test_a_call_is_there_as_soon_as_it_has_ended() -> None:
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        waiting = asyncio.create_task(until_ended(room.store, seq, 1000.0))
        await until(lambda: room.store.hints.watched(Topic.ENDED) == [seq])
        await room.store.finish(seq, 1, DONE)
        row = await waiting
        assert row is not None
        assert row.state is State.COMPLETE


async def test_who_does_not_wait_longer_is_given_the_call_as_it_is() -> None:
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        row = await until_ended(room.store, seq, 0.0)
        assert row is not None
        assert row.state is State.PROCESSING
        assert await until_ended(room.store, seq + 1, 1000.0) is None, "what is not kept has nothing to wait for"


@pytest.mark.parametrize("stays", [False, True])
async def test_a_server_that_leaves_sends_away_who_does_not_stay(stays: bool) -> None:
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        waiting = asyncio.create_task(until_ended(room.store, seq, 1000.0, stays=stays))
        await until(lambda: room.store.hints.watched(Topic.ENDED) == [seq])
        room.store.hints.leave()
        if not stays:
            row = await waiting
            assert row is not None
            assert row.state is State.PROCESSING
            return
        await room.store.check()
        assert not waiting.done()
        await room.store.finish(seq, 1, DONE)
        row = await waiting
        assert row is not None
        assert row.state is State.COMPLETE


async def test_an_outcome_is_waited_for_while_the_ledger_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "TRY_STORE_AGAIN_S", 0.0)
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        await room.store.finish(seq, 1, DONE)
        row, tries = room.store.row, list[int]()

        async def failing(seq: int) -> object:
            tries.append(seq)
            if len(tries) < 3:
                raise StoreDown("The ledger is away", retry_after_ms=1)
            return await row(seq)

        monkeypatch.setattr(room.store, "row", failing)
        assert value_of(await outcome_from_ledger(room.store, seq)) == 15
        assert len(tries) == 3


async def test_an_outcome_that_is_not_kept_is_said_to_be_gone() -> None:
    async with Room(kit) as room:
        with pytest.raises(KeyConflict, match="no longer kept"):
            await outcome_from_ledger(room.store, 7)
