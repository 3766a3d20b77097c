"""One id in two families is two calls: whoever names a call by its id means one of them, and no other is shown,
collected or cancelled in its place."""

import asyncio
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.model.errors import PathNotFound, Refused
from toolyard.model.lifecycle import State
from toolyard.server.admin.calls import CallAdmin
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.wires.admin.calls import WhichCall

from .scene import CAN, META, NEWER, OLDER
from .test_slow_calls import Request

kit = Toolkit("Kit", version="1.0.0")
may_end = asyncio.Event()


@kit.tool
async def slow(text: str) -> str:
    """Ends when it is told to."""
    await may_end.wait()
    return text


@kit.tool(task="optional")
async def echo(text: str) -> str:
    """Says it again."""
    return text


def play(scene: Any) -> None:
    async def live() -> None:
        global may_end
        may_end = asyncio.Event()
        yard = Yard([kit], exactly(sync_wait_s=0.01, grace_s=0.01))
        async with asyncio.timeout(20), yard.lifetime():
            await scene(yard)

    asyncio.run(live())


async def send(yard: Yard, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return await Request(yard, method, path, body, None, **headers).reply


async def oxp(yard: Yard, tool: str, text: str, call_id: str) -> Any:
    return await send(yard, "POST", "/tools/call", {"tool_id": tool, "input": {"text": text}, "call_id": call_id})


async def mcp(yard: Yard, revision: str, method: str, params: dict[str, Any]) -> Any:
    headers = {"accept": "application/json", "mcp-protocol-version": revision}
    if revision == NEWER:
        meta = {META + "protocolVersion": NEWER, META + "clientCapabilities": CAN, **params.get("_meta", {})}
        params = params | {"_meta": meta}
        headers |= {"mcp-method": method, "mcp-name": str(params.get("name") or params.get("taskId"))}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await send(yard, "POST", "/mcp", body, **headers)


async def task(yard: Yard, call_id: str, text: str, tool: str = "Kit_Echo") -> None:
    """A call over MCP that takes too long to be waited for, or a task."""
    meta = {"toolyard/callId": call_id}
    await mcp(yard, NEWER, "tools/call", {"name": tool, "arguments": {"text": text}, "_meta": meta})


async def use(yard: Yard, call_id: str, text: str) -> str:
    """A session's tool use, whose id a model chose. The session's id."""
    session: str = (await send(yard, "POST", "/v1/sessions", {}))["sessionId"]
    block = {"type": "tool_use", "id": call_id, "name": "Kit_Echo", "input": {"text": text}}
    message = {"role": "assistant", "content": [block]}
    await send(yard, "POST", f"/v1/sessions/{session}/messages?wait=5", message)
    return session


def test_a_call_is_asked_for_by_its_family() -> None:
    async def scene(yard: Yard) -> None:
        await oxp(yard, "Kit.Slow", "over OXP", "c")
        await task(yard, "c", "over MCP")
        session = await use(yard, "c", "in a session")
        may_end.set()
        for family, value in (("oxp", "over OXP"), ("mcp", "over MCP"), (session, "in a session")):
            found = await send(yard, "GET", f"/v1/calls/c?wait=10&family={family}")
            assert (found["family"], found["value"]) == (family, value)
            assert "otherFamilies" not in found
            assert await send(yard, "GET", f"/v1/calls/c/content?family={family}") == value.encode()
        newest = await send(yard, "GET", "/v1/calls/c")
        assert (newest["family"], newest["otherFamilies"]) == (session, ["mcp", "oxp"])
        assert "message" in await send(yard, "GET", "/v1/calls/c?family=otc_draft")

    play(scene)


def test_what_has_one_meaning_needs_no_family() -> None:
    async def scene(yard: Yard) -> None:
        await oxp(yard, "Kit.Slow", "x", "c")
        assert "otherFamilies" not in await send(yard, "GET", "/v1/calls/c")
        assert (await send(yard, "POST", "/v1/calls/c/cancel"))["code"] == "cancelled"

    play(scene)


def test_none_of_several_is_cancelled_by_their_id_alone() -> None:
    async def scene(yard: Yard) -> None:
        await oxp(yard, "Kit.Slow", "over OXP", "c")
        await task(yard, "c", "over MCP", "Kit_Slow")
        refused = await send(yard, "POST", "/v1/calls/c/cancel")
        assert refused["reason"] == "ambiguous"
        assert "mcp, oxp; say which with ?family=" in refused["message"]
        states = [call["state"] for call in (await send(yard, "GET", "/v1/calls"))["calls"]]
        assert states == ["PROCESSING", "PROCESSING"]
        cancelled = await send(yard, "POST", "/v1/calls/c/cancel?family=oxp")
        assert (cancelled["family"], cancelled["code"]) == ("oxp", "cancelled")
        assert (await send(yard, "GET", "/v1/calls/c?family=mcp"))["state"] == "PROCESSING"

    play(scene)


def test_an_operator_names_the_family_too() -> None:
    async def scene(yard: Yard) -> None:
        await oxp(yard, "Kit.Slow", "over OXP", "c")
        await task(yard, "c", "over MCP", "Kit_Slow")
        admin = CallAdmin(yard.store)
        shown, others = await admin.show(WhichCall("c"))
        assert (shown.key.family, others) == ("mcp", ["oxp"])
        for change in (admin.cancel(WhichCall("c")), admin.resolve(WhichCall("c"), None)):
            with pytest.raises(Refused, match="mcp, oxp; say which with --family"):
                await change
        with pytest.raises(PathNotFound):
            await admin.cancel(WhichCall("c", family="otc_draft"))
        assert (await admin.cancel(WhichCall("c", family="oxp"))).key.family == "oxp"
        shown, others = await admin.show(WhichCall("c", family="mcp"))
        assert (shown.state, others) == (State.PROCESSING, [])

    play(scene)


@pytest.mark.parametrize("made", [oxp, use], ids=["oxp", "session"])
@pytest.mark.parametrize("revision", [OLDER, NEWER])
def test_a_task_is_never_a_call_of_another_wire(revision: str, made: Any) -> None:
    async def scene(yard: Yard) -> None:
        meta = {"name": "Kit_Echo", "arguments": {"text": "mine"}, "task": {"ttl": 60_000}}
        id = (await mcp(yard, OLDER, "tools/call", meta))["result"]["task"]["taskId"]
        await mcp(yard, OLDER, "tasks/result", {"taskId": id})
        arguments = ("Kit.Echo", "another's", id) if made is oxp else (id, "another's")
        await made(yard, *arguments)
        got = await mcp(yard, revision, "tasks/get", {"taskId": id})
        assert (got["result"]["taskId"], got["result"]["status"]) == (id, "completed")
        result = got["result"]["result"] if revision == NEWER else None
        result = result or (await mcp(yard, OLDER, "tasks/result", {"taskId": id}))["result"]
        assert result["content"][0]["text"] == "mine"

    play(scene)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_what_did_not_come_over_mcp_is_no_task(method: str) -> None:
    async def scene(yard: Yard) -> None:
        await oxp(yard, "Kit.Slow", "x", "c")
        refused = await mcp(yard, OLDER, method, {"taskId": "c"})
        unknown = await mcp(yard, OLDER, method, {"taskId": "d"})
        assert refused["error"]["message"] == unknown["error"]["message"].replace(": d", ": c")
        assert (await send(yard, "GET", "/v1/calls/c"))["state"] == "PROCESSING"

    play(scene)
