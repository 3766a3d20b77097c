"""Several messages in one body, which 2025-03-26 allows: each has its own answer, and none begins for somebody who has
left or has no credentials any more."""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from toolyard import Toolkit
from toolyard.lazy import load
from toolyard.model.api_key import ApiKey
from toolyard.model.caller import Caller
from toolyard.server.app.compose import Yard
from toolyard.server.mcp.transports.older_http import MOST_TOLD_TOGETHER
from toolyard.store.values import StoreDown

from ..asking import Asked, run
from ..scene import SECRET, Answer, Scene, settings

VERSION = {b"mcp-protocol-version": b"2025-03-26", b"accept": b"application/json, text/event-stream"}
RULES = [{"tools": ["Kit.Guarded"], "scopes": ["guard"]}, {}]
SHORT_S = 1.0


class Play:
    """A server, what has run on it, and the gates that its tools wait at."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        kit = Toolkit("Kit")

        async def wait(name: str) -> str:
            """Waits at its gate."""
            self.ran.append(name)
            await self.gate(name).wait()
            self.ran.append(f"{name} ended")
            return name

        kit.tool(name="Wait")(wait)
        kit.tool(name="Alone", concurrency=1)(wait)
        kit.tool(name="GoesOn", on_disconnect="continue")(wait)
        kit.tool(name="Guarded")(wait)

        @kit.tool(name="Long")
        async def long() -> str:
            return "x" * (MOST_TOLD_TOGETHER // 2)

        self.made = Scene(Yard([kit], settings(access=RULES)))

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def until_it_runs(self, name: str) -> None:
        while name not in self.ran:
            await asyncio.sleep(0)

    async def send(self, batch: list[Any], role: str = "owner", **headers: str) -> Answer:
        more = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        return await self.made.send(role, "POST", "/mcp", batch, VERSION | more)

    def asked(self, batch: list[Any]) -> Asked:
        """By a client that can leave."""
        headers = {b"host": b"localhost", b"content-type": b"application/json", **self.made.credentials["owner"]}
        body = json.dumps(batch).encode()
        return Asked(self.made.yard.asgi, "/mcp", "POST", headers=headers | VERSION, body=body)

    async def put_key(self) -> None:
        """Of the owner, and able to be revoked."""
        key = "ty_" + secrets.token_hex(20)
        await self.made.yard.store.api_keys.put(ApiKey("mortal", sha256(key.encode()).digest(), "acme", "ada"))
        await self.made.yard._keys.sync()
        self.made.credentials["mortal"] = {b"authorization": b"Bearer " + key.encode()}

    async def revoke(self) -> None:
        await self.made.yard.store.api_keys.revoke("mortal")
        await self.made.yard._keys.sync()


def play(story: Callable[[Play], Awaitable[None]]) -> None:
    async def on_stage() -> None:
        played = Play()
        async with played.made:
            await story(played)

    run(on_stage)


def call(name: str, tool: str = "Kit_Wait", **meta: str) -> dict[str, Any]:
    params = {"name": tool, "arguments": {"name": name}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}


def ping(id: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


# --- each its own answer -------------------------------------------------------------------------


def test_a_call_that_is_refused_does_not_spoil_the_others() -> None:
    async def story(played: Play) -> None:
        refused = call("b", "Kit_Guarded")
        alone = await played.made.send("owner", "POST", "/mcp", refused, VERSION)
        for name in "ac":
            played.gate(name).set()
        reply = await played.send([call("a"), refused, call("c")])
        first, second, third = reply.json
        assert (reply.status, alone.status) == (200, 403)
        assert second == alone.json, "what it is told alone"
        assert [each["result"]["content"][0]["text"] for each in (first, third)] == ["a", "c"]
        assert played.ran == ["a", "a ended", "c", "c ended"]

    play(story)


def test_a_message_that_the_ledger_fails_does_not_spoil_the_others() -> None:
    async def story(played: Play) -> None:
        hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        opened = await played.made.send("owner", "POST", "/mcp", first, VERSION)
        session = dict(opened.headers)[b"mcp-session-id"].decode()

        async def down(*_: Any) -> None:
            raise StoreDown("The ledger is away", retry_after_ms=1)

        played.made.yard.store.put_note = down  # type: ignore[assignment, method-assign]
        level = {"jsonrpc": "2.0", "id": "b", "method": "logging/setLevel", "params": {"level": "error"}}
        reply = await played.send([ping("a"), level, ping("c")], mcp_session_id=session)
        assert reply.status == 200
        assert [(each["id"], "error" in each) for each in reply.json] == [("a", False), ("b", True), ("c", False)]

    play(story)


def test_answers_that_are_too_large_together_end_a_batch_and_nothing_more_of_it_begins() -> None:
    async def story(played: Play) -> None:
        made = {"name": "Kit_Long", "arguments": {}, "_meta": {"toolyard/callId": "long"}}
        await played.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": made}])
        played.gate("last").set()
        uri = {"uri": "toolyard://calls/long/content"}
        first, second, third = ({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": uri} for id in "abc")
        noticed = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}}
        reply = await played.send([first, second, noticed, third, call("last")])
        told = {each["id"]: each for each in reply.json}
        assert {id: "result" in each for id, each in told.items()} == {"a": True, "b": True, "c": False, "last": False}
        assert "send it by itself" in told["c"]["error"]["message"]
        assert played.ran == []
        (again,) = (await played.send([call("last")])).json
        assert "result" in again

    play(story)


# --- credentials that end ------------------------------------------------------------------------


def test_what_has_not_begun_when_the_key_is_revoked_does_not_begin() -> None:
    async def story(played: Play) -> None:
        await played.put_key()
        batch = [call("a", **{"toolyard/callId": "first"}), call("b"), ping("c")]
        asking = asyncio.ensure_future(played.send(batch, "mortal"))
        await played.until_it_runs("a")
        await played.revoke()
        played.gate("a").set()
        answer, anew = await asking, await played.send(batch, "mortal")
        assert answer.status == 401
        assert answer.masked() == anew.masked(), "the refusal that a new request gets"
        assert played.ran == ["a", "a ended"]
        row = await played.made.yard.store.get("acme", "ada", "first")
        assert row is not None
        assert row.state.name == "COMPLETE", "what has run is kept for whoever comes with other credentials"

    play(story)


def test_what_has_not_begun_when_the_token_expires_does_not_begin() -> None:
    async def story(played: Play) -> None:
        expires = time.time() + SHORT_S
        claims = {"sub": "ada", "tenant": "acme", "exp": expires}
        played.made.credentials["mortal"] = {
            b"authorization": b"Bearer " + load("signed_token")(claims, SECRET).encode()
        }
        asking = asyncio.ensure_future(played.send([call("a"), call("b")], "mortal"))
        await played.until_it_runs("a")
        caller, over = Caller("acme", "ada", expires=expires), asyncio.Event()
        played.made.yard._validity.watch(caller, over.set)
        await over.wait()
        played.gate("a").set()
        assert (await asking).status == 401
        assert played.ran == ["a", "a ended"]

    play(story)


def test_what_stands_in_line_when_the_key_is_revoked_does_not_begin() -> None:
    async def story(played: Play) -> None:
        await played.put_key()
        occupying = asyncio.ensure_future(played.send([call("first", "Kit_Alone")]))
        await played.until_it_runs("first")
        asking = asyncio.ensure_future(played.send([call("a", "Kit_Alone")], "mortal"))
        while not any(each.caller.digest for each in played.made.yard._validity._watched):
            await asyncio.sleep(0)
        await played.revoke()
        assert (await asking).status == 401
        played.gate("first").set()
        assert (await occupying).status == 200
        assert played.ran == ["first", "first ended"]

    play(story)


def test_a_batch_that_has_all_begun_is_answered_whole() -> None:
    """It ran for this request: to refuse it now would have its client make it again."""

    async def story(played: Play) -> None:
        await played.put_key()
        played.gate("a").set()
        asking = asyncio.ensure_future(played.send([call("a"), call("b")], "mortal"))
        await played.until_it_runs("b")
        await played.revoke()
        played.gate("b").set()
        answer = await asking
        assert (answer.status, [each["id"] for each in answer.json]) == (200, ["a", "b"])

    play(story)


# --- clients that leave --------------------------------------------------------------------------


def test_what_has_not_begun_when_the_client_leaves_does_not_begin() -> None:
    async def story(played: Play) -> None:
        asked = played.asked([call("a"), call("b"), call("c")])
        await played.until_it_runs("a")
        asked.leave()
        await asked.end()
        assert (played.ran, asked.sent) == (["a"], [])

    play(story)


def test_a_call_that_goes_on_without_its_client_is_not_stopped_by_the_one_before() -> None:
    async def story(played: Play) -> None:
        asked = played.asked([call("a"), call("b", "Kit_GoesOn"), call("c")])
        await played.until_it_runs("a")
        played.gate("a").set()
        await played.until_it_runs("b")
        asked.leave()
        await asked.has_heard.wait()
        await asyncio.sleep(0)  # whoever is told is told on the loop's next turn
        played.gate("b").set()
        await asked.end()
        assert played.ran == ["a", "a ended", "b", "b ended"]

    play(story)
