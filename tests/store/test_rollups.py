"""What was called, by the minute: each node says its own totals, as often as it likes, and they are read as one."""

from tests.store.ledgers import ManualClock, Opening
from toolyard.store.contract import Store
from toolyard.store.values import ROLLUPS_KEPT_S, Rollup


def rollup(minute: int = 100, calls: int = 1, buckets: tuple[int, ...] = (1, 0, 0), **changes: str) -> Rollup:
    given = {"wire": "oxp", "tool": "Kit.Tool", "code": "success"} | changes
    return Rollup(minute, given["wire"], given["tool"], given["code"], calls, calls / 2, buckets)


async def test_a_minute_is_said_again_and_counts_once(store: Store) -> None:
    await store.put_rollups([rollup(calls=1), rollup(code="tool_failed")])
    await store.put_rollups([rollup(calls=5, buckets=(3, 2, 0))])
    await store.put_rollups([])
    assert await store.rollups(100, 101) == [
        rollup(calls=5, buckets=(3, 2)), rollup(code="tool_failed", buckets=(1,))
    ]  # fmt: skip
    assert await store.rollups(0, 100) == await store.rollups(101, 200) == []


async def test_nodes_are_added_up_also_one_after_the_other(store: Store, make_store: Opening) -> None:
    await store.put_rollups([rollup(calls=2, buckets=(2,))])
    second = await make_store.instead_of(store, "b")
    await second.put_rollups([rollup(calls=3, buckets=(0, 0, 3)), rollup(101)])
    assert await second.rollups(0, 1000) == [rollup(calls=5, buckets=(2, 0, 3)), rollup(101, buckets=(1,))]


async def test_they_go_when_they_are_very_old(store: Store, clock: ManualClock) -> None:
    minute = int(clock.now // 60)
    await store.put_rollups([rollup(minute)])
    await clock.advance(ROLLUPS_KEPT_S - 60)
    await store.sweep(100)
    assert len(await store.rollups(0, 2**40)) == 1
    await clock.advance(180)
    await store.sweep(100)
    assert await store.rollups(0, 2**40) == []
