"""A session's tool use and a task wait for the account they need, and go on by themselves once it is connected."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from ...trust.credentials.identity_provider import Provider
from .stage import HERE, Link, Person, Scene, scene


def play(story: Callable[[Scene], Awaitable[None]], provider: Provider, **settings: Any) -> None:
    async def played() -> None:
        async with scene(provider, **settings) as stage:
            await story(stage)

    asyncio.run(played())


async def get(stage: Scene, path: str) -> Any:
    return (await stage._caller.get(HERE + path)).json()


async def post(stage: Scene, path: str, body: Any) -> Any:
    return (await stage._caller.post(HERE + path, json=body)).json()


async def used(stage: Scene, name: str = "Post_Read") -> str:
    session: str = (await post(stage, "/v1/sessions", {}))["sessionId"]
    use = {"type": "tool_use", "id": "t-1", "name": name, "input": {}}
    await post(stage, f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})
    return session


def link_in(shown: dict[str, Any]) -> Link:
    assert (shown["state"], shown["waitingFor"]) == ("PENDING", "authorization")
    (place,) = shown["waitingAt"]
    code = re.search(r"this code: (\S+)", place["message"])
    assert code is not None
    return Link(place["url"].replace(stage_url(place["url"]), HERE), "", code[1])


def stage_url(url: str) -> str:
    return url.partition("/authorize/")[0]


async def connect(stage: Scene, link: Link) -> None:
    async with stage.browser() as browser:
        assert (await Person(browser, "ada").allow(link)).status == 200


def test_a_tool_use_waits_for_its_account_and_then_goes_on(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        session = await used(stage)
        await connect(stage, link_in(await get(stage, f"/v1/tools/request/{session}/t-1")))
        results = await get(stage, f"/v1/sessions/{session}/results?wait=20")
        (result,) = results["message"]["content"]
        assert not result.get("is_error")

    play(story, provider)


def test_after_its_account_it_may_wait_for_a_yes(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        session = await used(stage)
        await connect(stage, link_in(await get(stage, f"/v1/tools/request/{session}/t-1")))
        while (shown := await get(stage, f"/v1/tools/request/{session}/t-1"))["waitingFor"] != "approval":
            await asyncio.sleep(0.05)
        assert shown["waitingAt"][0]["url"].partition("/approvals/")[1]
        desk = stage.yard._decisions.approvals
        (call,) = await desk.waiting()
        await desk.decide(call, approved=True, by="a test")
        results = await get(stage, f"/v1/sessions/{session}/results?wait=20")
        assert not results["message"]["content"][0].get("is_error")

    play(story, provider, approvals=[{"tools": "Post.*"}])


def test_a_tool_use_does_not_wait_for_ever(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        session = await used(stage)
        results = await get(stage, f"/v1/sessions/{session}/results?wait=20")
        assert results["message"]["content"][0]["is_error"]

    play(story, provider, approval_wait_s=0.05)


def test_a_task_asks_for_its_account(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}}, "clientInfo": {}}
        opened = await stage._caller.post(f"{HERE}/mcp", json=rpc("initialize", hello))
        headers = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        about = rpc("tools/call", {"name": "Post_Read", "arguments": {}, "task": {}})
        task = (await stage._caller.post(f"{HERE}/mcp", json=about, headers=headers)).json()["result"]["task"]
        assert task["status"] == "input_required"
        await connect(stage, link_in(await get(stage, f"/v1/calls/{task['taskId']}")))
        assert (await get(stage, f"/v1/calls/{task['taskId']}?wait=20"))["state"] == "COMPLETE"

    play(story, provider)


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
