"""Whatever runs beside the calls may die: the server says which it was, and serves as before."""

import asyncio
import ctypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolyard import Toolkit, supervision
from toolyard.client.protocols import WIRES
from toolyard.model.call import CallTool
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.store.values import Filter
from toolyard.supervision import Supervised, SupervisedTask
from toolyard.testing import InProcessTransport
from toolyard.wires.contract import Request

kit = Toolkit("Kit", version="1.0.0")
EVERYWHERE = {
    "API keys", "audit log", "audit retention", "awaited accounts", "lag watch", "ledger check", "recorder", "rollups",
    "shared limits", "tool thread 0", "upkeep", "workers' tools",
}  # fmt: skip
OWN = {
    "sqlite": {"ledger writer"},
    "postgres": {
        "node lease", "hints to other nodes", "hints of other nodes", "a look at other nodes' writes",
        "ledger writes: calls that begin", "ledger writes: calls that ran", "ledger writes: calls that end",
        "ledger writes: heartbeats", "ledger writes: heartbeats, 2", "ledger writes: answers",
        "ledger writes: answers, 2", "ledger writes: decisions",
    },
}  # fmt: skip
PROVIDERS = [{"id": "github", "preset": "github", "client_id": "c", "client_secret": "s"}]
ALL = [(store, name) for store, own in OWN.items() for name in sorted(EVERYWHERE | own)]


@kit.tool(runs="thread")
def add(a: int, b: int) -> int:
    """Adds, in a thread."""
    return a + b


class Died(BaseException):
    """What a thread is killed with: nothing that whoever looks after single items would catch."""


class Served:
    def __init__(self, yard: Yard) -> None:
        self.yard, self._direct = yard, InProcessTransport(yard)

    async def call(self, call_id: str | None = None) -> Any:
        wire = WIRES["oxp"]
        reply = await self._direct.send(wire.encode_request(CallTool("Kit.Add", {"a": 1, "b": 2}, call_id)))
        return msgspec.json.decode(wire.decode_outcome(reply).value or b"null")

    async def health(self, path: str = "/health") -> tuple[int, str]:
        reply = await self._direct.send(Request("GET", path, {}))
        return reply.status, msgspec.json.decode(reply.body)["status"]

    async def until(self, is_so: Callable[[tuple[int, str]], bool]) -> None:
        while not is_so(await self.health()):
            await asyncio.sleep(0.01)


@pytest.fixture
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    def play(store: str, scene: Callable[[Served], Awaitable[None]]) -> None:
        url = request.getfixturevalue("postgres_url") if store == "postgres" else f"sqlite:{tmp_path}/ledger.db"
        settings = exactly(
            store=url, secret_key="7" * 64, providers=PROVIDERS, public_url="https://tools.example",
            limits=[{"name": "all", "calls_per_minute": 100_000}], lease_s=1.0,
        )  # fmt: skip

        async def live() -> None:
            yard = Yard([kit], settings)
            async with asyncio.timeout(40), yard.lifetime():
                served = Served(yard)
                assert await served.call() == 3
                await scene(served)

        asyncio.run(live())

    return play


def kill(kept: Supervised) -> None:
    """A task is cancelled by nobody it knows, in a thread something is raised, wherever it is."""
    if isinstance(kept, SupervisedTask):
        kept.task.cancel()
    else:
        assert kept.thread.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(kept.thread.ident), ctypes.py_object(Died))


@pytest.mark.parametrize("store", OWN)
def test_every_task_and_thread_beside_the_calls_is_known(play: Callable[..., None], store: str) -> None:
    async def scene(served: Served) -> None:
        names = [each.name for each in served.yard.supervisor.supervised]
        assert sorted(names) == sorted(EVERYWHERE | OWN[store])
        assert await served.health() == (200, "ok")

    play(store, scene)


@pytest.mark.parametrize(("store", "name"), ALL)
def test_one_that_dies_turns_the_health_and_the_service_returns(
    play: Callable[..., None], store: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "STEADY_S", 3600.0)  # until it was seen

    async def scene(served: Served) -> None:
        (kept,) = [each for each in served.yard.supervisor.supervised if each.name == name]
        kill(kept)
        while not kept.health.deaths:  # a thread that waits for work dies when there is some
            await asyncio.gather(served.call(), served.call("before"), return_exceptions=True)
        assert await served.health() == (503, f"unhealthy: {name}")
        assert await served.health("/ready") == (503, f"unhealthy: {name}")
        monkeypatch.setattr(supervision, "STEADY_S", 0.1)
        await served.until(lambda health: health == (200, "ok"))
        assert await served.call() == 3
        assert await served.call("after") == 3
        assert await served.call("after") == 3
        recorder = served.yard._recorder
        assert recorder is not None
        await recorder.flush()
        found = await served.yard.store.listed(Filter(None, tool="Kit.Add"))
        assert "after" in [each.key.call_id for each in found]
        assert served.yard.audit is not None
        await served.yard.audit.written()

    play(store, scene)


@pytest.mark.parametrize("name", ["ledger writer", "lag watch"])
def test_a_server_ends_though_a_thread_just_died(play: Callable[..., None], name: str) -> None:
    async def scene(served: Served) -> None:
        (kept,) = [each for each in served.yard.supervisor.supervised if each.name == name]
        kill(kept)
        while not kept.health.deaths:
            await asyncio.gather(served.call("before"), return_exceptions=True)

    play("sqlite", scene)
