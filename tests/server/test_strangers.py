"""What strangers try: others' tools, others' calls, and more than their share of the server."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unpacked import everything_in
from toolyard import Context, Toolkit
from toolyard.server.app.compose import Yard
from toolyard.wires.mcp.envelope import MOST_AT_ONCE

from .scene import Answer, Scene, kit, settings

OFFER: dict[str, Any] = {"tools": [{"id": "Sms.Send", "version": "1.0.0", "input_schema": {"type": "object"}}]}
OTHER: dict[str, Any] = {"tools": [{"id": "Mail.Send", "version": "1.0.0", "input_schema": {"type": "object"}}]}
PAGES = ("https://a.example", "https://b.example")

telling = Toolkit("Telling")


@telling.tool
async def tell(ctx: Context) -> list[str]:
    """Says everything that a tool is told."""
    return [f"{name}: {getattr(ctx, name)!r}" for name in dir(ctx) if not name.startswith("_")]


def run(scene: Callable[[Scene], Awaitable[None]], *kits: Toolkit, **more: Any) -> None:
    async def play() -> None:
        async with Scene(Yard([kit, *kits], settings(**more))) as made:
            await scene(made)

    asyncio.run(play())


async def called(made: Scene, role: str = "owner") -> "asyncio.Task[Any]":
    """A call that waits for a worker."""
    body = {"tool_id": "Sms.Send", "call_id": "k", "input": {"to": "secret number"}}
    calling = asyncio.create_task(made.send(role, "POST", "/tools/call", body))
    while not (await made.send(role, "GET", "/v1/calls")).json["calls"]:
        await asyncio.sleep(0)
    return calling


async def claimed(made: Scene, role: str, name: str) -> list[Any]:
    reply = await made.send(role, "POST", "/v1/tools/claim", {}, {b"toolyard-worker": name.encode()})
    assert reply.status == 200
    requests: list[Any] = reply.json["claims"]
    return requests


@pytest.mark.parametrize("role", ["neighbour", "foreigner"])
def test_another_callers_worker_gets_neither_the_tool_nor_its_calls(role: str) -> None:
    async def scene(made: Scene) -> None:
        assert (await made.send("owner", "PUT", "/v1/workers/one", OFFER)).status == 200
        assert (await made.send(role, "PUT", "/v1/workers/two", OFFER)).status == 409
        newer = {"tools": [{**OFFER["tools"][0], "version": "9.0.0", "name": "Other"}]}
        assert (await made.send(role, "PUT", "/v1/workers/two", newer)).status == 409
        await called(made)
        assert await claimed(made, role, "two") == []
        assert len(await claimed(made, "owner", "one")) == 1

    run(scene)


def test_a_call_that_waits_is_not_for_the_next_tenant_that_offers_the_tool() -> None:
    async def scene(made: Scene) -> None:
        await made.send("owner", "PUT", "/v1/workers/one", OFFER)
        await called(made)
        (request,) = (await made.send("owner", "GET", "/v1/tools/requests", None, {b"toolyard-worker": b"one"})).json[
            "requests"
        ]
        await made.send("owner", "DELETE", "/v1/workers/one")
        assert (await made.send("foreigner", "PUT", "/v1/workers/two", OFFER)).status == 200
        assert await claimed(made, "foreigner", "two") == []
        listed = await made.send("foreigner", "GET", "/v1/tools/requests", None, {b"toolyard-worker": b"two"})
        assert b"secret number" not in listed.body
        answer = {"response": {"state": "COMPLETE", "result": "forged"}}
        at = f"/v1/tools/response/direct/{request['requestId']}"
        forged = await made.send("foreigner", "POST", at, answer, {b"toolyard-worker": b"two"})
        assert forged.status == 404

    run(scene)


def test_no_call_id_is_in_the_way_of_another_tenants_call() -> None:
    async def scene(made: Scene) -> None:
        async def call(role: str, tool: str, call_id: str) -> Answer:
            return await made.send(role, "POST", "/tools/call", {"tool_id": tool, "call_id": call_id})

        assert (await made.send("owner", "PUT", "/v1/workers/one", OFFER)).status == 200
        assert (await made.send("foreigner", "PUT", "/v1/workers/two", OTHER)).status == 200
        crafted = ["x", *(f"x~{number}" for number in range(15, 35))]
        theirs = [asyncio.create_task(call("foreigner", "Mail.Send", each)) for each in crafted]
        while len((await made.send("foreigner", "GET", "/v1/calls")).json["calls"]) < len(crafted):
            await asyncio.sleep(0)
        mine = asyncio.create_task(call("owner", "Sms.Send", "x"))
        while not (given := await claimed(made, "owner", "one")):
            await asyncio.sleep(0)
        assert re.fullmatch("x~[0-9a-f]{16}", given[0]["requestId"])
        at, done = f"/v1/tools/response/direct/{given[0]['requestId']}", {"response": {"state": "COMPLETE", "value": 1}}
        assert (await made.send("owner", "POST", at, done, {b"toolyard-worker": b"one"})).status == 200
        assert (await mine).json["success"] is True
        assert not any(each.done() for each in theirs)

    run(scene)


def test_a_tenants_name_is_a_name_and_no_pattern() -> None:
    async def scene(made: Scene) -> None:
        made.credentials["star"] = made.bearer("*", "eve")
        assert (await made.send("star", "PUT", "/v1/workers/one", OFFER)).status == 200
        assert b"Sms" not in (await made.send("owner", "GET", "/tools")).body
        assert b"Sms" in (await made.send("star", "GET", "/tools")).body

    run(scene)


def test_a_strangers_tool_may_do_anything_whatever_it_says() -> None:
    async def scene(made: Scene) -> None:
        await made.send("owner", "PUT", "/v1/workers/one", OFFER)
        assert b"Sms" not in (await made.send("owner", "GET", "/tools")).body

    run(scene, access=[{"tools": "@destructive", "allow": False}, {}])


def test_over_mcp_what_is_refused_is_audited_as_that() -> None:
    async def scene(made: Scene) -> None:
        about = {"name": "Safe_Keep", "arguments": {"text": "a"}, "_meta": {"toolyard/callId": "k"}}
        session = await made.opened("owner")
        await made.older("owner", "tools/call", about, session)
        await made.older("owner", "tools/call", about | {"arguments": {"text": "b"}}, session)
        await made.older("owner", "tools/call", {"name": "Nope"}, session)
        assert made.yard.audit is not None
        await made.yard.audit.written()
        blocks = await made.yard.store.audit.blocks("main", 0, 100)
        entries = [json.loads(line) for block in blocks for line in block.entries.splitlines()]
        assert [(each["kind"], each["code"]) for each in entries if "wire" in each] == [
            ("call", "success"), ("refused", "KeyConflict"), ("refused", "RpcError"),
        ]  # fmt: skip

    run(scene, audit="strict")


def test_a_batch_has_an_end() -> None:
    async def scene(made: Scene) -> None:
        many = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(MOST_AT_ONCE + 1)]
        assert (await made.send("owner", "POST", "/mcp", many)).status == 400
        assert (await made.send("owner", "POST", "/mcp", many[1:])).status == 200

    run(scene)


def test_a_client_does_not_introduce_itself_for_ever() -> None:
    async def scene(made: Scene) -> None:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"x": "y" * 100_000}, "clientInfo": {}}
        assert "at most" in (await made.older("owner", "initialize", hello)).json["error"]["message"]

    run(scene)


def test_one_pages_leave_is_not_told_to_others() -> None:
    async def scene(made: Scene) -> None:
        said = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for page in (*PAGES, None):
            reply = await made.send("owner", "POST", "/mcp", said, {b"origin": page.encode()} if page else {})
            allowed = [value.decode() for name, value in reply.headers if name == b"access-control-allow-origin"]
            assert allowed == ([page] if page else [])

    run(scene, cors_origins=list(PAGES))


def test_a_session_id_of_any_bytes_is_just_not_known() -> None:
    async def scene(made: Scene) -> None:
        headers = {b"mcp-session-id": b"a.\xe9", b"mcp-protocol-version": b"2025-11-25"}
        reply = await made.send("owner", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)
        assert reply.status == 404

    run(scene)


def by_anchor(step: int) -> dict[str, Any]:
    return {"$ref": f"#s{step}"}


def by_id(step: int) -> dict[str, Any]:
    return {"$ref": f"https://a.example/s{step}"}


def by_dynamic_anchor(step: int) -> dict[str, Any]:
    return {"$dynamicRef": f"#s{step}"}


def by_escape(step: int) -> dict[str, Any]:
    return {"$ref": f"#/%24defs/s{step}"}


def by_pointer(step: int) -> dict[str, Any]:
    return {"$ref": f"#/$defs/s{step}"}


def doubling(refers: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """Two kilobytes that take 2 ** 60 steps."""
    named = {"by_anchor": "$anchor", "by_dynamic_anchor": "$dynamicAnchor", "by_id": "$id"}.get(refers.__name__)
    defs: dict[str, Any] = {"s0": {"type": "string"}}
    for step in range(1, 61):
        defs[f"s{step}"] = {"allOf": [refers(step - 1), refers(step - 1)]}
    for name, part in defs.items():
        part |= {} if named is None else {named: f"https://a.example/{name}" if named == "$id" else name}
    return {"type": "object", "properties": {"a": refers(60)}, "$defs": defs}


@pytest.mark.parametrize("refers", [by_anchor, by_id, by_dynamic_anchor, by_escape, by_pointer])
def test_a_schema_that_doubles_at_every_step_holds_nobody_up(refers: Callable[[int], dict[str, Any]]) -> None:
    async def scene(made: Scene) -> None:
        tool = {"name": "double", "description": "Doubles", "input_schema": doubling(refers)}
        opening = asyncio.create_task(made.send("owner", "POST", "/v1/sessions", {"tools": [tool]}))
        assert (await made.send("neighbour", "GET", "/tools")).status == 200
        opened = await opening
        if opened.status == 422:
            assert "more than 1000000 steps" in opened.body.decode()
            return
        session = opened.json["sessionId"]
        use = {"type": "tool_use", "id": "u", "name": "double", "input": {"a": "x"}}
        message = {"role": "assistant", "content": [use]}
        sending = asyncio.create_task(made.send("owner", "POST", f"/v1/sessions/{session}/messages", message))
        while not made.yard.engine.plans.sandbox.is_busy and not sending.done():
            await asyncio.sleep(0)
        assert (await made.send("neighbour", "GET", "/tools")).status == 200
        assert not sending.done()
        assert (await sending).status == 200
        results = await made.send("owner", "GET", f"/v1/sessions/{session}/results")
        assert "takes more than a second" in results.body.decode()

    run(scene)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{number}": {"pattern": rf"\p{{L}}{{140}}{number}"} for number in range(1000)}},
        {"properties": {"a": {"pattern": r"\w" * 10_000}}},
        {"$ref": "#/$defs/s0", "$defs": {f"s{n}": {"$ref": f"#/$defs/s{n + 1}"} for n in range(477)} | {"s477": {}}},
        json.loads('{"not":' * 50 + "{}" + "}" * 50),
        {"enum": list(range(60_000))},
    ],
    ids=["patterns", "a long pattern", "a chain", "deep", "large"],
)
def test_whatever_a_worker_registers_is_served_or_refused(schema: dict[str, Any]) -> None:
    async def scene(made: Scene) -> None:
        offered = {"tools": [{**OFFER["tools"][0], "input_schema": {"type": "object", **schema}}]}
        registered = await made.send("owner", "PUT", "/v1/workers/one", offered)
        assert registered.status in (200, 422), registered.body
        assert (await made.send("foreigner", "PUT", "/v1/workers/two", OTHER)).status == 200
        assert (b"Sms" in (await made.send("owner", "GET", "/tools")).body) == (registered.status == 200)

    run(scene)


def test_the_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    def rights() -> set[int]:
        return {path.stat().st_mode & 0o777 for path in tmp_path.glob("a.db*") if "lock" not in path.name}

    async def scene() -> set[int]:
        async with Yard([kit], settings(store=f"sqlite:{tmp_path}/a.db")).lifetime():
            return await asyncio.to_thread(rights)

    assert asyncio.run(scene()) == {0o600}


def test_a_token_names_somebody_who_can_be_shown() -> None:
    async def scene(made: Scene) -> None:
        for subject in ("a\nb", "\x1b]0;owned\x07", "x" * 300):
            made.credentials["odd"] = made.bearer("acme", subject)
            assert (await made.send("odd", "GET", "/tools")).status == 401

    run(scene)


def signature(made: Scene, role: str) -> bytes:
    """The part of somebody's token that stands nowhere else."""
    return made.credentials[role][b"authorization"].rpartition(b".")[2]


def test_a_worker_does_not_get_the_callers_token() -> None:
    async def scene(made: Scene) -> None:
        token = signature(made, "neighbour")
        await made.send("owner", "PUT", "/v1/workers/one", OFFER)
        await called(made, "neighbour")
        worker = {b"toolyard-worker": b"one"}
        for method, path in (("GET", "/v1/tools/requests"), ("POST", "/v1/tools/claim")):
            shown = await made.send("owner", method, path, None if method == "GET" else {}, worker)
            assert b"secret number" in shown.body
            assert token not in shown.body

    run(scene)


def test_what_is_shown_of_a_call_or_a_session_does_not_have_the_callers_token() -> None:
    async def scene(made: Scene) -> None:
        token = signature(made, "owner")
        owned = await made.furnish()
        at = f"/v1/sessions/{owned.session}"
        for path in (
            "/v1/calls", f"/v1/calls/{owned.call}", at, f"{at}/results", f"{at}/events",
            f"/v1/tools/request/{owned.session}/{owned.request}",
        ):  # fmt: skip
            shown = await made.send("owner", "GET", path)
            assert shown.status in (200, 202)
            assert token not in shown.body

    run(scene)


def test_a_tool_is_not_told_the_callers_token() -> None:
    async def scene(made: Scene) -> None:
        told = await made.send("owner", "POST", "/tools/call", {"tool_id": "Telling.Tell", "input": {}})
        assert any(each.startswith("caller: Caller(tenant='acme', subject='ada'") for each in told.json["value"])
        assert signature(made, "owner") not in told.body

    run(scene, telling)


def test_the_ledger_and_its_audit_log_do_not_have_the_callers_token(tmp_path: Path) -> None:
    tokens: list[bytes] = []

    async def scene(made: Scene) -> None:
        tokens.append(signature(made, "owner"))
        await made.furnish()

    run(scene, store=f"sqlite:{tmp_path}/a.db", audit="strict", audit_input=True)
    kept = b"".join(everything_in(path) for path in tmp_path.iterdir())
    assert b"owned-call" in kept
    assert tokens[0] not in kept
