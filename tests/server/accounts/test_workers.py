"""A worker's tool that needs an account: its call waits where its wire can wait, and the worker is given the token when
it claims the call, as fresh as it is then."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolyard.trust.credentials.jwks_cache import NoAnswer
from toolyard.trust.sealing.ring import KeyRing

from ...trust.credentials.identity_provider import Provider
from .stage import HERE, Scene
from .test_holding import connect, get, link_in, post, used
from .test_holding import play as play_with
from .test_meanwhile import AN_HOUR, asks_for_its_account, disconnect, has_account, result, token_of

NEEDS = {"authorization": [{"id": "idp", "oauth2": {"scopes": ["mail.read"]}}], "secrets": [], "user_id": False}
TOOL: dict[str, Any] = {"id": "Far.Read", "requirements": NEEDS, "input_schema": {"type": "object"}}


def play(story: Callable[[Scene], Awaitable[None]], provider: Provider, **settings: Any) -> None:
    """With workers that are trusted."""
    play_with(story, provider, **{"workers": [{"trusted": True}], **settings})


async def register(stage: Scene, **more: Any) -> None:
    reply = await stage._caller.put(f"{HERE}/v1/workers/w", json={"tools": [TOOL | more]})
    assert reply.status_code == 200, reply.text


async def claim(stage: Scene, wait: float = 0) -> list[dict[str, Any]]:
    claims: list[dict[str, Any]] = (await post(stage, "/v1/tools/claim", {"wait": wait}))["claims"]
    return claims


def token_in(claimed: dict[str, Any]) -> str:
    (given,) = claimed["context"]["authorization"]
    return str(given["token"])


async def respond(stage: Scene, claimed: dict[str, Any], value: Any) -> int:
    path = f"/v1/tools/response/{claimed['sessionId']}/{claimed['requestId']}"
    headers = {"toolyard-attempt": str(claimed["attempt"]), "toolyard-worker": "w"}
    body = {"response": {"state": "COMPLETE", "value": value}}
    status: int = (await stage._caller.post(HERE + path, json=body, headers=headers)).status_code
    return status


def test_its_call_waits_for_the_account_and_its_worker_is_given_the_token(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await register(stage)
        session = await used(stage, "Far_Read")
        shown = await get(stage, f"/v1/tools/request/{session}/t-1")
        assert await claim(stage) == []
        claiming = asyncio.ensure_future(claim(stage, 20))
        await connect(stage, link_in(shown))
        (claimed,) = await claiming
        assert token_in(claimed) == await token_of(stage)
        assert await respond(stage, claimed, "done") == 200
        assert (await result(stage, session))["content"] == "done"

    play(story, provider)


def test_a_task_of_it_waits_too(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await register(stage)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}}, "clientInfo": {}}
        opened = await stage._caller.post(f"{HERE}/mcp", json=rpc("initialize", hello))
        headers = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        about = rpc("tools/call", {"name": "Far_Read", "arguments": {}, "task": {}})
        task = (await stage._caller.post(f"{HERE}/mcp", json=about, headers=headers)).json()["result"]["task"]
        claiming = asyncio.ensure_future(claim(stage, 20))
        assert link_in(await get(stage, f"/v1/calls/{task['taskId']}")).code
        await has_account(stage)
        (claimed,) = await claiming
        assert await respond(stage, claimed, "done") == 200
        assert (await get(stage, f"/v1/calls/{task['taskId']}?wait=20"))["value"] == "done"

    play(story, provider)


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_a_token_that_ends_while_no_worker_comes_is_renewed(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await stage.connect()
        await register(stage)
        await used(stage, "Far_Read")
        first = await token_of(stage)
        stage.clock.ahead = AN_HOUR
        await register(stage)  # it was not heard of for an hour
        (claimed,) = await claim(stage)
        given = token_in(claimed)
        assert (given == first, given == await token_of(stage)) == (False, True)

    play(story, provider, claim_wait_s=10 * AN_HOUR)


def test_what_it_was_given_does_not_come_back(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await has_account(stage)
        await register(stage)
        session = await used(stage, "Far_Read")
        (claimed,) = await claim(stage)
        stage.yard._requests._given._calls.clear()  # as at another node
        beat = {"sessionId": session, "requestId": "t-1", "attempt": 1, "progress": {"message": token_in(claimed)}}
        await post(stage, "/v1/tools/heartbeats", {"heartbeats": [beat]})
        call = await stage.yard.store.get("default", "local", "t-1")
        assert call is not None
        assert call.progress is not None
        assert json.loads(call.progress)["message"] == "[secret idp]"
        await disconnect(stage)
        stage.yard._requests._given._calls.clear()
        assert await respond(stage, claimed, f"the token is {token_in(claimed)}") == 200
        assert (await result(stage, session))["content"] == "the token is [secret idp]"
        assert await stage.yard.store.note("given", "default", "", str(call.seq)) is None, "nobody needs it any more"

    play(story, provider)


def test_where_the_account_is_gone_no_worker_is_given_the_call(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await has_account(stage)
        await register(stage)
        session = await used(stage, "Far_Read")
        await disconnect(stage)
        assert await claim(stage) == []
        claiming = asyncio.ensure_future(claim(stage, 20))
        await asks_for_its_account(stage, session)
        await has_account(stage, "another-token-of-adas")
        (claimed,) = await claiming
        assert (claimed["attempt"], token_in(claimed)) == (1, await token_of(stage))

    play(story, provider)


def test_a_call_that_cannot_wait_ends_and_says_that_nothing_was_done(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await has_account(stage)
        await register(stage)
        body = {"tool_id": "Far.Read", "call_id": "k"}
        calling = asyncio.ensure_future(post(stage, "/tools/call", body))
        while not (await get(stage, "/v1/calls"))["calls"]:
            await asyncio.sleep(0)
        await disconnect(stage)
        assert await claim(stage) == []
        told = (await calling)["error"]
        assert (told["can_retry"], "Nothing was done" in told["message"]) == (True, True)
        shown = await get(stage, "/v1/calls/k")
        assert (shown["code"], shown["effects"], shown["attempt"]) == ("tool_failed", "none", 0)
        assert "needs authorization at idp" in (await post(stage, "/tools/call", body))["message"]

    play(story, provider)


def test_while_the_provider_is_away_no_worker_is_given_the_call(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolyard.engine.account_wait.LOOK_AGAIN_S", 0.05)

    async def story(stage: Scene) -> None:
        await stage.connect()
        await register(stage)
        await used(stage, "Far_Read")
        stage.clock.ahead = AN_HOUR
        await register(stage)
        assert stage.yard.connecting is not None
        idp = stage.yard.connecting._providers["idp"]
        refresh = idp.refresh

        async def no_answer(token: str) -> Any:
            raise NoAnswer("it is away")

        monkeypatch.setattr(idp, "refresh", no_answer)
        assert await claim(stage) == []
        monkeypatch.setattr(idp, "refresh", refresh)
        (claimed,) = await claim(stage, 20)
        assert token_in(claimed) == await token_of(stage)

    play(story, provider, claim_wait_s=10 * AN_HOUR)


def test_what_no_key_opens_is_given_to_nobody_and_ends(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await register(stage)
        brought = {"authorization": [{"id": "idp", "token": "mine"}]}
        body = {"tool_id": "Far.Read", "call_id": "k", "context": brought}
        calling = asyncio.ensure_future(post(stage, "/tools/call", body))
        while not (await get(stage, "/v1/calls"))["calls"]:
            await asyncio.sleep(0)
        stage.yard._requests._given._ring = KeyRing(lambda: b"x" * 32)
        assert await claim(stage) == []
        assert "none of the server's keys" in (await calling)["error"]["message"]

    play(story, provider)


@pytest.mark.parametrize(
    ("rules", "is_given"),
    [
        ([], False),
        ([{"tools": ["Far.*"]}], False),
        ([{"who": {"subject": "local"}, "tools": ["Far.*"]}], False),
        ([{"who": {"subject": "local"}, "tools": ["Far.Read"]}], True),
    ],
)
def test_a_worker_that_nobody_trusts_is_given_an_account_only_where_it_and_its_tool_are_named(
    rules: list[dict[str, Any]], is_given: bool, provider: Provider
) -> None:
    async def story(stage: Scene) -> None:
        await has_account(stage)
        await register(stage)
        session = await used(stage, "Far_Read")
        claims = await claim(stage)
        assert [token_in(each) for each in claims] == ([await token_of(stage)] if is_given else [])
        if not is_given:
            assert "needs authorization at idp" in (await result(stage, session))["content"], "it would wait in vain"
            body = {"tool_id": "Far.Read", "context": {"user_id": "local"}}
            refused = await post(stage, "/tools/call", body)
            assert "a worker that is not trusted" in refused["developer_message"]

    play(story, provider, workers=rules)


def test_a_worker_that_nobody_trusts_is_given_what_the_call_brings(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await register(stage)
        body = {"tool_id": "Far.Read", "context": {"authorization": [{"id": "idp", "token": "mine"}]}}
        calling = asyncio.ensure_future(post(stage, "/tools/call", body))
        (claimed,) = await claim(stage, 20)
        assert token_in(claimed) == "mine"
        assert await respond(stage, claimed, "done") == 200
        assert (await calling)["value"] == "done"

    play(story, provider, workers=[])
