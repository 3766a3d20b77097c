"""Workers are there while they are heard of."""

import pytest

from toolyard.model.worker import WorkerRecord
from toolyard.store.contract import Store

from .ledgers import TERMS, ManualClock, Opening

LEASE_S = TERMS.lease_s


def worker(name: str = "w", tenant: str = "default", subject: str = "robot", tools: bytes = b"[]") -> WorkerRecord:
    return WorkerRecord(tenant, subject, name, tools)


async def names(store: Store) -> list[str]:
    return [each.name for each in await store.workers()]


async def test_a_worker_is_there_with_its_tools(store: Store) -> None:
    await store.put_worker(worker(tools=b'[{"id":"Kit.Tool"}]'))
    (there,) = await store.workers()
    assert (there.tenant, there.subject, there.name, there.tools) == (
        "default", "robot", "w", b'[{"id":"Kit.Tool"}]',
    )  # fmt: skip
    assert there.revision > 0


async def test_a_worker_lives_for_a_lease_and_a_heartbeat_gives_it_another(store: Store, clock: ManualClock) -> None:
    await store.put_worker(worker())
    await clock.advance(LEASE_S - 1)
    assert await store.beat_worker("default", "robot", "w")
    await clock.advance(LEASE_S - 1)
    assert await names(store) == ["w"]
    await clock.advance(1)
    assert await names(store) == []
    assert not await store.beat_worker("default", "robot", "w"), "it has to register again"
    await store.put_worker(worker())
    assert await names(store) == ["w"]


async def test_registering_again_is_a_heartbeat_too(store: Store, clock: ManualClock) -> None:
    await store.put_worker(worker())
    await clock.advance(LEASE_S - 1)
    await store.put_worker(worker())
    await clock.advance(LEASE_S - 1)
    assert await names(store) == ["w"]


async def test_its_revision_is_raised_by_other_tools_and_by_nothing_else(store: Store) -> None:
    revisions = []
    for tools in (b"[1]", b"[1]", b"[2]", b"[2]", b"[1]"):
        await store.put_worker(worker(tools=tools))
        await store.beat_worker("default", "robot", "w")
        ((there),) = await store.workers()
        assert there.tools == tools
        revisions.append(there.revision)
    first = revisions[0]
    assert revisions == [first, first, first + 1, first + 1, first + 2]


async def test_a_worker_that_goes_is_gone(store: Store) -> None:
    await store.put_worker(worker())
    assert await store.drop_worker("default", "robot", "w")
    assert await store.workers() == []
    assert not await store.drop_worker("default", "robot", "w")
    assert not await store.beat_worker("default", "robot", "w")


@pytest.mark.parametrize("whose", [("other", "robot", "w"), ("default", "other", "w"), ("default", "robot", "other")])
async def test_a_worker_is_its_owners(store: Store, whose: tuple[str, str, str]) -> None:
    await store.put_worker(worker())
    assert not await store.beat_worker(*whose)
    assert not await store.drop_worker(*whose)
    await store.put_worker(WorkerRecord(*whose, tools=b"[2]"))
    assert len(await store.workers()) == 2
    assert await store.drop_worker(*whose)
    (left,) = await store.workers()
    assert (left.name, left.tools) == ("w", b"[]")


async def test_workers_come_in_a_stable_order(store: Store) -> None:
    made = [("b", "x", "w1"), ("a", "y", "w2"), ("a", "x", "w3"), ("a", "x", "w1")]
    for tenant, subject, name in made:
        await store.put_worker(worker(name, tenant, subject))
    first = await store.workers()
    for tenant, subject, name in made:
        await store.beat_worker(tenant, subject, name)
        assert await store.workers() == first
    assert sorted((each.tenant, each.subject, each.name) for each in first) == sorted(made)


async def test_workers_are_there_after_a_restart(store: Store, make_store: Opening) -> None:
    await store.put_worker(worker())
    later = await make_store.instead_of(store, "b")
    assert await names(later) == ["w"]
