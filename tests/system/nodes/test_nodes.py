"""Two servers on one PostgreSQL: whatever came in at one of them can be had at the other."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec
import pytest

from toolyard import AsyncClient, Busy, Context, RequestError, ToolError, Toolkit
from toolyard.model.api_key import ApiKey
from toolyard.model.clock import SYSTEM_CLOCK
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.testing import InProcessTransport
from toolyard.trust.limits.usage_sharing import EVERY_S, UsageSharing
from toolyard.wires.contract import JSON, Reply, Request

SECRET = "0" * 64
ran: list[str] = []
go = asyncio.Event()
kit = Toolkit("Kit", version="1.0.0")


@kit.tool
async def patient(text: str, ctx: Context) -> str:
    """Goes on until it may."""
    ran.append(text)
    try:
        await go.wait()
    except asyncio.CancelledError:
        ran.append("stopped")
        raise
    return f"{text} {ctx.call_id}"


@kit.tool(concurrency=2)
async def few(text: str) -> str:
    """Two at once, wherever they are."""
    ran.append(text)
    await go.wait()
    return text


class Node:
    """A server, and a client of it."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self._direct = yard, InProcessTransport(yard)
        self.client = AsyncClient(sending=self._direct, retries=0)

    async def ask(self, method: str, path: str, body: Any = None, headers: Any = None) -> Reply:
        path, _, query = path.partition("?")
        content = b"" if body is None else msgspec.json.encode(body)
        given = dict([JSON, (b"accept", b"*/*"), *(headers or {}).items()])
        return await self._direct.send(Request(method, path, given, content, query.encode()))

    async def told(self, method: str, path: str, body: Any = None) -> Any:
        reply = await self.ask(method, path, body)
        return msgspec.json.decode(reply.body or b"null")


Scenario = Callable[[Node, Node], Awaitable[None]]
Nodes = Callable[[Scenario], None]


@pytest.fixture
def nodes(postgres_url: str) -> Nodes:
    """Runs a scenario with two nodes on one loop."""
    ran.clear()

    async def within(scenario: Scenario) -> None:
        global go
        go = asyncio.Event()
        settings = exactly(
            store=postgres_url, secret_key=SECRET, sync_wait_s=20, lease_s=1, queue_wait_s=5, claim_wait_s=20
        )
        async with AsyncExitStack() as stack:
            made = [Yard([kit], settings), Yard([kit], settings)]
            for yard in made:
                await stack.enter_async_context(yard.lifetime())
            await scenario(*map(Node, made))

    return lambda scenario: asyncio.run(within(scenario))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_call_at_one_node_is_joined_at_the_other(nodes: Nodes) -> None:
    async def scenario(one: Node, other: Node) -> None:
        first = asyncio.create_task(one.client.call("Kit.Patient", {"text": "x"}, call_id="k"))
        await until(lambda: ran == ["x"])
        second = asyncio.create_task(other.client.call("Kit.Patient", {"text": "x"}, call_id="k"))
        with pytest.raises(RequestError, match="used for another call"):
            await other.client.call("Kit.Patient", {"text": "y"}, call_id="k")
        go.set()
        assert await first == await second == "x k"
        assert ran == ["x"]

    nodes(scenario)


@pytest.mark.parametrize("wire", ["oxp", "draft"])
def test_who_joins_a_call_of_the_other_node_is_refused_once_the_key_is_revoked(nodes: Nodes, wire: str) -> None:
    async def scenario(one: Node, other: Node) -> None:
        bearers = dict[str, dict[bytes, bytes]]()
        for name in ("stays", "goes"):
            key = "ty_" + token_hex(20)
            await one.yard.store.api_keys.put(ApiKey(name, sha256(key.encode()).digest(), "default", "ada"))
            bearers[name] = {b"authorization": b"Bearer " + key.encode()}
        for node in (one, other):
            await node.yard._keys.sync()
        call = {"tool_id": "Kit.Patient", "call_id": "k", "input": {"text": "x"}}
        path, body = ("/tools/call", call) if wire == "oxp" else ("/otc/draft/call", {"request": call})
        first = asyncio.create_task(one.ask("POST", path, body, bearers["stays"]))
        await until(lambda: ran == ["x"])
        joined = asyncio.create_task(other.ask("POST", path, body, bearers["goes"]))
        await until(lambda: joined.done() or bool(other.yard._validity._watched))
        await one.yard.store.api_keys.revoke("goes")
        await other.yard._keys.sync()
        go.set()
        assert ((await first).status, (await joined).status, ran) == (200, 401, ["x"])

    nodes(scenario)


def test_the_same_call_at_both_nodes_at_the_same_instant_runs_once(nodes: Nodes) -> None:
    async def scenario(one: Node, other: Node) -> None:
        go.set()
        for number in range(20):
            calls = [node.client.call("Kit.Patient", {"text": "x"}, call_id=f"k{number}") for node in (one, other) * 3]
            assert set(await asyncio.gather(*calls)) == {f"x k{number}"}
        assert len(ran) == 20

    nodes(scenario)


def test_a_call_is_shown_and_cancelled_at_the_other_node(nodes: Nodes) -> None:
    async def scenario(one: Node, other: Node) -> None:
        waiting = asyncio.create_task(one.client.call("Kit.Patient", {"text": "x"}, call_id="k"))
        await until(lambda: ran == ["x"])
        assert (await other.told("GET", "/v1/calls/k"))["state"] == "PROCESSING"
        cancelled = await other.told("POST", "/v1/calls/k/cancel")
        assert (cancelled["code"], cancelled["effects"]) == ("cancelled", "unknown")
        with pytest.raises(ToolError, match="was cancelled"):
            await waiting
        assert ran == ["x", "stopped"]

    nodes(scenario)


def test_a_tool_has_its_limit_on_all_nodes_together(nodes: Nodes) -> None:
    async def scenario(one: Node, other: Node) -> None:
        calls = [
            asyncio.create_task(node.client.call("Kit.Few", {"text": f"{number}"}, call_id=f"k{number}"))
            for number, node in enumerate((one, other) * 3)
        ]
        await until(lambda: len(ran) == 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.gather(*calls)), 0.3)
        assert len(ran) == 2
        go.set()
        assert sorted(await asyncio.gather(*calls)) == ["0", "1", "2", "3", "4", "5"]

    nodes(scenario)


def test_a_workers_tool_is_at_every_node_and_goes_with_it(nodes: Nodes) -> None:
    async def scenario(one: Node, other: Node) -> None:
        tools = [{"id": "Away.Echo", "input_schema": {"type": "object"}}]
        await one.told("PUT", "/v1/workers/w", {"tools": tools})
        await until(lambda: other.yard.catalogue.named("Away_Echo") is not None)
        call = asyncio.create_task(other.client.call("Away.Echo", {"a": 1}, call_id="k"))
        (claim,) = (await one.told("POST", "/v1/tools/claim", {"wait": 10}))["claims"]
        assert (claim["sessionId"], claim["input"]) == ("direct", {"a": 1})
        done = {"response": {"state": "COMPLETE", "value": claim["input"]}}
        assert (await one.ask("POST", f"/v1/tools/response/direct/{claim['requestId']}", done)).status == 200
        assert await call == {"a": 1}
        await until(lambda: one.yard.catalogue.named("Away_Echo") is None)
        await until(lambda: other.yard.catalogue.named("Away_Echo") is None)

    nodes(scenario)


def test_a_session_is_at_every_node(nodes: Nodes) -> None:
    async def scenario(one: Node, other: Node) -> None:
        own = {"name": "own", "description": "", "input_schema": {"type": "object"}}
        session = (await one.told("POST", "/v1/sessions", {"tools": [own]}))["sessionId"]
        uses = [
            {"type": "tool_use", "id": "a", "name": "own", "input": {}},
            {"type": "tool_use", "id": "b", "name": "Kit_Patient", "input": {"text": "x"}},
        ]
        await other.told("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": uses})
        results = asyncio.create_task(one.told("GET", f"/v1/sessions/{session}/results?wait=20"))
        await other.told("POST", f"/v1/tools/response/{session}/a", {"response": {"state": "COMPLETE", "n": 1}})
        go.set()
        content = (await results)["message"]["content"]
        assert [each["content"] for each in content] == ['{"n":1}', "x b"]

    nodes(scenario)


def test_a_resource_that_a_session_follows_may_be_named_and_change_on_another_node(nodes: Nodes) -> None:
    """Its stream is at one, it subscribes at the other, and there the author's server says that it changed."""

    async def scenario(one: Node, other: Node) -> None:
        session = {b"mcp-session-id": await opened_session(one), b"accept": b"text/event-stream"}
        stream = Stream(one.yard, session)
        await until(lambda: b": changes" in stream.heard)
        follow = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "x://y"}}
        assert (await other.ask("POST", "/mcp", follow, session)).status == 200
        async with asyncio.timeout(20):
            while b"resources/updated" not in stream.heard:  # until the first node has heard of the subscription
                other.yard.mcp.subscriptions.resource_updated("x://y")
                await asyncio.sleep(0.01)
        other.yard.mcp.subscriptions.prompts_changed()
        await until(lambda: b"prompts/list_changed" in stream.heard)
        assert b'"uri":"x://y"' in stream.heard
        stream.leave.set()
        await stream.task

    nodes(scenario)


async def opened_session(node: Node) -> bytes:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    reply = await node.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
    return dict(reply.headers)[b"mcp-session-id"]


class Stream:
    """A stream that a client opens by itself, and what it has heard on it."""

    def __init__(self, yard: Yard, headers: dict[bytes, bytes]) -> None:
        self.heard, self.leave, self._has_asked = b"", asyncio.Event(), False
        scope = {
            "type": "http", "method": "GET", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "root_path": "",
            "http_version": "1.1", "scheme": "http", "headers": [(b"host", b"127.0.0.1"), *headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        self.task = asyncio.create_task(yard.asgi(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.heard += message.get("body", b"")


def test_a_full_line_is_told_so_at_every_node(postgres_url: str) -> None:
    async def scenario() -> None:
        settings = exactly(store=postgres_url, secret_key=SECRET, queue_limit=2, sync_wait_s=1)
        async with AsyncExitStack() as stack:
            one, other = (Node(Yard([kit], settings)) for _ in range(2))
            for node in (one, other):
                await stack.enter_async_context(node.yard.lifetime())
            await one.told("PUT", "/v1/workers/w", {"tools": [{"id": "Away.Echo", "input_schema": {}}]})
            await until(lambda: other.yard.catalogue.named("Away_Echo") is not None)
            for number, node in enumerate((one, other)):
                outcome = await node.client.outcome("Away.Echo", {}, call_id=f"k{number}")
                assert outcome.error is not None
                assert outcome.error.can_retry
            for node in (one, other):
                with pytest.raises(Busy, match="busy"):
                    await node.client.call("Away.Echo", {}, call_id="more")
                assert (await node.ask("GET", "/v1/calls/more")).status == 404, "nothing is stored"

    asyncio.run(scenario())


def test_the_calls_of_a_node_that_is_gone_are_settled_by_another(nodes: Nodes, postgres_url: str) -> None:
    """A node that stops renewing its lease, as one that was killed does."""

    async def scenario(one: Node, other: Node) -> None:
        waiting = asyncio.create_task(one.client.call("Kit.Patient", {"text": "x"}, call_id="k"))
        await until(lambda: ran == ["x"])
        await one.yard.store._lease.stop()  # type: ignore[attr-defined]
        began = time.monotonic()
        while (await other.told("GET", "/v1/calls/k"))["state"] == "PROCESSING":
            assert time.monotonic() < began + 20
            await asyncio.sleep(0.02)
        assert (await other.told("GET", "/v1/calls/k"))["code"] == "outcome_unknown"
        with pytest.raises(ToolError, match="whether it was done is not known"):
            await waiting  # the paused node answers from the ledger

    nodes(scenario)


def limited(url: str, **limit: Any) -> Any:
    return exactly(store=url, secret_key=SECRET, lease_s=1, sync_wait_s=20, limits=[limit])


async def heard_of(one: Node, other: Node) -> None:
    """Until each node has said what it uses, and has heard what the other does."""
    for _ in range(2):
        for node in (one, other):
            limiter = node.yard.limiting.limiter
            assert limiter is not None
            await UsageSharing(limiter, node.yard.store, SYSTEM_CLOCK).once()


def with_limits(url: str, scenario: Scenario, **limit: Any) -> None:
    async def within() -> None:
        global go
        go = asyncio.Event()
        ran.clear()
        async with AsyncExitStack() as stack:
            made = [Yard([kit], limited(url, **limit)) for _ in range(2)]
            for yard in made:
                await stack.enter_async_context(yard.lifetime())
            await scenario(*map(Node, made))

    asyncio.run(within())


def test_a_minutes_calls_are_those_of_all_nodes(postgres_url: str) -> None:
    async def scenario(one: Node, other: Node) -> None:
        go.set()
        for number in range(4):
            await one.client.call("Kit.Patient", {"text": "x"}, call_id=f"a{number}")
        await heard_of(one, other)
        await other.client.call("Kit.Patient", {"text": "x"}, call_id="b0")
        with pytest.raises(Busy, match="Too many calls") as refused:
            await other.client.call("Kit.Patient", {"text": "x"}, call_id="b1")
        assert 5_000 < refused.value.retry_after_ms <= 12_000
        await heard_of(one, other)
        with pytest.raises(Busy, match="Too many calls"):
            await one.client.call("Kit.Patient", {"text": "x"}, call_id="a9")
        assert await other.client.call("Kit.Patient", {"text": "x"}, call_id="a0") == "x a0", "a replay costs nothing"

    with_limits(postgres_url, scenario, calls_per_minute=5)


def test_nodes_hear_of_each_other_without_being_asked(postgres_url: str) -> None:
    async def scenario(one: Node, other: Node) -> None:
        waiting = asyncio.create_task(one.client.call("Kit.Patient", {"text": "x"}, call_id="a"))
        await until(lambda: ran == ["x"])
        await asyncio.sleep(3 * EVERY_S)
        with pytest.raises(Busy, match="Too many calls"):
            await other.client.call("Kit.Patient", {"text": "y"}, call_id="b")
        go.set()
        assert await waiting == "x a"

    with_limits(postgres_url, scenario, at_once=1)


def test_what_ran_on_a_node_that_is_gone_does_not_count(postgres_url: str) -> None:
    async def scenario(one: Node, other: Node) -> None:
        waiting = asyncio.create_task(one.client.call("Kit.Patient", {"text": "x"}, call_id="a"))
        await until(lambda: ran == ["x"])
        await heard_of(one, other)
        with pytest.raises(Busy, match="Too many calls"):
            await other.client.call("Kit.Patient", {"text": "y"}, call_id="b")
        await one.yard.store._lease.stop()  # type: ignore[attr-defined]
        go.set()
        await asyncio.sleep(1.5)
        await heard_of(other, other)
        assert await other.client.call("Kit.Patient", {"text": "y"}, call_id="b") == "y b"
        await asyncio.gather(waiting, return_exceptions=True)

    with_limits(postgres_url, scenario, at_once=1)


def test_a_call_counts_while_it_waits_for_a_worker(postgres_url: str) -> None:
    async def scenario(one: Node, other: Node) -> None:
        await one.told("PUT", "/v1/workers/w", {"tools": [{"id": "Away.Echo", "input_schema": {"type": "object"}}]})
        await until(lambda: one.yard.catalogue.named("Away_Echo") is not None)
        session = (await one.told("POST", "/v1/sessions", {"tools": []}))["sessionId"]
        messages = f"/v1/sessions/{session}/messages"
        use = {"type": "tool_use", "id": "a", "name": "Away_Echo", "input": {}}
        assert (await one.ask("POST", messages, {"role": "assistant", "content": [use]})).status == 200
        more = {"role": "assistant", "content": [{**use, "id": "b"}]}
        assert (await one.ask("POST", messages, more)).status == 429
        (claim,) = (await one.told("POST", "/v1/tools/claim", {"wait": 10}))["claims"]
        done = {"response": {"state": "COMPLETE", "value": 1}}
        assert (await one.ask("POST", f"/v1/tools/response/{session}/{claim['requestId']}", done)).status == 200
        async with asyncio.timeout(10):
            while (await one.ask("POST", messages, more)).status == 429:
                await asyncio.sleep(0.05)

    with_limits(postgres_url, scenario, at_once=1)
