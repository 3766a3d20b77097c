"""A ledger is opened, held, closed, and opened again."""

import asyncio

from toolyard.store.contract import Store
from toolyard.store.values import Begun, Filter

from .calls import DONE, call, there
from .ledgers import Opening


async def test_a_store_knows_its_nodes_name(store: Store) -> None:
    assert store.node == "a"


async def test_a_store_that_works_says_so(store: Store) -> None:
    await store.check()


async def test_what_is_asked_for_while_it_closes_is_durable_first(store: Store, make_store: Opening) -> None:
    begun = [asyncio.ensure_future(store.begin(call(f"call-{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    later = await make_store.instead_of(store, "b")
    accepted = [each for each in await asyncio.gather(*begun, return_exceptions=True) if isinstance(each, Begun)]
    assert accepted
    for each in accepted:
        assert await later.row(each.seq) is not None


async def test_a_ledger_opened_again_and_again_is_the_same(store: Store, make_store: Opening) -> None:
    for number, node in enumerate("bcd"):
        begun = await store.begin(call(f"call-{number}"))
        await store.finish(begun.seq, 1, DONE)
        store = await make_store.instead_of(store, node)
    assert len(await store.listed(Filter("default"))) == 3
    assert there(await store.get("default", "ada", "call-0")).value == b"15"
