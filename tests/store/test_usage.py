"""What nodes use of what is limited: each hears what the others said last, as long as they live."""

import pytest

from toolyard.store.contract import Store
from toolyard.store.values import Usage

from .ledgers import TERMS, ManualClock, Opening

MINUTE = 1_000_000 // 60


def use(name: str = "some", minute: int = MINUTE, used: int = 1, before: int = 0, running: int = 0) -> Usage:
    return Usage(name.encode(), minute, used, before, running)


async def heard(store: Store, *news: Usage) -> list[Usage]:
    _, uses = await store.share_usage(news)
    return sorted(uses, key=lambda each: (each.name, each.used))


async def test_a_node_is_told_the_time_and_nothing_of_itself(store: Store, clock: ManualClock) -> None:
    assert await store.share_usage([use()]) == (clock(), [])
    await clock.advance(5)
    assert await store.share_usage([]) == (clock(), [])


@pytest.mark.needs_nodes
async def test_each_node_hears_what_all_others_said_last(store: Store, make_store: Opening) -> None:
    b, c = await make_store("b"), await make_store("c")
    await heard(store, use("x", used=1), use("y", used=2, before=7, running=3))
    await heard(store, use("x", used=5))
    assert await heard(b, use("x", used=9)) == [use("x", used=5), use("y", used=2, before=7, running=3)]
    assert await heard(c) == [use("x", used=5), use("x", used=9), use("y", used=2, before=7, running=3)]


@pytest.mark.needs_nodes
async def test_what_a_node_said_is_gone_with_it(store: Store, make_store: Opening, clock: ManualClock) -> None:
    b = await make_store("b")
    await heard(b, use(running=1))
    assert await heard(store) == [use(running=1)]
    await make_store.close(b)
    assert await heard(store) == []


@pytest.mark.needs_nodes
async def test_what_a_dead_node_said_is_gone_with_its_lease(
    store: Store, make_store: Opening, clock: ManualClock
) -> None:
    b = await make_store("b")
    await heard(b, use(running=1))
    await b._lease.stop()  # type: ignore[attr-defined]
    await clock.advance(TERMS.lease_s + 1)
    assert await heard(store) == []


@pytest.mark.needs_nodes
async def test_what_is_old_is_heard_only_while_something_runs(store: Store, make_store: Opening) -> None:
    b = await make_store("b")
    await heard(b, use("idle", MINUTE - 2), use("last", MINUTE - 1), use("busy", MINUTE - 99, running=1))
    assert await heard(store) == [use("busy", MINUTE - 99, running=1), use("last", MINUTE - 1)]


@pytest.mark.needs_nodes
async def test_a_sweep_removes_what_nobody_hears(store: Store, make_store: Opening, clock: ManualClock) -> None:
    b = await make_store("b")
    await heard(b, use("idle", MINUTE - 9), use("busy", MINUTE - 9, running=1), use("new"))
    await store.sweep(10)
    rows = await store._ledger.fetch("SELECT name FROM usage ORDER BY name")  # type: ignore[attr-defined]
    assert [name for (name,) in rows] == [b"busy", b"new"]
