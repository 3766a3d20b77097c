"""Calls that take longer than their client waits: what is written before it is told, and who waits while the server
leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from toolyard import Toolkit
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.store.hints import Topic

kit = Toolkit("Kit", version="1.0.0")
may_end = asyncio.Event()


@kit.tool
async def slow(text: str) -> str:
    """Ends when it is told to."""
    await may_end.wait()
    return text


class Request:
    """A request under way, as an ASGI server has it. `when_answered` is called when the reply begins."""

    def __init__(
        self,
        yard: Yard,
        method: str,
        path: str,
        body: Any = None,
        when_answered: Callable[[], Awaitable[None]] | None = None,
        **headers: str,
    ) -> None:
        self._when_answered, self._body = when_answered, b"" if body is None else msgspec.json.encode(body)
        path, _, query = path.partition("?")
        sent = {"host": "localhost", "content-type": "application/json", **headers}
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()], "scheme": "http",
            "root_path": "", "client": ("127.0.0.1", 1),
        }  # fmt: skip
        self.reply = asyncio.get_running_loop().create_future()
        self._told = b""
        self.task = asyncio.ensure_future(yard.asgi(scope, self._receive, self._send))
        self._has_sent = False

    async def _receive(self) -> dict[str, Any]:
        if self._has_sent:
            await asyncio.Event().wait()
        self._has_sent = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if self._when_answered is not None:
                await self._when_answered()
            return
        self._told += message["body"]
        if not message.get("more_body") and not self.reply.done():
            self.reply.set_result(msgspec.json.decode(self._told) if self._told[:1] == b"{" else self._told)


def play(scene: Callable[[Yard], Awaitable[None]], **settings: Any) -> None:
    async def live() -> None:
        global may_end
        may_end = asyncio.Event()
        yard = Yard([kit], exactly(**settings))
        async with asyncio.timeout(20), yard.lifetime():
            await scene(yard)

    asyncio.run(live())


async def entries(yard: Yard) -> list[dict[str, Any]]:
    blocks = await yard.store.audit.blocks("main", 0, 1000)
    return [msgspec.json.decode(line) for block in blocks for line in block.entries.splitlines()]


CALL = {"tool_id": "Kit.Slow", "input": {"text": "x"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
NEWER = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "Kit_Slow", "arguments": {"text": "x"}, "_meta": META},
}  # fmt: skip
NEWER_HEADERS = {
    "accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call",
    "mcp-name": "Kit_Slow",
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [("/tools/call", CALL, {}), ("/mcp", NEWER, NEWER_HEADERS)],
    ids=["oxp", "mcp"],
)
def test_a_strict_server_tells_nothing_early_that_is_not_in_its_log(
    path: str, body: Any, headers: dict[str, str]
) -> None:
    async def scene(yard: Yard) -> None:
        at_the_answer: list[Any] = []

        async def look() -> None:
            at_the_answer.extend(each for each in await entries(yard) if each["kind"] == "call")

        asked = Request(yard, "POST", path, body, look, **headers)
        await asked.reply
        (entry,) = at_the_answer
        assert (entry["tool"], entry["code"], entry["from"]) == ("Kit.Slow@1.0.0", "still_running", "127.0.0.1")
        may_end.set()
        await asked.task
        codes = [each["code"] for each in await entries(yard) if each["kind"] == "call"]
        assert codes == ["still_running", "success"]
        prints = {each["fp"] for each in await entries(yard) if each["kind"] == "call"}
        assert len(prints) == 1

    play(scene, audit="strict", sync_wait_s=0.01)


def test_a_slow_call_has_one_entry_where_the_log_is_written_behind() -> None:
    async def scene(yard: Yard) -> None:
        asked = Request(yard, "POST", "/tools/call", CALL)
        await asked.reply
        may_end.set()
        await asked.task
        assert yard.audit is not None
        await yard.audit.written()
        assert [each["code"] for each in await entries(yard) if each["kind"] == "call"] == ["success"]

    play(scene, sync_wait_s=0.01)


@pytest.mark.parametrize("door", ["/v1/calls", "/v1/admin/calls"])
def test_nobody_waits_for_the_end_of_a_call_while_the_server_leaves(door: str) -> None:
    async def scene(yard: Yard) -> None:
        call = Request(yard, "POST", "/tools/call", {**CALL, "call_id": "c"})
        headers = {"authorization": f"Bearer {yard.operators_token.text}"} if "admin" in door else {}
        while not yard._node.held:
            await asyncio.sleep(0)
        waiting = Request(yard, "GET", f"{door}/c?wait=60", None, None, **headers)
        while len(yard.store.hints._listeners[Topic.ENDED, 1]) < 2:
            await asyncio.sleep(0)
        assert not waiting.reply.done()
        yard.let_go()
        shown = await waiting.reply
        assert "PROCESSING" in str(shown)
        may_end.set()
        await call.task
        await waiting.task

    play(scene)
