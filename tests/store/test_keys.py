"""API keys are kept by their digests, each name by one key that lives, and none is ever removed."""

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from toolyard.model.api_key import ApiKey
from toolyard.store.contract import Store
from toolyard.store.hints import Topic

from .ledgers import RETENTION, ManualClock, Opening
from .test_hints import Heard

KEYS = (Topic.KEYS, "")


def key(name: str = "agent", secret: str = "one", **more: Any) -> ApiKey:
    return ApiKey(name, sha256(secret.encode()).digest(), "default", name, **more)


async def states(store: Store, clock: ManualClock) -> list[tuple[str, str]]:
    return [(each.name, each.state(clock())) for each in await store.api_keys.listed()]


async def test_a_key_is_there_with_all_that_was_said_of_it(store: Store, clock: ManualClock) -> None:
    assert await store.api_keys.listed() == []
    made = ApiKey("ci", b"\x00digest\xff", "acme", "robot", ("Kit.*", "Other.Tool"), ("a:b", "c"), expires=2e6)
    assert await store.api_keys.put(made)
    await clock.advance(5)
    assert await store.api_keys.put(key())
    first, second = await store.api_keys.listed()
    assert first == ApiKey(
        "ci", b"\x00digest\xff", "acme", "robot", ("Kit.*", "Other.Tool"), ("a:b", "c"), clock() - 5, 2e6, None, None
    )
    assert (second.allow, second.scopes, second.created, second.expires) == ((), (), clock(), None)


async def test_a_key_that_is_put_twice_is_there_once(store: Store, clock: ManualClock) -> None:
    assert await store.api_keys.put(key())
    await clock.advance(5)
    assert await store.api_keys.put(key())
    (there,) = await store.api_keys.listed()
    assert there.created == clock() - 5


async def test_a_name_is_taken_by_a_key_that_lives(store: Store, clock: ManualClock) -> None:
    assert await store.api_keys.put(key())
    assert not await store.api_keys.put(key(secret="two"))
    assert [each.digest for each in await store.api_keys.listed()] == [key().digest]
    assert await store.api_keys.put(key("Agent", "three")), "it is another name"
    await clock.advance(1)
    assert await store.api_keys.revoke("agent")
    assert await store.api_keys.put(key(secret="two"))
    assert await states(store, clock) == [("Agent", "live"), ("agent", "revoked"), ("agent", "live")]


async def test_an_expired_key_leaves_its_name_to_the_next(store: Store, clock: ManualClock) -> None:
    assert await store.api_keys.put(key(expires=clock() + 10))
    await clock.advance(9)
    assert not await store.api_keys.put(key(secret="two"))
    await clock.advance(1)
    assert await store.api_keys.put(key(secret="two"))
    assert await states(store, clock) == [("agent", "expired"), ("agent", "live")]
    assert await store.api_keys.revoke("agent")
    assert await states(store, clock) == [("agent", "expired"), ("agent", "revoked")]


async def test_a_key_is_revoked_once_and_stays(store: Store, clock: ManualClock) -> None:
    await store.api_keys.put(key())
    await store.api_keys.put(key("other", "two"))
    await clock.advance(5)
    assert not await store.api_keys.revoke("nobody")
    assert await store.api_keys.revoke("agent")
    await clock.advance(5)
    assert not await store.api_keys.revoke("agent")
    assert {each.name: each.revoked for each in await store.api_keys.listed()} == {"agent": clock() - 5, "other": None}
    await clock.advance(RETENTION.calls_s * 100)
    await store.sweep(10)
    assert len(await store.api_keys.listed()) == 2


async def test_the_latest_use_of_a_key_stays(store: Store) -> None:
    one, two, unused = key("a", "1"), key("b", "2"), key("c", "3")
    for each in (one, two, unused):
        await store.api_keys.put(each)
    await store.api_keys.note_use({})
    await store.api_keys.note_use({one.digest: 100.5, two.digest: 200.0, b"nobody's": 1.0})
    await store.api_keys.note_use({one.digest: 90.0, two.digest: 300.0})
    assert {each.name: each.last_used for each in await store.api_keys.listed()} == {"a": 100.5, "b": 300.0, "c": None}


async def test_keys_outlive_a_start(store: Store, make_store: Opening) -> None:
    await store.api_keys.put(key(allow=("Kit.*",)))
    await store.api_keys.put(key("other", "two"))
    await store.api_keys.revoke("other")
    before = await store.api_keys.listed()
    assert await (await make_store.instead_of(store, "b")).api_keys.listed() == before


async def test_who_wants_to_know_of_keys_is_told(store: Store) -> None:
    with Heard(store, KEYS) as heard:
        await store.api_keys.put(key())
    assert heard, "it came"
    with Heard(store, KEYS) as heard:
        await store.api_keys.note_use({key().digest: 1.0})
    assert not heard, "it was used, which changes nothing"
    with Heard(store, KEYS) as heard:
        await store.api_keys.revoke("agent")
    assert heard, "it was revoked"


@pytest.mark.needs_nodes
async def test_of_two_nodes_that_give_one_name_one_has_it(store: Store, make_store: Opening) -> None:
    nodes = [store, await make_store("b"), await make_store("c")]
    for number in range(5):
        made = [key(f"name-{number}", f"{number}-{node.node}") for node in nodes]
        put = await asyncio.gather(*(node.api_keys.put(each) for node, each in zip(nodes, made, strict=True)))
        assert sorted(put) == [False, False, True]
        assert [each.digest for each in await store.api_keys.listed() if each.name == f"name-{number}"] == [
            made[put.index(True)].digest
        ]


@pytest.mark.needs_nodes
async def test_a_node_that_hears_no_hints_finds_out_by_itself(
    store: Store, make_store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolyard.store.postgres.notifications.Sender.add", lambda *_: None)
    other = await make_store("b")
    await store.api_keys.put(key())
    with other.hints.waiting(Topic.KEYS) as bell:
        assert await bell.wait(5), "what it has not seen counts as changed"
        assert not await bell.wait(1.5)
        await store.api_keys.revoke("agent")
        assert await bell.wait(5)
