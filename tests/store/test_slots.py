"""A tool runs so many times at once, and not more."""

import asyncio

from toolyard.store.contract import Store

from .ledgers import Opening


async def test_there_are_so_many_slots(store: Store) -> None:
    assert [await store.take_slot("Kit.Tool", 2) for _ in range(3)] == [True, True, False]
    await store.give_slot("Kit.Tool")
    assert [await store.take_slot("Kit.Tool", 2) for _ in range(2)] == [True, False]


async def test_each_tool_has_its_own(store: Store) -> None:
    assert await store.take_slot("Kit.Tool", 1)
    assert await store.take_slot("Kit.Other", 1)
    assert not await store.take_slot("Kit.Tool", 1)


async def test_of_many_at_the_same_instant_so_many_get_one(store: Store) -> None:
    taken = await asyncio.gather(*(store.take_slot("Kit.Tool", 5) for _ in range(20)))
    assert sum(taken) == 5


async def test_slots_are_free_again_when_their_node_is_gone(store: Store, make_store: Opening) -> None:
    assert await store.take_slot("Kit.Tool", 1)
    later = await make_store.instead_of(store, "b")
    assert await later.take_slot("Kit.Tool", 1)
