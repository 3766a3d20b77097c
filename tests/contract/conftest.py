"""Every store, opened on a clock that the test owns. The suite knows none of them by name."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from toolyard.store.contract import Store
from toolyard.store.sqlite import SqliteStore

RETENTION_S, KEY_TTL_S = 100.0, 1000.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


Opened = AbstractAsyncContextManager[Store]
Open = Callable[[str], Opened]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Open:
    """Opens the store as a node of the given name. Opened again, it is the same store."""

    @asynccontextmanager
    async def open_as(node: str) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "ledger.db"), node, retention_s=RETENTION_S, key_ttl_s=KEY_TTL_S, now=clock)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return open_as


Scenario = Callable[[Store], Awaitable[None]]
