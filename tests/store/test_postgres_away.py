"""A PostgreSQL that goes and comes back: one of its own, since others would miss theirs."""

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from tests.postgres import OwnServer
from toolyard.model.clock import SYSTEM_CLOCK
from toolyard.store.contract import Store
from toolyard.store.hints import Topic
from toolyard.store.values import StoreDown
from toolyard.trust.limits.limits import Limiter
from toolyard.trust.limits.usage_sharing import UsageSharing

from .calls import DONE, KEY, call, in_session, request
from .ledgers import Opening
from .test_postgres import SOON_S, insisting

pytestmark = pytest.mark.kind("postgres")


@pytest.fixture
def postgres_server() -> Iterator[OwnServer]:
    if os.environ.get("TOOLYARD_TEST_POSTGRES"):
        pytest.skip("a server that others use is not stopped")
    server = OwnServer()
    server.prepare()
    yield server
    server.close()


async def test_a_server_that_comes_back_is_found_again(
    store: Store, make_store: Opening, postgres_server: OwnServer
) -> None:
    other = await make_store("b")
    begun = await store.begin(call())
    await asyncio.to_thread(postgres_server.stop)
    try:
        for _ in range(20):
            began = time.monotonic()
            with pytest.raises(StoreDown) as down:
                await store.begin(call("while it was away"))
            assert time.monotonic() - began < 2.5, "nobody stands in line for a server that is not there"
            assert down.value.retry_after_ms == 1000
        with pytest.raises(StoreDown):
            await store.check()
        with pytest.raises(StoreDown):
            await store.find(KEY)
    finally:
        await asyncio.to_thread(postgres_server.start)
    async with asyncio.timeout(SOON_S):
        assert await insisting(lambda: store.finish(begun.seq, 1, DONE)) is None
    await store.check()
    with other.hints.waiting(Topic.SESSION, "s") as bell:
        await asyncio.sleep(1.0)
        bell.ring()
        await bell.wait(0)
        await in_session(store, request())
        assert await bell.wait(SOON_S)


async def test_that_limits_are_not_shared_is_said_once_and_that_they_are_again(
    store: Store, postgres_server: OwnServer, caplog: pytest.LogCaptureFixture
) -> None:
    sharing = UsageSharing(Limiter((), time.monotonic), store, SYSTEM_CLOCK)
    await sharing.once()
    for _ in range(2):
        caplog.clear()
        await asyncio.to_thread(postgres_server.stop)
        try:
            for _ in range(5):
                await sharing.attempt()
        finally:
            await asyncio.to_thread(postgres_server.start)
        assert [record.getMessage()[:37] for record in caplog.records if record.name == "toolyard.limits"] == [
            "other nodes' use is not known now: th"
        ]
        caplog.clear()
        async with asyncio.timeout(SOON_S):
            while "toolyard.limits" not in {record.name for record in caplog.records}:
                await sharing.attempt()
                await asyncio.sleep(0.05)
        await sharing.attempt()
        said = [record.getMessage() for record in caplog.records if record.name == "toolyard.limits"]
        assert said == ["other nodes' use is known again"]
