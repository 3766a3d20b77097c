"""What upstreams offered when they were last seen outlives the node that saw it, and other nodes hear of it."""

import pytest

from toolyard.store.contract import Store
from toolyard.store.hints import Topic
from toolyard.store.values import UpstreamRecord

from .ledgers import ManualClock, Opening
from .test_hints import Heard

HERE, ELSEWHERE = "digest-of-here", "digest-of-elsewhere"
NEWS = (Topic.UPSTREAMS, "")
LARGE = b"x" * 300_000


async def test_what_was_put_is_there_as_it_was(store: Store, clock: ManualClock) -> None:
    assert await store.upstreams() == []
    assert await store.put_upstream(UpstreamRecord("weather", HERE, LARGE))
    await clock.advance(5)
    await store.put_upstream(UpstreamRecord("mail", ELSEWHERE, b"\x00\xff"))
    assert await store.upstreams() == [
        UpstreamRecord("mail", ELSEWHERE, b"\x00\xff", clock.now),
        UpstreamRecord("weather", HERE, LARGE, clock.now - 5),
    ]


async def test_the_last_one_stays(store: Store, clock: ManualClock) -> None:
    said = [
        (UpstreamRecord("weather", HERE, b"[1]"), True),
        (UpstreamRecord("weather", HERE, b"[1]"), False),
        (UpstreamRecord("weather", HERE, b"[2]"), True),
        (UpstreamRecord("weather", ELSEWHERE, b"[2]"), True),
    ]
    for upstream, is_news in said:
        await clock.advance(1)
        assert await store.put_upstream(upstream) is is_news
        (there,) = await store.upstreams()
        assert (there.address, there.listing, there.seen_at) == (upstream.address, upstream.listing, clock.now)


async def test_one_that_is_dropped_is_gone(store: Store) -> None:
    await store.put_upstream(UpstreamRecord("weather", HERE, b"[]"))
    await store.put_upstream(UpstreamRecord("mail", HERE, b"[]"))
    assert await store.drop_upstream("weather")
    assert not await store.drop_upstream("weather")
    assert [each.name for each in await store.upstreams()] == ["mail"]


async def test_they_are_there_after_a_restart(store: Store, make_store: Opening) -> None:
    await store.put_upstream(UpstreamRecord("weather", HERE, b"[]"))
    later = await make_store.instead_of(store, "b")
    assert [each.name for each in await later.upstreams()] == ["weather"]


async def test_who_wants_to_know_of_upstreams_is_told_of_news_alone(store: Store) -> None:
    with Heard(store, NEWS) as heard:
        await store.put_upstream(UpstreamRecord("weather", HERE, b"[]"))
    assert heard, "it came"
    with Heard(store, NEWS) as heard:
        await store.put_upstream(UpstreamRecord("weather", HERE, b"[]"))
    assert not heard, "it was seen again"
    with Heard(store, NEWS) as heard:
        await store.put_upstream(UpstreamRecord("weather", HERE, b"[1]"))
    assert heard, "it offers something else"
    with Heard(store, NEWS) as heard:
        await store.drop_upstream("weather")
    assert heard, "it was dropped"
    with Heard(store, NEWS) as heard:
        await store.drop_upstream("weather")
    assert not heard


SOON_S = 20.0


@pytest.mark.needs_nodes
@pytest.mark.parametrize("notifies", [True, False])
async def test_other_nodes_hear_of_it(
    store: Store, make_store: Opening, clock: ManualClock, notifies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a notification is lost, and where one was dropped and came back meanwhile."""
    other = await make_store("b")
    with other.hints.waiting(*NEWS) as bell:
        assert await bell.wait(SOON_S), "the first look counts"
        if not notifies:
            monkeypatch.setattr("toolyard.store.postgres.notifications.payloads_of", lambda node, told: iter(()))
        await store.put_upstream(UpstreamRecord("weather", HERE, b"[]"))
        assert await bell.wait(SOON_S)
        assert [each.name for each in await other.upstreams()] == ["weather"]
        await store.put_upstream(UpstreamRecord("weather", ELSEWHERE, b"[]"))
        assert await bell.wait(SOON_S)
        await store.drop_upstream("weather")
        await clock.advance(1)
        await store.put_upstream(UpstreamRecord("weather", HERE, b"[2]"))
        assert await bell.wait(SOON_S)
        await store.drop_upstream("weather")
        assert await bell.wait(SOON_S)
        assert await other.upstreams() == []
