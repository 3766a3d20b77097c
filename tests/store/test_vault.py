"""Sealed things are kept as they were given, and of two changes to one version only one is made."""

import asyncio
from typing import Any

from msgspec.structs import replace

from toolyard.model.sealed import Sealed
from toolyard.store.contract import Store

from .calls import there
from .ledgers import ManualClock, Opening


def thing(name: str = "google", data: bytes = b"\x00sealed\xff", **more: Any) -> Sealed:
    return Sealed("connection", "default", "ada", name, data, b'{"scopes":["a"]}', **more)


WHICH = ("connection", "default", "ada", "google")


async def test_what_was_put_is_there_with_its_version(store: Store, clock: ManualClock) -> None:
    assert await store.sealed.get(*WHICH) is None
    assert await store.sealed.put(thing())
    assert await store.sealed.get(*WHICH) == thing(version=1, changed=clock())
    await clock.advance(5)
    assert await store.sealed.put(thing(data=b"two"))
    assert await store.sealed.get(*WHICH) == thing(data=b"two", version=2, changed=clock())


async def test_a_change_of_another_version_is_not_made(store: Store) -> None:
    assert not await store.sealed.put(thing(), instead_of=1)
    assert await store.sealed.put(thing(), instead_of=0)
    assert not await store.sealed.put(thing(data=b"two"), instead_of=0)
    assert await store.sealed.put(thing(data=b"two"), instead_of=1)
    assert not await store.sealed.put(thing(data=b"three"), instead_of=1)
    assert there(await store.sealed.get(*WHICH)).data == b"two"


async def test_of_many_changes_at_once_one_is_made(store: Store) -> None:
    await store.sealed.put(thing())
    news = [thing(data=b"%d" % number) for number in range(8)]
    made = await asyncio.gather(*(store.sealed.put(each, instead_of=1) for each in news))
    assert made.count(True) == 1
    assert there(await store.sealed.get(*WHICH)).data == news[made.index(True)].data


async def test_things_are_listed_by_whose_they_are(store: Store) -> None:
    for each in (thing("b"), thing("a"), replace(thing("c"), owner="bob"), replace(thing("d"), tenant="other")):
        await store.sealed.put(each)
    await store.sealed.put(replace(thing("e"), kind="secret", owner=""))
    assert [each.name for each in await store.sealed.listed("connection")] == ["a", "b", "c", "d"]
    assert [each.name for each in await store.sealed.listed("connection", "default")] == ["a", "b", "c"]
    assert [each.name for each in await store.sealed.listed("connection", "default", "ada")] == ["a", "b"]
    assert [each.name for each in await store.sealed.listed("secret")] == ["e"]
    assert sorted(each.name for each in await store.sealed.listed()) == ["a", "b", "c", "d", "e"]


async def test_what_is_dropped_is_gone(store: Store, make_store: Opening) -> None:
    await store.sealed.put(thing())
    assert await store.sealed.drop(*WHICH)
    assert not await store.sealed.drop(*WHICH)
    later = await make_store.instead_of(store, "b")
    assert await later.sealed.get(*WHICH) is None
