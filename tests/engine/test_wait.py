"""How long somebody waits for something that the ledger will say."""

import asyncio

import pytest

from tests.engine.room import Listener, Room, until, value_of
from tests.store.calls import DONE, call
from toolyard import Toolkit
from toolyard.engine import wait
from toolyard.engine.wait import Wait, holding, outcome_from_ledger, until_ended, until_one_is_done
from toolyard.model.errors import KeyConflict
from toolyard.model.lifecycle import State
from toolyard.store.hints import Topic
from toolyard.store.values import StoreDown

kit = Toolkit("Kit")
TOPICS = [(Topic.KEPT, "here"), (Topic.DECIDED, 7)]


async def test_a_wait_is_over_when_its_time_is_up_or_nobody_waits() -> None:
    client = Listener()
    assert Wait(0.0, client).is_over
    assert not Wait(None, client).is_over
    waits = Wait(1000.0, client)
    assert not waits.is_over
    client.go()
    assert waits.is_over
    assert await waits.bell.wait(1000.0), "who waits hears of it"


@pytest.mark.parametrize("topic", TOPICS)
async def test_who_is_held_looks_again_at_each_hint_of_each_topic(topic: tuple[Topic, str | int]) -> None:
    async with Room(kit) as room:
        looks: list[bool] = []

        async def came() -> bool:
            looks.append(True)
            return len(looks) == 3

        held = asyncio.create_task(holding(room.store, TOPICS, Wait(None, Listener()), came))
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

        assert await holding(room.store, TOPICS, Wait(0.0, Listener()), came)


async def never() -> bool:
    return False


async def test_who_goes_away_is_held_no_longer() -> None:
    async with Room(kit) as room:
        client = Listener()
        held = asyncio.create_task(holding(room.store, TOPICS, Wait(None, client), never))
        await until(lambda: bool(room.store.hints.watched(Topic.DECIDED)))
        client.go()
        assert not await held


async def test_a_server_that_leaves_holds_nobody() -> None:
    async with Room(kit) as room:
        held = asyncio.create_task(holding(room.store, TOPICS, Wait(None, Listener()), never))
        await until(lambda: bool(room.store.hints.watched(Topic.DECIDED)))
        room.store.hints.leave()
        assert not await held


async def test_a_call_is_there_as_soon_as_it_has_ended() -> None:
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        waiting = asyncio.create_task(until_ended(room.store, seq, Wait(1000.0, Listener())))
        await until(lambda: room.store.hints.watched(Topic.ENDED) == [seq])
        await room.store.finish(seq, 1, DONE)
        row = await waiting
        assert row is not None
        assert row.state is State.COMPLETE


async def test_who_does_not_wait_longer_is_given_the_call_as_it_is() -> None:
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        row = await until_ended(room.store, seq, Wait(0.0, Listener()))
        assert row is not None
        assert row.state is State.PROCESSING
        assert await until_ended(room.store, seq + 1, Wait(1000.0, Listener())) is None, (
            "what is not kept has nothing to wait for"
        )


@pytest.mark.parametrize("stays", [False, True])
async def test_a_server_that_leaves_sends_away_who_does_not_stay(stays: bool) -> None:
    async with Room(kit) as room:
        seq = (await room.store.begin(call())).seq
        waiting = asyncio.create_task(until_ended(room.store, seq, Wait(1000.0, Listener(), stays=stays)))
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
        glance, tries = room.store.glance, list[int]()

        async def failing(seq: int) -> object:
            tries.append(seq)
            if len(tries) < 3:
                raise StoreDown("The ledger is away", retry_after_ms=1)
            return await glance(seq)

        monkeypatch.setattr(room.store, "glance", failing)
        assert value_of(await outcome_from_ledger(room.store, seq)) == 15
        assert len(tries) == 3


async def test_an_outcome_that_is_not_kept_is_said_to_be_gone() -> None:
    async with Room(kit) as room:
        with pytest.raises(KeyConflict, match="no longer kept"):
            await outcome_from_ledger(room.store, 7)


async def test_the_first_that_is_done_ends_a_wait_for_several() -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    waits = asyncio.ensure_future(until_one_is_done((first, second)))
    await asyncio.sleep(0)
    second.set_exception(ValueError("for whoever reads it"))
    await waits
    assert not first.done()
    assert second.exception()


async def test_who_waits_for_what_is_done_does_not_wait() -> None:
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    await until_one_is_done((done,))


async def test_a_wait_that_ends_early_leaves_what_was_waited_for_alone() -> None:
    future = asyncio.get_running_loop().create_future()
    await until_one_is_done((future,), 0.0)
    waits = asyncio.ensure_future(until_one_is_done((future,)))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert not future.done()
    future.set_result(None)  # and nobody is woken who has left
    await asyncio.sleep(0)
