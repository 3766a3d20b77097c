"""Access rules through every wire: what a caller may not see does not exist for it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard.server.app.compose import Yard

from .scene import Scene, kit, settings

RULES: list[dict[str, Any]] = [
    {"who": {"subject": "bob"}, "tools": "Safe.Keep", "scopes": ["safe.write", "safe.read"]},
    {"who": {"tenant": "other"}, "tools": "Safe.Give"},
    {"who": {"subject": "ada", "tenant": "acme"}},
]
"""Bob sees one tool and lacks scopes for it, the foreigner sees another, the owner all."""
LISTS = ("/tools", "/oxp/tools", "/otc/tools", "/otc/draft/tools")


def run(scene: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def play() -> None:
        async with Scene(Yard([kit], settings(access=RULES, **more))) as made:
            await scene(made)

    asyncio.run(play())


def call(tool: str, **more: Any) -> dict[str, Any]:
    return {"tool_id": tool, "input": {"text": "x"}, **more}


@pytest.mark.parametrize("path", LISTS)
def test_a_list_holds_only_what_may_be_called(path: str) -> None:
    async def scene(made: Scene) -> None:
        listed = {role: (await made.send(role, "GET", path)).body for role in ("owner", "neighbour", "foreigner")}
        assert b"Keep" in listed["owner"]
        assert b"Give" in listed["owner"]
        assert b"Keep" not in listed["neighbour"], "it is seen, and cannot be called"
        assert b"Give" in listed["foreigner"]
        assert b"Keep" not in listed["foreigner"]

    run(scene)


def test_mcp_lists_the_same() -> None:
    async def scene(made: Scene) -> None:
        for role, names in (("owner", {"Safe_Keep", "Safe_Give", "Safe_Ask"}), ("foreigner", {"Safe_Give"})):
            newer = await made.newer(role, "tools/list", {})
            older = await made.older(role, "tools/list", {}, await made.opened(role))
            for reply in (newer, older):
                assert {tool["name"] for tool in reply.json["result"]["tools"]} == names

    run(scene)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tools/call", call("Safe.Keep")),
        ("/tools/call", call("Safe.Keep@0.1.0")),
        ("/tools/call", {"$schema": "otc://1.0", "request": call("Safe.Keep")}),
        ("/otc/draft/call", {"request": call("Safe.Keep@latest")}),
    ],
)
def test_a_hidden_tool_is_answered_like_one_that_is_not_there(path: str, body: dict[str, Any]) -> None:
    async def scene(made: Scene) -> None:
        hidden = await made.send("foreigner", "POST", path, body)
        missing = await made.send("foreigner", "POST", path, json.loads(json.dumps(body).replace("Keep", "Miss")))
        assert hidden.status == missing.status == 400
        assert hidden.masked("Keep") == missing.masked("Miss")

    run(scene)


def test_mcp_too_and_its_headers() -> None:
    async def scene(made: Scene) -> None:
        answers = []
        for name in ("Safe_Keep", "Safe_Miss"):
            params = {"name": name, "arguments": {"text": "x"}}
            newer = await made.newer("foreigner", "tools/call", params, name)
            older = await made.older("foreigner", "tools/call", params, await made.opened("foreigner"))
            answers.append([reply.masked(name) for reply in (newer, older)])
        assert answers[0] == answers[1]

    run(scene)


def test_a_session_may_bring_a_tool_of_a_hidden_ones_name() -> None:
    async def scene(made: Scene) -> None:
        tool = {"name": "Safe_Keep", "description": "Mine.", "input_schema": {"type": "object"}}
        assert (await made.send("foreigner", "POST", "/v1/sessions", {"tools": [tool]})).status == 201
        assert (await made.send("owner", "POST", "/v1/sessions", {"tools": [tool]})).status == 422

    run(scene)


def test_lacking_scopes_are_named_exactly_on_every_wire() -> None:
    async def scene(made: Scene) -> None:
        params = {"name": "Safe_Keep", "arguments": {"text": "x"}}
        replies = [
            await made.send("neighbour", "POST", "/tools/call", call("Safe.Keep")),
            await made.send("neighbour", "POST", "/otc/draft/call", {"request": call("Safe.Keep")}),
            await made.newer("neighbour", "tools/call", params, "Safe_Keep"),
            await made.older("neighbour", "tools/call", params, await made.opened("neighbour")),
        ]
        for reply in replies:
            assert reply.status == 403
            challenge = dict(reply.headers)[b"www-authenticate"]
            assert challenge.startswith(b'Bearer error="insufficient_scope", scope="safe.write safe.read"')
        metadata = b'resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"'
        assert metadata in dict(replies[2].headers)[b"www-authenticate"]

    run(scene)


def test_a_refusal_takes_no_key() -> None:
    async def scene(made: Scene) -> None:
        assert (await made.send("neighbour", "POST", "/tools/call", call("Safe.Keep", call_id="k"))).status == 403
        assert await made.yard.store.get("acme", "bob", "k") is None

    run(scene)


@pytest.mark.parametrize(("trusted", "sees"), [(True, True), (False, False)])
def test_a_workers_word_counts_only_where_it_is_trusted(trusted: bool, sees: bool) -> None:
    async def scene(made: Scene) -> None:
        offer = {"tools": [{"id": "Far.Look", "input_schema": {"type": "object"}, "read_only": True, "tags": ["far"]}]}
        put = await made.send("owner", "PUT", "/v1/workers/robot", offer)
        assert put.status == (200 if sees else 403), "what these credentials do not see they do not offer"
        for path in LISTS:
            assert (b"Look" in (await made.send("owner", "GET", path)).body) is sees

    async def play() -> None:
        rules: list[dict[str, Any]] = [{"tools": ["#far"]}]
        yard = Yard([kit], settings(access=rules, workers=[{"trusted": trusted}]))
        async with Scene(yard) as made:
            await scene(made)

    asyncio.run(play())


def test_workers_offer_only_what_they_may_and_to_whom() -> None:
    async def scene(made: Scene) -> None:
        offer = {"tools": [{"id": "Far.Look", "input_schema": {"type": "object"}}]}
        assert (await made.send("neighbour", "PUT", "/v1/workers/robot", offer)).status == 403
        assert (await made.send("owner", "PUT", "/v1/workers/robot", offer)).status == 200
        assert b"Far.Look" in (await made.send("foreigner", "GET", "/tools")).body

    async def play() -> None:
        rules = [{"who": {"subject": "ada", "tenant": "acme"}, "tools": "Far.*", "tenants": ["acme", "other"]}]
        async with Scene(Yard([kit], settings(workers=rules))) as made:
            await scene(made)

    asyncio.run(play())
