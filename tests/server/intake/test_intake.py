"""Calls of every wire pass one gate: a server that takes none refuses each of them, and whatever becomes of one is
counted and written down in the same way."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard.engine.engine import Engine
from toolyard.server.app.compose import Yard
from toolyard.trust.audit.log import Audit

from ..scene import Answer, Scene, kit, settings

Way = Callable[[Scene], Awaitable[Answer]]


def run(scene: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def play() -> None:
        async with Scene(Yard([kit], settings(**{"audit": "strict"} | more))) as made:
            await scene(made)

    asyncio.run(play())


async def oxp(made: Scene) -> Answer:
    return await made.send("owner", "POST", "/tools/call", {"tool_id": "Safe.Keep", "input": {"text": "x"}})


async def mcp(made: Scene) -> Answer:
    return await made.newer("owner", "tools/call", {"name": "Safe_Keep", "arguments": {"text": "x"}}, "Safe_Keep")


async def session(made: Scene, *names: str) -> Answer:
    brought = [{"name": "Mine", "description": "Is the client's.", "input_schema": {"type": "object"}}]
    opened = (await made.send("owner", "POST", "/v1/sessions", {"tools": brought})).json["sessionId"]
    uses = [
        {"type": "tool_use", "id": f"t-{number}", "name": name, "input": {"text": "x"}}
        for number, name in enumerate(names or ("Safe_Keep",))
    ]
    return await made.send("owner", "POST", f"/v1/sessions/{opened}/messages", {"role": "assistant", "content": uses})


WAYS: dict[str, Way] = {"oxp": oxp, "mcp": mcp, "session": session}


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_leaves_takes_no_call_whichever_way_it_comes(way: str) -> None:
    async def scene(made: Scene) -> None:
        made.yard.readiness.drain()
        assert (await made.send("owner", "GET", "/ready")).status == 503
        assert "The server is not ready" not in (await WAYS[way](made)).body.decode(), "it was only to be sent no more"
        made.yard.readiness.refuse_calls()
        answer = await WAYS[way](made)
        assert "The server is not ready" in answer.body.decode(), answer.body
        made.yard.readiness.take_calls()
        assert "The server is not ready" not in (await WAYS[way](made)).body.decode()

    run(scene)


@pytest.mark.parametrize("way", ["oxp", "mcp"])
def test_a_call_that_meets_a_defect_is_counted_and_written_down(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def scene(made: Scene) -> None:
        monkeypatch.setattr(Engine, "call", broken)
        assert (await WAYS[way](made)).status == 500
        blocks = await made.yard.store.audit.blocks("main", 0, 100)
        entries = [json.loads(line) for block in blocks for line in block.entries.splitlines()]
        assert [(each["kind"], each["code"]) for each in entries if "wire" in each] == [("call", "ZeroDivisionError")]
        assert (way, "Safe.Keep", "ZeroDivisionError") in made.yard.metrics.calls
        assert made.yard.metrics.running == 0

    run(scene)


def test_tool_uses_of_a_session_are_counted_and_only_tools_of_the_server_by_name() -> None:
    async def scene(made: Scene) -> None:
        assert (await session(made, "Safe_Keep", "Mine", "Nobodys")).status == 200
        counted = sorted(made.yard.metrics.calls)
        assert [tool for _, tool, _ in counted] == ["", "", "Safe.Keep"]
        assert {outcome for _, tool, outcome in counted if not tool} == {"accepted", "rejected"}

    run(scene)


def test_no_call_is_given_to_a_worker_that_a_strict_log_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(made: Scene) -> None:
        await session(made, "Mine")
        with monkeypatch.context() as full:
            full.setattr(Audit, "has_room", False)
            refused = await made.send("owner", "POST", "/v1/tools/claim", {"limit": 1})
            assert "audit log" in refused.body.decode(), refused.body
        claimed = await made.send("owner", "POST", "/v1/tools/claim", {"limit": 1})
        assert len(claimed.json["claims"]) == 1

    run(scene)
