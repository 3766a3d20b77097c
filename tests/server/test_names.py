"""Names that MCP allows and other wires do not: each wire lists one that it allows, and finds the tool by it."""

import asyncio
import json
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.model.tool import SHORT_NAME, short_name_of
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.testing import InProcessTransport, client
from toolyard.wires.contract import Request

LONG = "files.read-" + "x" * 117
NAMES = ["files.read", LONG]
JSON = {b"content-type": b"application/json"}


def kit_with(name: str) -> Toolkit:
    kit = Toolkit("Kit")

    @kit.tool(wire_name=name)
    async def read(path: str) -> str:
        """Reads it."""
        return f"read {path}"

    return kit


async def asked(direct: InProcessTransport, method: str, path: str, body: Any) -> Any:
    reply = await direct.send(Request(method, path, JSON, json.dumps(body).encode()))
    assert reply.status < 300, reply.body
    return json.loads(reply.body or b"null")


@pytest.mark.parametrize("name", NAMES)
def test_each_wire_lists_a_name_that_it_allows_and_finds_the_tool_by_it(name: str) -> None:
    kit = kit_with(name)
    with client(kit, wire="mcp") as mcp:
        assert [tool["name"] for tool in mcp.list()] == [name]
        for called in (name, "Kit.Read"):
            assert mcp.call(called, {"path": "a"}) == "read a"
    for wire in ("oxp", "otc"):
        with client(kit, wire=wire) as yard:
            listed = [tool["name"] for tool in yard.list()]
            assert listed == [short_name_of(name)]
            assert SHORT_NAME(listed[0])
            assert yard.call("Kit.Read", {"path": "a"}) == "read a"


@pytest.mark.parametrize("name", NAMES)
def test_a_model_may_use_either_name_in_a_session(name: str) -> None:
    async def scene() -> None:
        yard = Yard([kit_with(name)], exactly())
        direct = InProcessTransport(yard)
        async with yard.lifetime():
            session = (await asked(direct, "POST", "/v1/sessions", {}))["sessionId"]
            uses = [
                {"type": "tool_use", "id": f"t-{number}", "name": each, "input": {"path": "a"}}
                for number, each in enumerate((name, short_name_of(name)))
            ]
            message = {"role": "assistant", "content": uses}
            await asked(direct, "POST", f"/v1/sessions/{session}/messages", message)
            reply = await direct.send(Request("GET", f"/v1/sessions/{session}/results", {}, b"", b"wait=20"))
            results = json.loads(reply.body)["message"]["content"]
            assert [(each["content"], each["is_error"]) for each in results] == [("read a", False)] * 2

    asyncio.run(scene())


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_may_choose_such_a_name(name: str) -> None:
    async def scene() -> None:
        yard = Yard([Toolkit("Kit")], exactly())
        direct = InProcessTransport(yard)
        async with yard.lifetime():
            definition = {"id": "Far.Read", "name": name, "description": "Reads.", "input_schema": {"type": "object"}}
            await asked(direct, "PUT", "/v1/workers/w", {"tools": [definition]})
            assert [tool.wire_name for tool in yard.catalogue.all()] == [name]
            listed = await direct.send(Request("GET", "/tools"))
            assert [tool["name"] for tool in json.loads(listed.body)["items"]] == [short_name_of(name)]

    asyncio.run(scene())
