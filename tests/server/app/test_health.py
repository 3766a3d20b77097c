"""`/health` says whether calls can be recorded, and not whether they can be read: on a full disk and under a lock too,
and soon."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from toolyard import Toolkit
from toolyard.client.protocols import WIRES
from toolyard.engine import upkeep
from toolyard.model.call import CallTool
from toolyard.model.errors import ToolyardError
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.store.sqlite import store as sqlite
from toolyard.store.values import Filter
from toolyard.testing import InProcessTransport
from toolyard.wires.contract import Request

kit = Toolkit("Kit", version="1.0.0")
WELL, WITHOUT = (200, "ok"), (503, "without its ledger")


@kit.tool
async def echo(text: str) -> str:
    """Says it again."""
    return text


class Served:
    def __init__(self, yard: Yard) -> None:
        self.yard, self._direct = yard, InProcessTransport(yard)

    async def call(self, call_id: str, text: str = "x") -> Any:
        wire = WIRES["oxp"]
        reply = await self._direct.send(wire.encode_request(CallTool("Kit.Echo", {"text": text}, call_id)))
        return bytes(wire.decode_outcome(reply).value or b"")

    async def health(self) -> tuple[int, str]:
        reply = await self._direct.send(Request("GET", "/health", {}))
        return reply.status, msgspec.json.decode(reply.body)["status"]

    async def until(self, wanted: tuple[int, str]) -> None:
        while await self.health() != wanted:
            await asyncio.sleep(0.01)

    async def looks(self, count: int) -> None:
        """So many looks at the ledger's health, and reads between them."""
        store, seen, all_seen = self.yard.store, 0, asyncio.Event()
        check = store.check

        async def counted() -> None:
            nonlocal seen
            seen += 1
            if seen > count:
                all_seen.set()
            await check()

        store.check = counted  # type: ignore[method-assign]
        while not all_seen.is_set():
            await store.listed(Filter(None))
            await store.row(1)
            await asyncio.sleep(0.01)
        del store.check


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.02)
    monkeypatch.setattr(upkeep, "CHECK_S", 0.5)


def play(store: str, scene: Callable[[Served], Awaitable[None]]) -> None:
    async def live() -> None:
        async with asyncio.timeout(40), serving(store) as served:
            await scene(served)

    asyncio.run(live())


@asynccontextmanager
async def serving(store: str) -> AsyncIterator[Served]:
    yard = Yard([kit], exactly(store=store, secret_key="7" * 64, audit="off"))
    async with yard.lifetime():
        served = Served(yard)
        await served.until(WELL)
        yield served


async def grow(served: Served, most_pages: int) -> None:
    store: Any = served.yard.store
    await store._writer._writer.submit(
        lambda cursor: cursor.execute(f"PRAGMA max_page_count = {most_pages:d}").fetchall()
    )


async def stuff(served: Served) -> None:
    """Fills the ledger to its last page; the store does not know."""
    store: Any = served.yard.store
    await grow(served, 1)  # no more than there are
    taken = "INSERT INTO blobs (data) VALUES (zeroblob(4000))"
    with suppress(apsw.FullError):
        while True:
            await store._writer._writer.submit(lambda cursor: cursor.execute(taken))


def test_a_ledger_that_is_full_is_seen_and_reads_do_not_hide_it(tmp_path: Path) -> None:
    async def scene(served: Served) -> None:
        await served.call("first")
        await stuff(served)
        with pytest.raises(ToolyardError):
            await served.call("large", "x" * 50_000)
        await served.until(WITHOUT)
        await served.looks(5)
        assert await served.health() == WITHOUT
        await grow(served, 1_000_000)
        await served.until(WELL)
        assert await served.call("after") == b'"x"'

    play(f"sqlite:{tmp_path}/ledger.db", scene)


def test_a_ledger_that_is_full_is_seen_though_nobody_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "TRY_EVERY_S", 0.0)

    async def scene(served: Served) -> None:
        await stuff(served)
        await served.until(WITHOUT)
        await grow(served, 1_000_000)
        await served.until(WELL)

    play(f"sqlite:{tmp_path}/ledger.db", scene)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real one, of a few megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_a_real_disk_that_is_full_is_seen(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "TRY_EVERY_S", 0.0)

    async def scene(served: Served) -> None:
        await served.call("first")
        ballast = small_disk / "ballast"
        fill(ballast)
        await served.until(WITHOUT)
        await served.looks(5)
        assert await served.health() == WITHOUT
        ballast.unlink()
        await served.until(WELL)
        assert await served.call("after") == b'"x"'

    play(f"sqlite:{small_disk}/ledger.db", scene)


def test_a_ledger_that_another_process_has_locked_is_seen(tmp_path: Path) -> None:
    async def scene(served: Served) -> None:
        other = apsw.Connection(str(tmp_path / "ledger.db"))
        other.execute("BEGIN IMMEDIATE")
        await served.until(WITHOUT)
        other.execute("ROLLBACK")
        other.close()
        await served.until(WELL)
        assert await served.call("after") == b'"x"'

    play(f"sqlite:{tmp_path}/ledger.db", scene)


@pytest.mark.parametrize("table", ["calls", "keys"])
def test_a_table_that_is_locked_is_seen(postgres_url: str, table: str) -> None:
    async def scene(served: Served) -> None:
        import asyncpg

        other = await asyncpg.connect(postgres_url)
        async with other.transaction():
            await other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            await served.until(WITHOUT)
        await other.close()
        await served.until(WELL)
        assert await served.call("after") == b'"x"'

    play(postgres_url, scene)


def test_a_write_that_failed_is_made_up_for_by_one_that_is_made(postgres_url: str) -> None:
    async def scene(served: Served) -> None:
        store: Any = served.yard.store
        store._link.has_failed = True
        while store._link.has_failed:
            await asyncio.sleep(0.01)
        assert await served.health() == WELL

    play(postgres_url, scene)
