"""Blocks of the audit log are added at the end of a chain, dropped at its front, and never changed."""

import pytest

from toolyard.model.audit import AuditBlock, Chain, Mark
from toolyard.store.contract import Store

from .ledgers import Opening


def block(number: int, chain: str = "main", mac: bytes | None = None, last_at: float | None = None) -> AuditBlock:
    ends = float(number * 10) if last_at is None else last_at
    return AuditBlock(chain, number, 2, ends - 5.25, ends, mac or b"mac-%d" % number, b'{"at":1}\n{"at":"\xc3\xa9"}')


def mark(of: AuditBlock, seal: bytes = b"seal") -> Mark:
    return Mark(of.chain, of.number, of.mac, of.number * 2, of.last_at, seal)


async def added(store: Store, *numbers: int, chain: str = "main") -> list[AuditBlock]:
    made = [block(number, chain) for number in numbers]
    for each in made:
        assert await store.audit.add(each, mark(each))
    return made


async def test_a_log_without_chains_is_empty(store: Store) -> None:
    assert await store.audit.chains() == []
    assert await store.audit.chain("main") == Chain("main")
    assert await store.audit.blocks("main", 0, 10) == []


async def test_blocks_are_read_as_they_were_added_and_the_head_is_the_last(store: Store) -> None:
    made = await added(store, 1, 2, 3)
    assert await store.audit.blocks("main", 0, 10) == made
    assert await store.audit.blocks("main", 1, 1) == made[1:2]
    assert await store.audit.blocks("main", 3, 10) == []
    assert await store.audit.chain("main") == Chain("main", mark(made[2]))
    assert await store.audit.chains() == [Chain("main", mark(made[2]))]


async def test_a_block_that_is_added_twice_is_there_once(store: Store) -> None:
    (made,) = await added(store, 1)
    assert await store.audit.add(made, mark(made))
    assert await store.audit.blocks("main", 0, 10) == [made]


async def test_a_block_added_again_late_does_not_move_the_head_back(store: Store) -> None:
    first, second = await added(store, 1, 2)
    assert await store.audit.add(first, mark(first))
    assert (await store.audit.chain("main")).head == mark(second)


async def test_another_block_of_the_same_number_changes_nothing(store: Store) -> None:
    (made,) = await added(store, 1)
    other = block(1, mac=b"other")
    assert not await store.audit.add(other, mark(other))
    assert await store.audit.blocks("main", 0, 10) == [made]
    assert (await store.audit.chain("main")).head == mark(made)


async def test_chains_are_apart_and_listed_by_name(store: Store) -> None:
    theirs = await added(store, 1, 2, chain="b")
    ours = await added(store, 1, chain="a")
    assert await store.audit.blocks("a", 0, 10) == ours
    assert await store.audit.blocks("b", 0, 10) == theirs
    assert [chain.name for chain in await store.audit.chains()] == ["a", "b"]


async def test_blocks_are_found_by_when_they_end(store: Store) -> None:
    made = await added(store, 1, 2, 3, 4)
    await added(store, 1, chain="other")
    assert await store.audit.blocks("main", 0, 10, since=20.0) == made[1:]
    assert await store.audit.blocks("main", 0, 10, since=20.5) == made[2:]
    assert await store.audit.blocks("main", 3, 10, since=20.5) == made[3:]
    assert await store.audit.blocks("main", 0, 10, since=41.0) == []


async def test_blocks_that_end_at_the_same_time_are_all_found(store: Store) -> None:
    made = [block(number, last_at=50.0) for number in (1, 2, 3)]
    for each in made:
        assert await store.audit.add(each, mark(each))
    assert await store.audit.blocks("main", 0, 10, since=50.0) == made


async def test_what_is_dropped_leaves_an_anchor(store: Store) -> None:
    made = await added(store, 1, 2, 3)
    others = await added(store, 1, 2, chain="other")
    assert await store.audit.drop(mark(made[1], b"anchor")) == 2
    assert await store.audit.blocks("main", 0, 10) == made[2:]
    assert await store.audit.blocks("other", 0, 10) == others
    assert await store.audit.chain("main") == Chain("main", mark(made[2]), mark(made[1], b"anchor"))


async def test_dropping_again_or_less_far_changes_nothing(store: Store) -> None:
    made = await added(store, 1, 2, 3)
    assert await store.audit.drop(mark(made[1], b"anchor")) == 2
    assert await store.audit.drop(mark(made[0], b"earlier")) == 0
    assert await store.audit.drop(mark(made[1], b"again")) == 0
    assert (await store.audit.chain("main")).anchor == mark(made[1], b"anchor")
    assert await store.audit.blocks("main", 0, 10) == made[2:]


async def test_a_chain_of_which_everything_was_dropped_is_still_known(store: Store) -> None:
    made = await added(store, 1, 2)
    assert await store.audit.drop(mark(made[1], b"anchor")) == 2
    assert await store.audit.chains() == [Chain("main", mark(made[1]), mark(made[1], b"anchor"))]


async def test_the_log_outlives_a_start(store: Store, make_store: Opening) -> None:
    made = await added(store, 1, 2)
    later = await make_store.instead_of(store, "b")
    assert await later.audit.blocks("main", 0, 10) == made
    assert (await later.audit.chain("main")).head == mark(made[1])


@pytest.mark.needs_nodes
async def test_nodes_see_each_others_chains(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    made = await added(other, 1, chain="b")
    assert await store.audit.blocks("b", 0, 10) == made
    assert await store.audit.drop(mark(made[0])) == 1
    assert await other.audit.blocks("b", 0, 10) == []
