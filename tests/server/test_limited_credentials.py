"""Credentials that are for other tools are no way to the calls of a tool, though they are the same caller's: its calls
look exactly like what does not exist, on every route and method that reaches one."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.model.api_key import ApiKey
from toolyard.model.caller import Caller, CurrentView, View
from toolyard.model.tool import Tool
from toolyard.server.app.compose import Yard
from toolyard.server.mcp.methods.subscriptions import Subscriber
from toolyard.server.mcp.transports import cancellation
from toolyard.wires.contract import Stream
from toolyard.wires.mcp.params import SubscriptionFilter

from .scene import CANARY, OLDER, Nobody, Scene, kit, settings
from .test_isolation import ROWS

OF_CALLS = [
    "GET /v1/calls/{call_id}", "GET /v1/calls/{call_id}/content", "POST /v1/calls/{call_id}/cancel", "GET /mcp/",
    "newer tools/call", "newer tasks/get", "newer tasks/cancel", "newer tasks/update", "newer resources/read",
    "newer resources/read of a result", "newer subscriptions/listen", "older tasks/get", "older tasks/result",
    "older tasks/cancel", "older resources/read", "older resources/read of a result",
]  # fmt: skip
"""The rows that are about calls of the server's tools, or what those gave out."""
PAID = [{"tools": "Safe.*", "scopes": ["paid"]}, {}]
"""Rules by which the tools of the scene need a scope."""


async def limited(made: Scene, *allow: str) -> None:
    """A key of the owner's, for some tools alone."""
    key = "ty_" + secrets.token_hex(20)
    await made.yard.store.api_keys.put(
        ApiKey(f"limited {key[-8:]}", sha256(key.encode()).digest(), "acme", "ada", allow)
    )
    await made.yard._keys.sync()
    made.credentials["limited"] = {b"authorization": b"Bearer " + key.encode()}


def run(story: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def play() -> None:
        async with Scene(Yard([kit], settings(**more))) as made:
            await story(made)

    asyncio.run(play())


@pytest.mark.parametrize("row", OF_CALLS)
def test_a_call_of_another_tool_and_nothing_look_alike(row: str) -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Far.*")
        owned = await made.furnish()
        nothing = made.nothing(owned)
        theirs, none = await ROWS[row](made, "limited", owned), await ROWS[row](made, "limited", nothing)
        if row == "GET /mcp/":  # in the very session, which is the caller's: nothing of the call is told in it
            assert theirs.body == b""
            return
        assert CANARY.encode() not in theirs.body.replace(owned.uri.encode(), b"")
        assert theirs.masked(*owned.all()) == none.masked(*nothing.all())
        call = await made.yard.store.get("acme", "ada", owned.asking)
        assert call is not None
        assert call.waiting_for == "answer", "neither answered nor cancelled"

    run(story)


@pytest.mark.parametrize("row", [row for row in OF_CALLS if row != "newer subscriptions/listen"])
def test_a_key_that_is_for_the_tools_is_the_same_caller(row: str) -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Safe.*")
        owned = await made.furnish()
        nothing = made.nothing(owned)
        mine, none = await ROWS[row](made, "limited", owned), await ROWS[row](made, "limited", nothing)
        assert mine.masked(*owned.all()) != none.masked(*nothing.all())

    run(story)


@pytest.mark.parametrize("row", OF_CALLS[:3])
def test_a_token_that_lacks_the_tools_scope_reaches_none_of_its_calls(row: str) -> None:
    async def story(made: Scene) -> None:
        made.credentials["limited"] = made.credentials["owner"]
        made.credentials["owner"] = made.bearer("acme", "ada", scope="paid")
        owned = await made.furnish()
        nothing = made.nothing(owned)
        theirs, none = await ROWS[row](made, "limited", owned), await ROWS[row](made, "limited", nothing)
        assert theirs.masked(*owned.all()) == none.masked(*nothing.all())

    run(story, access=PAID)


def test_lists_have_the_calls_of_its_tools_alone_and_as_many_as_are_wanted() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Safe.Keep")
        for number in range(6):
            for tool in ("Safe.Give", "Safe.Keep", "Safe.Give"):
                call = {"tool_id": tool, "call_id": f"{tool}{number}", "input": {"text": "x"}}
                assert (await made.send("owner", "POST", "/tools/call", call)).status == 200
        found, path = [], "/v1/calls?limit=4"
        while True:
            page = (await made.send("limited", "GET", path)).json
            found += [call["callId"] for call in page["calls"]]
            if "cursor" not in page:
                break
            assert len(page["calls"]) == 4
            path = f"/v1/calls?limit=4&cursor={page['cursor']}"
        assert found == [f"Safe.Keep{number}" for number in range(5, -1, -1)]
        for role, tasks in (("owner", 2), ("limited", 1)):
            if role == "owner":
                session = await made.opened("owner")
                for name in ("Safe_Keep", "Safe_Ask"):
                    asked = {"name": name, "arguments": {"text": "x"}, "task": {}}
                    await made.older("owner", "tools/call", asked, session)
            assert len((await made.older(role, "tasks/list", {})).json["result"]["tasks"]) == tasks

    run(story)


def test_of_two_calls_with_one_id_the_newest_that_is_its_own_is_meant() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Safe.Keep")
        call = {"tool_id": "Safe.Keep", "call_id": "twice", "input": {"text": "mine"}}
        assert (await made.send("owner", "POST", "/tools/call", call)).status == 200
        other = {"name": "Safe_Give", "arguments": {"text": CANARY}, "_meta": {"toolyard/callId": "twice"}}
        assert "result" in (await made.older("owner", "tools/call", other)).json
        shown = (await made.send("limited", "GET", "/v1/calls/twice")).json
        assert (shown["family"], shown.get("otherFamilies", [])) == ("oxp", [])
        assert (await made.send("limited", "GET", "/v1/calls/twice/content")).body == b"mine"

    run(story)


def test_a_session_tells_it_the_results_of_its_tools_and_of_the_sessions_own() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Safe.Keep")
        own = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
        session = (await made.send("owner", "POST", "/v1/sessions", {"tools": [own]})).json["sessionId"]
        uses = [("a", "Safe_Keep", "kept"), ("b", "Safe_Give", CANARY), ("c", "find", "found")]
        content = [{"type": "tool_use", "id": id, "name": name, "input": {"text": text}} for id, name, text in uses]
        message = {"role": "assistant", "content": content}
        taken = (await made.send("owner", "POST", f"/v1/sessions/{session}/messages", message)).json
        assert len(taken["requests"]) == 3
        done = {"response": {"state": "COMPLETE", "result": "done"}}
        assert (await made.send("limited", "POST", f"/v1/tools/response/{session}/c", done)).status == 200
        for role, ids in (("owner", ["a", "b", "c"]), ("limited", ["a", "c"])):
            results = await made.send(role, "GET", f"/v1/sessions/{session}/results?wait=5")
            assert [each["tool_use_id"] for each in results.json["message"]["content"]] == ids
            assert (CANARY.encode() in results.body) == (role == "owner")
        at = "/v1/tools/request/{}/{}"
        for method, end in (("GET", ""), ("POST", "/cancel")):
            hidden = await made.send("limited", method, at.format(session, "b") + end)
            assert hidden.masked() == (await made.send("limited", method, at.format(session, "x") + end)).masked()
            assert (await made.send("limited", method, at.format(session, "a") + end)).status == 200

    run(story)


BEAT = {"state": "PROCESSING", "heartbeat": 1}
FAILED = {"state": "ERROR", "error": "no"}
DONE = {"response": {"state": "COMPLETE", "value": 1}}


@pytest.mark.parametrize("said", [{}, {b"toolyard-worker": b"w", b"toolyard-attempt": b"1"}])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("request/{}/heartbeat", BEAT),
        ("request/{}/heartbeat", FAILED),
        ("request/{}/release", {}),
        ("request/{}/cancel", {}),
        ("response/{}", DONE),
    ],
)
def test_what_is_said_of_a_tool_use_of_another_tool_is_said_of_nothing(
    path: str, body: dict[str, Any], said: dict[bytes, bytes]
) -> None:
    """Whether it waits for a worker, or has ended."""

    async def story(made: Scene) -> None:
        await limited(made, "Safe.Keep")
        far = {"id": "Far.Do", "input_schema": {"type": "object"}}
        assert (await made.send("owner", "PUT", "/v1/workers/w", {"tools": [far]})).status == 200
        session = (await made.send("owner", "POST", "/v1/sessions", {})).json["sessionId"]
        uses = [("waits", "Far_Do", {}), ("ended", "Safe_Give", {"text": CANARY})]
        content = [{"type": "tool_use", "id": id, "name": name, "input": input} for id, name, input in uses]
        message = {"role": "assistant", "content": content}
        assert (await made.send("owner", "POST", f"/v1/sessions/{session}/messages", message)).status == 200
        for id in ("waits", "ended", "nothing"):
            answer = await made.send("limited", "POST", "/v1/tools/" + path.format(f"{session}/{id}"), body, said)
            assert (answer.status, answer.json["message"]) == (404, "There is no such request"), id

    run(story)


def test_a_stream_hears_of_the_tasks_of_its_tools_alone() -> None:
    """The older era tells all streams of a caller."""

    class Blind(View):
        def lists(self, tool: Tool) -> bool:
            return False

    async def story(made: Scene) -> None:
        heard: dict[str, asyncio.Queue[str]] = {"whole": asyncio.Queue(), "blind": asyncio.Queue()}

        def subscriber(name: str, view: View) -> Subscriber:
            def tell(method: str, params: dict[str, Any]) -> None:
                heard[name].put_nowait(params["status"])

            current = CurrentView(view)
            return Subscriber(SubscriptionFilter(), tell, Caller("acme", "ada", current=current), current)

        hearing = made.yard.mcp.subscriptions.hearing
        with hearing(subscriber("blind", Blind())), hearing(subscriber("whole", View())):
            asked = {"name": "Safe_Keep", "arguments": {"text": "x"}, "task": {}}
            await made.older("owner", "tools/call", asked, await made.opened("owner"))
            while await asyncio.wait_for(heard["whole"].get(), 10) != "completed":
                pass
        assert heard["blind"].empty()

    run(story)


# --- in a session that other credentials of the caller opened ------------------------------------

waits = Toolkit("Slow")
begun: dict[str, asyncio.Event] = {}


@waits.tool
async def hang(text: str) -> str:
    """Until somebody stops it."""
    begun[text].set()
    await asyncio.Event().wait()
    return text


@waits.tool(approval="always")
async def pay(text: str) -> str:
    """Pays, once a person agrees."""
    return text


def in_session(session: str) -> dict[bytes, bytes]:
    return {b"mcp-protocol-version": OLDER.encode(), b"mcp-session-id": session.encode()}


def play(story: Callable[..., Awaitable[None]], *stores: str, **more: Any) -> None:
    """With a node, or with as many as stores are named: they are one server, if it is the same store."""

    async def played() -> None:
        async with AsyncExitStack() as stack:
            given = [settings(store=store, secret_key=secrets_key, **more) for store in stores] or [settings(**more)]
            nodes = [await stack.enter_async_context(Scene(Yard([waits, kit], each))) for each in given]
            for node in nodes:
                node.credentials["owner"] = nodes[0].credentials["owner"]
            await asyncio.wait_for(story(*nodes), 60)

    secrets_key = "0123456789abcdef" * 4
    asyncio.run(played())


async def hanging(made: Scene, session: str, name: str) -> "asyncio.Task[Any]":
    begun[name] = asyncio.Event()
    asked = {"name": "Slow_Hang", "arguments": {"text": name}, "_meta": {"toolyard/callId": name}}
    task = asyncio.create_task(made.older("owner", "tools/call", asked, session))
    await asyncio.wait_for(begun[name].wait(), 10)
    return task


async def give_up(made: Scene, role: str, session: str) -> None:
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert (await made.send(role, "POST", "/mcp", notice, in_session(session))).status == 202


async def state_of(made: Scene, name: str) -> str:
    shown = await made.send("owner", "GET", f"/v1/calls/{name}?family=mcp")
    return str(shown.json["state"])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.02)


def test_a_request_is_given_up_by_credentials_that_are_for_its_tool_alone() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Safe.*")
        session = await made.opened("owner")
        await hanging(made, session, "one")
        await give_up(made, "limited", session)
        assert await state_of(made, "one") == "PROCESSING"
        await limited(made, "Slow.*")
        await give_up(made, "limited", session)
        await until(lambda: ends(made, "one"))

    play(story)


async def ends(made: Scene, name: str) -> bool:
    return await state_of(made, name) == "ERROR"


def test_nor_is_it_at_another_node(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "LOOK_S", 0.01)

    async def story(here: Scene, there: Scene) -> None:
        await limited(there, "Safe.*")
        session = await here.opened("owner")
        await hanging(here, session, "two")
        await give_up(there, "limited", session)
        await asyncio.gather(*there.yard._node._beside)
        assert await here.yard.store.note("mcp cancelled", "acme", "ada", f'["{session}",1]') is None
        assert await state_of(here, "two") == "PROCESSING"
        await give_up(there, "owner", session)
        await until(lambda: ends(here, "two"))

    play(story, postgres_url, postgres_url)


def test_a_session_is_ended_and_set_by_credentials_that_are_for_all_that_it_was_opened_for() -> None:
    async def story(made: Scene) -> None:
        session, absent = await made.opened("owner"), "none.none"
        await limited(made, "Safe.*")
        level, uri = {"level": "error"}, {"uri": "safe://x"}
        for method, params in (
            ("logging/setLevel", level),
            ("resources/subscribe", uri),
            ("resources/unsubscribe", uri),
        ):
            theirs, none = [await made.older("limited", method, params, each) for each in (session, absent)]
            assert theirs.masked() == none.masked(), method
            assert (await made.older("owner", method, params, session)).status == 200, method
        theirs, none = [
            await made.send("limited", "DELETE", "/mcp", None, in_session(each)) for each in (session, absent)
        ]
        assert theirs.masked() == none.masked()
        assert (await made.older("limited", "tools/list", {}, session)).status == 200, "it may use it all the same"
        assert (await made.send("owner", "DELETE", "/mcp", None, in_session(session))).status == 204
        own = await made.opened("limited")
        assert (await made.send("owner", "DELETE", "/mcp", None, in_session(own))).status == 204

    play(story)


def test_who_was_sent_to_a_person_is_told_only_where_the_credentials_are_for_the_tool() -> None:
    async def story(made: Scene) -> None:
        await limited(made, "Safe.*")
        hello = {"protocolVersion": OLDER, "capabilities": {"elicitation": {"url": {}}}, "clientInfo": {"name": "t"}}
        session = dict((await made.older("owner", "initialize", hello)).headers)[b"mcp-session-id"].decode()
        asked = {"name": "Slow_Pay", "arguments": {"text": "x"}}
        error = (await made.older("owner", "tools/call", asked, session)).json["error"]
        id = error["data"]["elicitations"][0]["elicitationId"]
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        theirs = asyncio.create_task(listen(made, "limited", session, heard))
        assert await heard.get() == b": changes\n\n"
        (call,) = await made.yard._decisions.approvals.waiting()
        await made.yard._decisions.approvals.decide(call, approved=True, by="a test")
        own: asyncio.Queue[bytes] = asyncio.Queue()
        mine = asyncio.create_task(listen(made, "owner", session, own))
        assert await own.get() == b": changes\n\n"
        assert id.encode() in await own.get(), "it is kept for who may hear it"
        assert heard.empty()
        for each in (theirs, mine):
            each.cancel()

    play(story)


async def listen(made: Scene, role: str, session: str, heard: "asyncio.Queue[bytes]") -> None:
    given = {b"host": b"localhost", **made.credentials[role], **in_session(session), b"accept": b"text/event-stream"}
    scope = {
        "type": "http", "method": "GET", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "root_path": "",
        "scheme": "http", "headers": list(given.items()), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    found = await made.yard.asgi.respond(scope, None, b"", Nobody())  # type: ignore[arg-type]
    assert isinstance(found, Stream)
    async for chunk in found.chunks:
        heard.put_nowait(chunk)
