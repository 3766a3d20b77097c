"""Audit logs for tests: a store, a ring, and what is in the log after some entries."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from toolyard.model.audit import AuditBlock, Chain, Mark
from toolyard.model.errors import ToolyardError
from toolyard.store.contract import AuditStore, Store
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import StoreDown
from toolyard.trust.audit.chain import verify
from toolyard.trust.audit.entry import AuditKind, Entry
from toolyard.trust.audit.log import MAIN, Audit, AuditSettings
from toolyard.trust.sealing.ring import KeyRing

T = TypeVar("T")
RING = KeyRing(lambda: b"k" * 32)
STRANGER = KeyRing(lambda: b"s" * 32)


class Log(msgspec.Struct):
    """A chain, whole."""

    chain: Chain
    blocks: list[AuditBlock]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for block in self.blocks for line in block.entries.split(b"\n")]

    def verify(self, known: tuple[Mark, ...] = ()) -> None:
        verify(RING, self.chain, self.blocks, known)


class HasAudit(Protocol):
    """A store, or what stands for one."""

    @property
    def audit(self) -> AuditStore: ...


async def read(store: HasAudit, chain: str = MAIN) -> Log:
    return Log(await store.audit.chain(chain), await store.audit.blocks(chain, 0, 1_000_000))


def in_file(path: Path, work: Callable[[Store], Awaitable[T]]) -> T:
    """Over a ledger that is opened for it."""

    async def run() -> T:
        store = SqliteStore(str(path), "a")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def audit(store: HasAudit, chain: str = MAIN, now: Callable[[], float] = lambda: 100.0, **settings: Any) -> Audit:
    return Audit(store.audit, RING, chain, AuditSettings(**settings), now)


def entry(number: int = 0, **members: Any) -> Entry:
    return Entry(100.0 + number, AuditKind.CALL, tenant="default", subject="ada", call_id=f"call-{number}", **members)


class Flaky:
    """A store that is away when it is told to be, before a write or after it."""

    def __init__(self, store: Store) -> None:
        self._store, self.away, self.forgets = store, False, False
        self.chain, self.chains = store.audit.chain, store.audit.chains
        self.blocks, self.drop = store.audit.blocks, store.audit.drop

    @property
    def audit(self) -> AuditStore:
        return self

    async def add(self, block: AuditBlock, head: Mark) -> bool:
        if self.away:
            raise down()
        done = await self._store.audit.add(block, head)
        if self.forgets:
            self.forgets = False
            raise down()
        return done


def down() -> ToolyardError:
    return StoreDown("The server cannot record calls now", retry_after_ms=1)
