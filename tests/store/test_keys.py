"""API keys are kept by their digests, each name by one key that lives, and none is ever removed."""

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from toolyard.model.api_key import ApiKey
from toolyard.store.contract import Store
from toolyard.store.hints import Topic

from .ledgers import TIMING, ManualClock, Opening
from .test_hints import Heard

KEYS = (Topic.KEYS, "")


def key(name: str = "agent", secret: str = "one", **more: Any) -> ApiKey:
    return ApiKey(name, sha256(secret.encode()).digest(), "default", name, **more)


async def states(store: Store, clock: ManualClock) -> list[tuple[str, str]]:
    return [(each.name, each.state(clock())) for each in await store.keys()]


async def test_a_key_is_there_with_all_that_was_said_of_it(store: Store, clock: ManualClock) -> None:
    assert await store.keys() == []
    made = ApiKey("ci", b"\x00digest\xff", "acme", "robot", ("Kit.*", "Other.Tool"), ("a:b", "c"), expires=2e6)
    assert await store.put_key(made)
    await clock.advance(5)
    assert await store.put_key(key())
    first, second = await store.keys()
    assert first == ApiKey(
        "ci", b"\x00digest\xff", "acme", "robot", ("Kit.*", "Other.Tool"), ("a:b", "c"), clock() - 5, 2e6, None, None
    )
    assert (second.allow, second.scopes, second.created, second.expires) == ((), (), clock(), None)


async def test_a_key_that_is_put_twice_is_there_once(store: Store, clock: ManualClock) -> None:
    assert await store.put_key(key())
    await clock.advance(5)
    assert await store.put_key(key())
    (there,) = await store.keys()
    assert there.created == clock() - 5


async def test_a_name_is_taken_by_a_key_that_lives(store: Store, clock: ManualClock) -> None:
    assert await store.put_key(key())
    assert not await store.put_key(key(secret="two"))
    assert [each.digest for each in await store.keys()] == [key().digest]
    assert await store.put_key(key("Agent", "three")), "it is another name"
    await clock.advance(1)
    assert await store.revoke_key("agent")
    assert await store.put_key(key(secret="two"))
    assert await states(store, clock) == [("Agent", "live"), ("agent", "revoked"), ("agent", "live")]


async def test_an_expired_key_leaves_its_name_to_the_next(store: Store, clock: ManualClock) -> None:
    assert await store.put_key(key(expires=clock() + 10))
    await clock.advance(9)
    assert not await store.put_key(key(secret="two"))
    await clock.advance(1)
    assert await store.put_key(key(secret="two"))
    assert await states(store, clock) == [("agent", "expired"), ("agent", "live")]
    assert await store.revoke_key("agent")
    assert await states(store, clock) == [("agent", "expired"), ("agent", "revoked")]


async def test_a_key_is_revoked_once_and_stays(store: Store, clock: ManualClock) -> None:
    await store.put_key(key())
    await store.put_key(key("other", "two"))
    await clock.advance(5)
    assert not await store.revoke_key("nobody")
    assert await store.revoke_key("agent")
    await clock.advance(5)
    assert not await store.revoke_key("agent")
    assert {each.name: each.revoked for each in await store.keys()} == {"agent": clock() - 5, "other": None}
    await clock.advance(TIMING.retention_s * 100)
    await store.sweep(10)
    assert len(await store.keys()) == 2


async def test_the_latest_use_of_a_key_stays(store: Store) -> None:
    one, two, unused = key("a", "1"), key("b", "2"), key("c", "3")
    for each in (one, two, unused):
        await store.put_key(each)
    await store.note_key_use({})
    await store.note_key_use({one.digest: 100.5, two.digest: 200.0, b"nobody's": 1.0})
    await store.note_key_use({one.digest: 90.0, two.digest: 300.0})
    assert {each.name: each.last_used for each in await store.keys()} == {"a": 100.5, "b": 300.0, "c": None}


async def test_keys_outlive_a_start(store: Store, make_store: Opening) -> None:
    await store.put_key(key(allow=("Kit.*",)))
    await store.put_key(key("other", "two"))
    await store.revoke_key("other")
    before = await store.keys()
    assert await (await make_store.instead_of(store, "b")).keys() == before


async def test_who_wants_to_know_of_keys_is_told(store: Store) -> None:
    with Heard(store, KEYS) as heard:
        await store.put_key(key())
    assert heard, "it came"
    with Heard(store, KEYS) as heard:
        await store.note_key_use({key().digest: 1.0})
    assert not heard, "it was used, which changes nothing"
    with Heard(store, KEYS) as heard:
        await store.revoke_key("agent")
    assert heard, "it was revoked"


@pytest.mark.needs_nodes
async def test_of_two_nodes_that_give_one_name_one_has_it(store: Store, make_store: Opening) -> None:
    nodes = [store, await make_store("b"), await make_store("c")]
    for number in range(5):
        made = [key(f"name-{number}", f"{number}-{node.node}") for node in nodes]
        put = await asyncio.gather(*(node.put_key(each) for node, each in zip(nodes, made, strict=True)))
        assert sorted(put) == [False, False, True]
        assert [each.digest for each in await store.keys() if each.name == f"name-{number}"] == [
            made[put.index(True)].digest
        ]


@pytest.mark.needs_nodes
async def test_a_node_that_hears_no_hints_finds_out_by_itself(
    store: Store, make_store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolyard.store.postgres.notifications.Sender.add", lambda *_: None)
    other = await make_store("b")
    await store.put_key(key())
    with other.hints.waiting(Topic.KEYS) as bell:
        assert await bell.wait(5), "what it has not seen counts as changed"
        assert not await bell.wait(1.5)
        await store.revoke_key("agent")
        assert await bell.wait(5)
