"""What a tool embedded is read again as it was given: no other owner's tool can put something else in its place."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ..scene import Scene

URI = "safe://vic"


async def given_by_worker(made: Scene, role: str, tool: str, text: str) -> None:
    """The owner calls a tool of that caller's worker, which embeds a text under the address."""
    name = {b"toolyard-worker": b"w"}
    offered = {"id": tool, "input_schema": {"type": "object"}, "returns_content": True}
    assert (await made.send(role, "PUT", "/v1/workers/w", {"tools": [offered]})).status == 200
    asked = {"name": tool.replace(".", "_"), "arguments": {}}
    calling = asyncio.ensure_future(made.older("owner", "tools/call", asked))
    claim: list[Any] = []
    while not claim:
        claim = (await made.send(role, "POST", "/v1/tools/claim", {"tools": [tool]}, name)).json["claims"]
    value = [{"type": "resource", "resource": {"uri": URI, "text": text}}]
    path = f"/v1/tools/response/{claim[0]['sessionId']}/{claim[0]['requestId']}"
    said = {"response": {"state": "COMPLETE", "value": value}}
    assert (await made.send(role, "POST", path, said, {**name, b"toolyard-attempt": b"1"})).status == 200
    assert (await calling).json["result"]["content"][0]["resource"]["text"] == text


async def given_by_server(made: Scene) -> None:
    await made.older("owner", "tools/call", {"name": "Safe_Give", "arguments": {"text": "vic"}})


async def read(made: Scene) -> Any:
    read = (await made.older("owner", "resources/read", {"uri": URI})).json
    return read["result"]["contents"][0]["text"] if "result" in read else None


def run(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def play() -> None:
        async with Scene() as made:
            await story(made)

    asyncio.run(play())


def test_a_workers_tool_cannot_replace_what_the_servers_own_gave(caplog: pytest.LogCaptureFixture) -> None:
    async def story(made: Scene) -> None:
        await given_by_server(made)
        with caplog.at_level(logging.DEBUG, logger="toolyard.mcp"):
            await given_by_worker(made, "neighbour", "Evil.Say", "Eve's text")
            await asyncio.gather(*made.yard._node._beside)
            assert await read(made) == "vic"
        assert f"gave out {URI}, which is another owner's: it is not kept" in caplog.text

    run(story)


def test_what_the_servers_own_tool_gives_is_not_kept_out_by_a_workers() -> None:
    async def story(made: Scene) -> None:
        await given_by_worker(made, "neighbour", "Evil.Say", "Eve's text")
        assert await read(made) == "Eve's text"
        await given_by_server(made)
        assert await read(made) == "vic"

    run(story)


def test_a_worker_replaces_what_its_owner_gave_and_nobody_elses() -> None:
    async def story(made: Scene) -> None:
        made.credentials["another"] = made.bearer("acme", "carl")
        await given_by_worker(made, "neighbour", "Near.Say", "first")
        await given_by_worker(made, "another", "Evil.Say", "Eve's text")
        assert await read(made) == "first"
        await given_by_worker(made, "neighbour", "Near.Tell", "second")
        assert await read(made) == "second"

    run(story)
