"""Callers are walls: what another caller owns looks exactly like what does not exist, on every route and method.

The matrix is made from the route table and the dispatcher's methods: a new one without a row here is a failure.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard.server.app.compose import Yard
from toolyard.server.http.routes import Route
from toolyard.server.mcp.protocol.eras import SETTINGS

from .scene import CANARY, OUTSIDERS, STRANGERS, Answer, Ask, Owned, Scene, kit, settings


def plain(method: str, path: Callable[[Owned], str], body: object = None) -> Ask:
    async def ask(scene: Scene, role: str, whose: Owned) -> Answer:
        return await scene.send(role, method, path(whose), body)

    return ask


def newer(method: str, params: Callable[[Owned], dict[str, object]], name: Callable[[Owned], str | None]) -> Ask:
    async def ask(scene: Scene, role: str, whose: Owned) -> Answer:
        return await scene.newer(role, method, params(whose), name(whose))

    return ask


def older(method: str, params: Callable[[Owned], dict[str, object]], *, in_session: bool = False) -> Ask:
    """`in_session`: in the session that is asked about; else in one of the caller's own."""

    async def ask(scene: Scene, role: str, whose: Owned) -> Answer:
        session = whose.mcp_session if in_session else ""
        return await scene.older(role, method, params(whose), session)

    return ask


def with_session(method: str) -> Ask:
    async def ask(scene: Scene, role: str, whose: Owned) -> Answer:
        headers = {b"mcp-session-id": whose.mcp_session.encode(), b"mcp-protocol-version": b"2025-11-25"}
        return await scene.send(role, method, "/mcp", None, headers)

    return ask


async def taken_up(scene: Scene, role: str, whose: Owned) -> Answer:
    """A stream that broke off, in a session of the caller's own, but for the owner."""
    session = await scene.opened(role) if role in STRANGERS else whose.mcp_session
    headers = {b"mcp-session-id": session.encode(), b"last-event-id": whose.event.encode()}
    return await scene.send(role, "GET", "/mcp/", None, headers)


CALL = {"tool_id": "Safe.Keep", "call_id": "owned-call", "input": {"text": "mine"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t-9", "name": "find", "input": {}}]}
OFFER = {"tools": [{"id": "Near.Look", "input_schema": {"type": "object"}}]}
AT = "/v1/tools/request/{}/{}"


def at(end: str = "") -> Callable[[Owned], str]:
    return lambda whose: AT.format(whose.session, whose.request) + end


ABOUT: dict[tuple[str, str], Ask] = {
    ("GET", "/v1/calls/{call_id}"): plain("GET", lambda whose: f"/v1/calls/{whose.call}"),
    ("GET", "/v1/calls/{call_id}/content"): plain("GET", lambda whose: f"/v1/calls/{whose.call}/content"),
    ("POST", "/v1/calls/{call_id}/cancel"): plain("POST", lambda whose: f"/v1/calls/{whose.asking}/cancel"),
    ("GET", "/v1/sessions/{sessionId}"): plain("GET", lambda whose: f"/v1/sessions/{whose.session}"),
    ("GET", "/v1/sessions/{sessionId}/events"): plain("GET", lambda whose: f"/v1/sessions/{whose.session}/events"),
    ("GET", "/v1/sessions/{sessionId}/results"): plain("GET", lambda whose: f"/v1/sessions/{whose.session}/results"),
    ("POST", "/v1/sessions/{sessionId}/messages"): plain(
        "POST", lambda whose: f"/v1/sessions/{whose.session}/messages", USE
    ),
    ("GET", AT.format("{sessionId}", "{requestId}")): plain("GET", at()),
    ("POST", AT.format("{sessionId}", "{requestId}") + "/cancel"): plain("POST", at("/cancel")),
    ("POST", AT.format("{sessionId}", "{requestId}") + "/heartbeat"): plain(
        "POST", at("/heartbeat"), {"state": "PROCESSING", "heartbeat": 0.5}
    ),
    ("POST", AT.format("{sessionId}", "{requestId}") + "/release"): plain("POST", at("/release")),
    ("POST", "/v1/tools/response/{sessionId}/{requestId}"): plain(
        "POST",
        lambda whose: f"/v1/tools/response/{whose.session}/{whose.request}",
        {"response": {"state": "COMPLETE", "result": "stolen"}},
    ),
    ("DELETE", "/v1/workers/{name}"): plain("DELETE", lambda whose: f"/v1/workers/{whose.worker}"),
    ("POST", "/v1/workers/{name}/heartbeat"): plain("POST", lambda whose: f"/v1/workers/{whose.worker}/heartbeat"),
    ("GET", "/mcp"): with_session("GET"),
    ("DELETE", "/mcp"): with_session("DELETE"),
    ("GET", "/mcp/"): taken_up,
    ("DELETE", "/mcp/"): with_session("DELETE"),
}
"""Routes that are about something that somebody owns."""

NAMELESS: dict[tuple[str, str], Ask] = {
    **{("GET", path): plain("GET", lambda whose, path=path: path) for path in (  # type: ignore[misc]
        "/tools", "/oxp/tools", "/otc/tools", "/otc/draft/tools", "/v1/calls", "/v1/tools/requests")},
    **{("POST", path): plain("POST", lambda whose, path=path: path, CALL) for path in (  # type: ignore[misc]
        "/tools/call", "/call", "/oxp/tools/call", "/oxp/call", "/otc/tools/call", "/otc/call")},
    **{("POST", path): plain("POST", lambda whose, path=path: path, {"request": CALL}) for path in (  # type: ignore[misc]
        "/otc/draft/tools/call", "/otc/draft/call")},
    ("GET", "/v1/approvals"): plain("GET", lambda whose: "/v1/approvals"),
    ("POST", "/v1/approvals/{id}/approve"): plain("POST", lambda whose: "/v1/approvals/1-A/approve", {}),
    ("POST", "/v1/approvals/{id}/reject"): plain("POST", lambda whose: "/v1/approvals/1-A/reject", {}),
    ("GET", "/metrics"): plain("GET", lambda whose: "/metrics"),
    ("POST", "/v1/sessions"): plain("POST", lambda whose: "/v1/sessions", {}),
    ("POST", "/v1/tools/claim"): plain("POST", lambda whose: "/v1/tools/claim", {}),
    ("POST", "/v1/tools/heartbeats"): plain("POST", lambda whose: "/v1/tools/heartbeats", {"requests": []}),
    ("PUT", "/v1/workers/{name}"): plain("PUT", lambda whose: "/v1/workers/own", OFFER),
    ("POST", "/mcp"): older("tools/list", lambda whose: {}),
    ("POST", "/mcp/"): older("tools/list", lambda whose: {}),
}  # fmt: skip
"""Routes that are about the caller's own things alone."""

NONE: Callable[[Owned], None] = lambda whose: None  # noqa: E731
TASK: Callable[[Owned], dict[str, object]] = lambda whose: {"taskId": whose.task}  # noqa: E731
RESULT: Callable[[Owned], dict[str, Any]] = lambda whose: {"uri": f"toolyard://calls/{whose.call}/content"}  # noqa: E731
PARKED: Callable[[Owned], dict[str, object]] = lambda whose: {"taskId": whose.asking}  # noqa: E731
MCP: dict[tuple[str, str], Ask] = {
    ("newer", "tools/call"): newer(
        "tools/call",
        lambda whose: {
            "name": "Safe_Ask",
            "arguments": {"text": CANARY},
            "requestState": whose.state,
            "inputResponses": {"who": {"action": "accept", "content": {"name": "Eve"}}},
        },
        lambda whose: "Safe_Ask",
    ),
    ("newer", "tasks/get"): newer("tasks/get", TASK, lambda whose: whose.task),
    ("newer", "tasks/cancel"): newer("tasks/cancel", PARKED, lambda whose: whose.asking),
    ("newer", "tasks/update"): newer(
        "tasks/update", lambda whose: {"taskId": whose.asking, "inputResponses": {}}, lambda whose: whose.asking
    ),
    ("newer", "resources/read"): newer("resources/read", lambda whose: {"uri": whose.uri}, lambda whose: whose.uri),
    ("newer", "resources/read of a result"): newer("resources/read", RESULT, lambda whose: RESULT(whose)["uri"]),
    ("newer", "subscriptions/listen"): newer(
        "subscriptions/listen", lambda whose: {"notifications": {"taskIds": [whose.task]}}, NONE
    ),
    ("older", "tools/call"): older(
        "tools/call", lambda whose: {"name": "Safe_Keep", "arguments": {"text": "x"}}, in_session=True
    ),
    ("older", "tasks/get"): older("tasks/get", TASK),
    ("older", "tasks/result"): older("tasks/result", TASK),
    ("older", "tasks/cancel"): older("tasks/cancel", PARKED),
    ("older", "resources/read"): older("resources/read", lambda whose: {"uri": whose.uri}),
    ("older", "resources/read of a result"): older("resources/read", RESULT),
    **{
        ("older", name): older(name, lambda whose: {"level": "info", "uri": "a:b"}, in_session=True)
        for name in sorted(SETTINGS)
    },
    ("older", "ping"): older("ping", lambda whose: {}, in_session=True),
    ("older", "tools/list"): older("tools/list", lambda whose: {}, in_session=True),
    ("older", "tasks/list"): older("tasks/list", lambda whose: {}, in_session=True),
}
"""Methods that are about something, or in a session, that somebody owns."""

MCP_NAMELESS: dict[tuple[str, str], Ask] = {
    ("newer", "tools/list"): newer("tools/list", lambda whose: {}, NONE),
    ("newer", "server/discover"): newer("server/discover", lambda whose: {}, NONE),
    ("older", "tasks/list, alone"): older("tasks/list", lambda whose: {}),
}


def routes() -> list[Route]:
    return Yard([kit], settings()).asgi._table.all()


def run(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def play() -> None:
        async with Scene() as made:
            await scene(made)

    asyncio.run(play())


def test_no_route_and_no_method_is_forgotten() -> None:
    for route in routes():
        if route.who == "caller":
            assert (route.method, route.path) in ABOUT.keys() | NAMELESS.keys(), "say what it is about"
    dispatcher = Yard([kit], settings()).mcp.dispatcher
    eras = {"2026-07-28": "newer", "2025-11-25": "older"}
    for revision, era in eras.items():
        for method in dispatcher._methods[revision]:
            assert (era, method) in MCP.keys() | MCP_NAMELESS.keys(), "say what it is about"


ROWS = {f"{method} {path}": ask for (method, path), ask in ABOUT.items()} | {
    f"{era} {method}": ask for (era, method), ask in MCP.items()
}
ALONE = {f"{method} {path}": ask for (method, path), ask in NAMELESS.items()} | {
    f"{era} {method}": ask for (era, method), ask in MCP_NAMELESS.items()
}


@pytest.mark.parametrize("row", ROWS)
def test_a_strangers_thing_and_nothing_look_alike(row: str) -> None:
    async def scene(made: Scene) -> None:
        owned = await made.furnish()
        nothing = made.nothing(owned)
        for role in STRANGERS:
            theirs, none = await ROWS[row](made, role, owned), await ROWS[row](made, role, nothing)
            assert CANARY.encode() not in theirs.body.replace(owned.uri.encode(), b"")
            assert theirs.masked(*owned.all()) == none.masked(*nothing.all())

    run(scene)


@pytest.mark.parametrize("row", ROWS)
def test_the_owner_gets_at_it(row: str) -> None:
    """Else the test before would prove nothing."""

    async def scene(made: Scene) -> None:
        owned = await made.furnish()
        mine, none = await ROWS[row](made, "owner", owned), await ROWS[row](made, "owner", made.nothing(owned))
        assert mine.masked(*owned.all()) != none.masked(*made.nothing(owned).all())

    run(scene)


@pytest.mark.parametrize("row", ALONE)
def test_what_is_not_about_anything_shows_nothing_of_others(row: str) -> None:
    async def scene(made: Scene) -> None:
        owned = await made.furnish()
        for role in STRANGERS:
            reply = await ALONE[row](made, role, owned)
            hidden = {CANARY, owned.session, owned.task, owned.asking}
            if role == "foreigner":
                hidden |= {"Far.Look", "Far_Look"}  # a worker's tool is its tenant's
            else:
                hidden -= {CANARY} if row.endswith(("tools", "tools/list", "/mcp", "/mcp/")) else set()
            assert not [name for name in hidden if name.encode() in reply.body]

    run(scene)


def test_who_is_not_admitted_learns_nothing() -> None:
    """On one server: nobody here changes anything."""

    async def scene(made: Scene) -> None:
        owned = await made.furnish()
        nothing = made.nothing(owned)
        for row, ask in (ROWS | ALONE).items():
            for role in OUTSIDERS:
                theirs, none = await ask(made, role, owned), await ask(made, role, nothing)
                assert theirs.status == 401, row
                assert (b"www-authenticate", b"Bearer") in theirs.headers, row
                assert theirs.masked(*owned.all()) == none.masked(*nothing.all()), row

    run(scene)


def test_what_is_the_operators_is_nobody_elses() -> None:
    async def scene(made: Scene) -> None:
        for route in routes():
            if route.who == "operator":
                path = route.path.replace("{call_id}", "owned-call").replace("{name}", "old")
                for role in made.credentials:
                    reply = await made.send(role, route.method, path, {} if route.reads_json else None)
                    assert reply.status == 401, path

    run(scene)


def test_two_callers_ids_never_meet() -> None:
    async def scene(made: Scene) -> None:
        for role in ("owner", *STRANGERS):
            call = {"tool_id": "Safe.Keep", "call_id": "the-same", "input": {"text": role}}
            assert (await made.send(role, "POST", "/tools/call", call)).json["value"] == role

    run(scene)
