"""Where tests keep their calls: one ledger, opened by one node after another or by many at once, on a clock that the
test owns."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from toolyard.model.writes import LeaseTerms
from toolyard.store.contract import Store
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import Retention

RETENTION = Retention(calls_s=100.0, keys_s=1000.0)
TERMS = LeaseTerms(lease_s=30.0, max_attempts=3)


class ManualClock:
    """The store's time. It stands still until the test says otherwise; `followers` are told of every change."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.followers: list[Callable[[float], Awaitable[None]]] = []

    def __call__(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for follow in self.followers:
            await follow(self.now)


class Ledger(Protocol):
    """What is the same for all its nodes. `open` gives a store that is open already."""

    async def open(self, node: str, retention: Retention, terms: LeaseTerms) -> Store: ...


class SqliteLedger:
    """A file: one node at a time."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.path, self._clock = folder / "ledger.db", clock

    async def open(self, node: str, retention: Retention, terms: LeaseTerms) -> Store:
        store = SqliteStore(str(self.path), node, retention, terms, now=self._clock)
        await store.open()
        return store


class Opening:
    """Opens stores on one ledger, and closes what is still open at the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: list[Store] = []

    async def __call__(self, node: str = "a", retention: Retention = RETENTION, terms: LeaseTerms = TERMS) -> Store:
        """One more node."""
        store = await self._ledger.open(node, retention, terms)
        self._open.append(store)
        return store

    async def instead_of(self, store: Store, node: str) -> Store:
        """The next start: that one is gone, and then there is another."""
        await self.close(store)
        return await self(node)

    async def close(self, *stores: Store) -> None:
        for store in stores:
            self._open.remove(store)
            await store.close()

    async def close_all(self) -> None:
        await self.close(*reversed(self._open))
