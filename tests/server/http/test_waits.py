"""Whatever waits ends with the credentials that it was asked for with: refused as a new request would be, and nothing
is claimed or shown any more. What was begun meanwhile is kept for whoever comes with others."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.lazy import load
from toolyard.model.api_key import ApiKey
from toolyard.model.sealed import WhichSecret
from toolyard.server.app.compose import Yard
from toolyard.trust.access.access import CallerPattern, Rule
from toolyard.trust.requirements.secrets import HeldSecrets

from ..asking import run
from ..scene import CANARY, OLDER, SECRET, Answer, Scene, settings

WAITER = "waiter"
"""Who has the credentials that end; the owner is the same caller, with others that stay."""
AS = {b"toolyard-worker": b"robot"}
JSON_ALONE = {b"accept": b"application/json"}
WAIT_S = 60
SHORT_S = 1.0

kit = Toolkit("Slow")
gates: dict[str, asyncio.Event] = {}
ran: list[str] = []


@kit.tool(task="optional")
async def tell(name: str) -> str:
    """Tells something once it may."""
    await gates.setdefault(name, asyncio.Event()).wait()
    return CANARY


@kit.tool(concurrency=1)
async def alone(name: str) -> str:
    """Runs when no other does."""
    ran.append(name)
    await gates.setdefault("alone", asyncio.Event()).wait()
    return CANARY


@kit.tool(approval="always", task="optional")
async def pay(name: str) -> str:
    """Pays."""
    return CANARY


class Waiting:
    """A request that waits, and what makes an end of that."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], come: Callable[[], Awaitable[Any]]) -> None:
        self.ask, self.come = ask, come


Prepare = Callable[[Scene, str], Awaitable[Waiting]]


async def call(made: Scene, tool: str, input: dict[str, Any], key: str, role: str = "owner") -> Answer:
    return await made.send(role, "POST", "/tools/call", {"tool_id": tool, "call_id": key, "input": input})


async def claim(made: Scene, name: str) -> Waiting:
    """The call needs a secret, which its worker is given in clear."""
    needs = {"secrets": [{"id": "SMS_KEY"}]}
    tool = {"id": "Far.Send", "input_schema": {"type": "object"}, "requirements": needs}
    await HeldSecrets(made.yard._vault, lambda: 100.0).put(WhichSecret("SMS_KEY", "acme"), CANARY, ("Far.*",))
    assert (await made.send("owner", "PUT", "/v1/workers/robot", {"tools": [tool]})).status == 200

    async def come() -> None:
        under_way(made, call(made, "Far.Send", {}, name, "neighbour"))

    body = {"tools": ["*"], "wait": WAIT_S}
    return Waiting(lambda: made.send(WAITER, "POST", "/v1/tools/claim", body, AS), come)


async def requests(made: Scene, name: str) -> Waiting:
    waiting = await claim(made, name)

    async def come() -> None:
        under_way(made, call(made, "Far.Send", {"canary": CANARY}, name, "neighbour"))

    waiting.ask = lambda: made.send(WAITER, "GET", f"/v1/tools/requests?wait={WAIT_S}", None, AS)
    waiting.come = come
    return waiting


async def shown(made: Scene, name: str) -> Waiting:
    await _running(made, name)
    return Waiting(lambda: made.send(WAITER, "GET", f"/v1/calls/{name}?wait={WAIT_S}"), lambda: _end(name))


async def joined(made: Scene, name: str) -> Waiting:
    await _running(made, name)
    return Waiting(lambda: call(made, "Slow.Tell", {"name": name}, name, WAITER), lambda: _end(name))


async def found(made: Scene, name: str) -> Waiting:
    """The first who comes here for a call that was begun elsewhere, and waits for a worker."""
    tool = {"id": "Far.Send", "input_schema": {"type": "object"}}
    await made.send("owner", "PUT", "/v1/workers/robot", {"tools": [tool]})
    params = {"name": "Far_Send", "arguments": {}, "_meta": {"toolyard/callId": name}}
    session = await made.opened("owner")
    begun = await made.older("owner", "tools/call", {**params, "task": {"ttl": 60000}}, session)
    assert begun.json["result"]["task"], begun
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {b"mcp-protocol-version": OLDER.encode(), b"mcp-session-id": session.encode(), **JSON_ALONE}

    async def come() -> None:
        (claim,) = (await made.send("owner", "POST", "/v1/tools/claim", {}, AS)).json["claims"]
        path = f"/v1/tools/response/{claim['sessionId']}/{claim['requestId']}"
        await made.send("owner", "POST", path, {"response": {"state": "COMPLETE", "value": CANARY}}, AS)

    return Waiting(lambda: made.send(WAITER, "POST", "/mcp", body, headers), come)


async def results(made: Scene, name: str) -> Waiting:
    session = (await made.send("owner", "POST", "/v1/sessions", {"tools": []})).json["sessionId"]
    use = {"type": "tool_use", "id": name, "name": "Slow_Tell", "input": {"name": name}}
    at = f"/v1/sessions/{session}"
    await made.send("owner", "POST", f"{at}/messages", {"role": "assistant", "content": [use]})
    return Waiting(lambda: made.send(WAITER, "GET", f"{at}/results?wait={WAIT_S}"), lambda: _end(name))


async def task_result(made: Scene, name: str) -> Waiting:
    session = await made.opened("owner")
    params = {"name": "Slow_Tell", "arguments": {"name": name}, "task": {"ttl": 60000}}
    task = (await made.older("owner", "tools/call", params, session)).json["result"]["task"]["taskId"]
    return Waiting(lambda: made.older(WAITER, "tasks/result", {"taskId": task}, session), lambda: _end(name))


async def task_decided(made: Scene, name: str) -> Waiting:
    params = {"name": "Slow_Pay", "arguments": {"name": name}, "task": {"ttl": 60000}}
    session = await made.opened("owner")
    task = (await made.older("owner", "tools/call", params, session)).json["result"]["task"]["taskId"]

    async def get(role: str) -> Answer:
        return await made.newer(role, "tasks/get", {"taskId": task}, task)

    assert (await get("owner")).status == 200  # told once: asked again, it is held
    return Waiting(lambda: get(WAITER), lambda: _approve(made))


async def retried(made: Scene, name: str) -> Waiting:
    assert (await call(made, "Slow.Pay", {"name": name}, name)).status == 400
    return Waiting(lambda: call(made, "Slow.Pay", {"name": name}, name, WAITER), lambda: _approve(made))


async def retried_over_mcp(made: Scene, name: str) -> Waiting:
    params = {"name": "Slow_Pay", "arguments": {"name": name}}
    await made.newer("owner", "tools/call", params, "Slow_Pay")
    return Waiting(lambda: made.newer(WAITER, "tools/call", params, "Slow_Pay"), lambda: _approve(made))


async def in_line(made: Scene, name: str) -> Waiting:
    """For the one run that its tool may have at once."""
    await _occupied(made)
    call = {"tool_id": "Slow.Alone", "input": {"name": name}}
    return Waiting(lambda: made.send(WAITER, "POST", "/tools/call", call), _leave)


async def in_line_with_a_key(made: Scene, name: str) -> Waiting:
    await _occupied(made)
    return Waiting(lambda: call(made, "Slow.Alone", {"name": name}, name, WAITER), _leave)


async def in_line_over_mcp(made: Scene, name: str) -> Waiting:
    await _occupied(made)
    params = {"name": "Slow_Alone", "arguments": {"name": name}}
    return Waiting(lambda: made.newer(WAITER, "tools/call", params, "Slow_Alone"), _leave)


async def in_line_over_older_mcp(made: Scene, name: str) -> Waiting:
    await _occupied(made)
    params, session = {"name": "Slow_Alone", "arguments": {"name": name}}, await made.opened("owner")
    return Waiting(lambda: made.older(WAITER, "tools/call", params, session), _leave)


IN_LINE = [in_line, in_line_with_a_key, in_line_over_mcp, in_line_over_older_mcp]
WAITS = pytest.mark.parametrize(
    "prepare",
    [claim, requests, shown, joined, found, results, task_result, task_decided, retried, retried_over_mcp, *IN_LINE],
)


async def _occupied(made: Scene) -> None:
    ran.clear()
    gates.pop("alone", None)
    under_way(made, call(made, "Slow.Alone", {"name": "first"}, "first"))
    await until(lambda: ran == ["first"])


async def _leave() -> None:
    gates["alone"].set()


async def _running(made: Scene, name: str) -> None:
    under_way(made, call(made, "Slow.Tell", {"name": name}, name))
    await until(lambda: name in gates)


async def _end(name: str) -> None:
    gates[name].set()


async def _approve(made: Scene) -> None:
    (waiting,) = (await made.send("operator", "GET", "/v1/admin/approvals")).json["approvals"]
    path = f"/v1/admin/approvals/{waiting['id']}/approve"
    assert (await made.send("operator", "POST", path, {})).status == 200


def under_way(made: Scene, asking: Awaitable[Answer]) -> None:
    made.handling.append(asyncio.ensure_future(asking))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def opened(made: Scene, ask: Callable[[], Awaitable[Answer]]) -> "asyncio.Future[Answer]":
    """Once it waits: its credentials are watched."""
    asking = asyncio.ensure_future(ask())
    await until(lambda: asking.done() or bool(made.yard._validity._watched))
    assert not asking.done(), asking.result()
    return asking


async def put_key(made: Scene) -> None:
    key = "ty_" + secrets.token_hex(20)
    await made.yard.store.api_keys.put(ApiKey("mortal", sha256(key.encode()).digest(), "acme", "ada"))
    await made.yard._keys.sync()
    made.credentials[WAITER] = {b"authorization": b"Bearer " + key.encode()}


async def revoke(made: Scene) -> None:
    await made.yard.store.api_keys.revoke("mortal")
    await made.yard._keys.sync()


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def played() -> None:
        rules = [{"who": {"subject": "ada", "tenant": "acme"}, "trusted": True}]
        async with Scene(Yard([kit], settings(workers=rules, sync_wait_s=WAIT_S))) as made:
            operator = made.yard.operators_token.text
            made.credentials["operator"] = {b"authorization": b"Bearer " + operator.encode()}
            await story(made)
            for gate in gates.values():
                gate.set()

    run(played)


@WAITS
def test_who_waits_is_refused_once_the_key_is_revoked(prepare: Prepare) -> None:
    async def story(made: Scene) -> None:
        name = secrets.token_hex(8)
        await put_key(made)
        waiting = await prepare(made, name)
        asking = await opened(made, waiting.ask)
        await revoke(made)
        await waiting.come()
        answer = await asking
        anew = await waiting.ask()
        assert (answer.status, anew.status) == (401, 401), answer
        assert answer.masked() == anew.masked(), "the refusal that a new request gets"
        assert CANARY.encode() not in answer.body

    play(story)


@WAITS
def test_who_waits_is_refused_once_the_token_expires(prepare: Prepare) -> None:
    async def story(made: Scene) -> None:
        name = secrets.token_hex(8)
        waiting = await prepare(made, name)
        claims = {"sub": "ada", "tenant": "acme", "exp": time.time() + SHORT_S}
        made.credentials[WAITER] = {b"authorization": b"Bearer " + load("signed_token")(claims, SECRET).encode()}
        answer = await (await opened(made, waiting.ask))
        assert answer.status == 401, answer
        assert answer.masked() == (await waiting.ask()).masked()

    play(story)


@pytest.mark.parametrize(
    "prepare", [shown, joined, found, results, task_result, task_decided, retried, retried_over_mcp]
)
def test_who_waits_is_told_no_more_than_new_rules_give_it(prepare: Prepare) -> None:
    """Where a tool was taken away from the caller, its result is told to nobody who did not make the call."""

    async def story(made: Scene) -> None:
        name = secrets.token_hex(8)
        await put_key(made)
        waiting = await prepare(made, name)
        asking = await opened(made, waiting.ask)
        made.yard.access.adopt([Rule(who=CallerPattern(key=("mortal",)), allow=False), Rule()], ())
        await waiting.come()
        answer, anew = await asking, await waiting.ask()
        assert CANARY.encode() not in answer.body, answer
        assert answer.status == anew.status, (answer, anew)

    play(story)


@pytest.mark.parametrize("prepare", IN_LINE)
def test_what_stood_in_line_does_not_begin_once_the_key_is_revoked(prepare: Prepare) -> None:
    async def story(made: Scene) -> None:
        await put_key(made)
        waiting = await prepare(made, "second")
        asking = await opened(made, waiting.ask)
        await revoke(made)
        assert (await asking).status == 401
        await waiting.come()
        assert (await call(made, "Slow.Alone", {"name": "third"}, "third")).json["value"] == CANARY
        assert ran == ["first", "third"], "the place is another's"

    play(story)


def test_who_joined_a_call_in_line_makes_it_where_the_first_may_not_any_more() -> None:
    async def story(made: Scene) -> None:
        await put_key(made)
        waiting = await in_line_with_a_key(made, "second")
        asking = await opened(made, waiting.ask)
        under_way(made, joining := asyncio.ensure_future(call(made, "Slow.Alone", {"name": "second"}, "second")))
        await until(lambda: len(made.yard._validity._watched) == 2)
        await revoke(made)
        assert (await asking).status == 401
        assert ran == ["first"]
        await waiting.come()
        assert (await joining).json["value"] == CANARY
        assert ran == ["first", "second"]

    play(story)


def test_what_somebody_without_credentials_did_not_claim_another_claims() -> None:
    """At once: it is not left to a lease that has to end first."""

    async def story(made: Scene) -> None:
        await put_key(made)
        waiting = await claim(made, "first")
        asking = await opened(made, waiting.ask)
        await revoke(made)
        await waiting.come()
        assert (await asking).status == 401
        claimed = (await made.send("owner", "POST", "/v1/tools/claim", {"wait": WAIT_S}, AS)).json["claims"]
        assert [each["attempt"] for each in claimed] == [1], "nobody had it before"

    play(story)


def test_what_was_claimed_just_when_the_key_was_revoked_goes_back() -> None:
    async def story(made: Scene) -> None:
        await put_key(made)
        waiting = await claim(made, "first")
        store = made.yard.store
        taken = store.claim

        async def revoked_meanwhile(*wanted: Any) -> Any:
            found = await taken(*wanted)
            if found:
                store.claim = taken  # type: ignore[method-assign]
                await revoke(made)
            return found

        store.claim = revoked_meanwhile  # type: ignore[assignment, method-assign]
        asking = await opened(made, waiting.ask)
        await waiting.come()
        answer = await asking
        assert (answer.status, CANARY.encode() in answer.body) == (401, False)
        claimed = (await made.send("owner", "POST", "/v1/tools/claim", {"wait": WAIT_S}, AS)).json["claims"]
        assert [each["context"]["secrets"][0]["value"] for each in claimed] == [CANARY]

    play(story)


def test_a_call_that_was_made_before_is_answered_whole() -> None:
    """It ran for this request: to refuse it now would have its client make it again."""

    async def story(made: Scene) -> None:
        await put_key(made)
        asking = asyncio.ensure_future(call(made, "Slow.Tell", {"name": "whole"}, "whole", WAITER))
        await until(lambda: "whole" in gates)
        await revoke(made)
        gates["whole"].set()
        answer = await asking
        assert (answer.status, answer.json["value"]) == (200, CANARY)

    play(story)


def test_an_ended_wait_is_forgotten() -> None:
    """Nothing is watched for a request that has its answer."""

    async def story(made: Scene) -> None:
        await put_key(made)
        waiting = await shown(made, "forgotten")
        asking = await opened(made, waiting.ask)
        assert made.yard._validity._watched
        await waiting.come()
        assert (await asking).json["state"] == "COMPLETE"
        assert not made.yard._validity._watched

    play(story)
