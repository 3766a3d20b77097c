"""Who is made to sign in, and where: known by their issuer or named by a program, in any tenant, on any node, and for
calls that wait."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolyard.trust.credentials.hs256 import signed
from toolyard.wires.mcp.params import PREFIX, TASKS

from ...trust.credentials.identity_provider import Provider
from .signing import Visitor, buttons, door, issuer, own_token, play, token_of, with_credentials
from .stage import HERE, Link, ManualClock, Scene, providers


@pytest.mark.parametrize("who", ["a program's key", "a program's token of the issuer", "a token of the shared secret"])
def test_who_is_not_known_at_an_issuer_keeps_the_code(who: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        if who == "a program's token of the issuer":
            with_credentials(stage, await own_token(provider))
        elif who == "a token of the shared secret":
            with_credentials(stage, hs256(sub="ada", iss=provider.issuer))
        link = await stage.challenge()
        assert link.code
        async with stage.browser() as browser:
            page = await Visitor(browser, "ada").leave(link)
            assert "client_id=toolyard&" in page.goes_to

    play(story, provider, jwt_secret=SHARED)


SHARED = "correct-horse-battery-staple"


def hs256(**claims: Any) -> str:
    return signed({"exp": int(ManualClock()()) + 300, **claims}, SHARED)


def test_the_tenant_must_be_the_right_one_too(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, hs256(sub="program", tenant="acme"))
        link = await stage.challenge(user_id="ada")
        for name, status in (("ada@rival", 403), ("ada", 403), ("bob@acme", 403), ("ada@acme", 200)):
            async with stage.browser() as browser:
                assert (await Visitor(browser, name).sign_in_at(link)).status == status, name

    row = issuer(provider.issuer, subject_claim="nickname")
    play(story, provider, jwt_secret=SHARED, issuers=[row])


def test_a_claim_that_the_issuer_does_not_give_is_nobodys(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada@example.com")
        async with stage.browser() as browser:
            page = await Visitor(browser, "ada").sign_in_at(link)
            assert (page.status, "did not say who you are" in page.text) == (400, True)

    play(story, provider, issuers=[issuer(provider.issuer, subject_claim="email")])


def test_scopes_and_parameters_of_the_settings_are_sent_with_them(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada@example.com")
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            address = (await ada.leave_for(link)).goes_to
            assert "scope=openid+email&" in address
            assert "prompt=consent" in address
            assert "code_challenge_method=S256" in address
            assert (await ada.sign_in_at(link)).status == 200

    more = {"subject_claim": "email", "scopes": ["email"], "parameters": {"prompt": "consent"}}
    play(story, provider, issuers=[issuer(provider.issuer, **more)])


def test_the_issuer_that_knows_the_caller_is_meant_before_any_other(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        async with stage.browser() as browser:
            link = await stage.challenge(user_id="ada")
            page = await Visitor(browser, "ada").open(link.url)
            assert buttons(page) == ["http://127.0.0.1:1", provider.issuer]
            away = await Visitor(browser, "ada").press(page)
            assert (away.status, "cannot be reached" in away.text) == (503, True)
            with_credentials(stage, await token_of(stage, provider, "ada"))
            for named in ({}, {"user_id": "ada"}):
                link = await stage.challenge(**named)
                assert buttons(await Visitor(browser, "ada").open(link.url)) == [provider.issuer]

    play(story, provider, issuers=[issuer("http://127.0.0.1:1"), issuer(provider.issuer)])


def test_a_caller_of_an_issuer_where_nobody_can_sign_in_keeps_the_code(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "ada"))
        assert (await stage.challenge()).code
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            assert buttons(await Visitor(browser, "ada").open(link.url)) == ["http://127.0.0.1:1"]

    play(story, provider, issuers=[issuer("http://127.0.0.1:1"), provider.issuer])


@pytest.mark.parametrize("tool", ["Post.Read", "Post.Nothing"])
def test_a_person_speaks_for_nobody_else(provider: Provider, tool: str) -> None:
    """Or whoever has an account here could have tools use what others connected."""

    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "ada"))
        said = "These credentials are for ada, and not for another user_id; leave it out"
        refused = await stage.call(tool, user_id="bob")
        assert (refused["status"], refused["message"]) == (403, said)
        assert (await stage.call(tool, user_id="ada"))["status"] == (await stage.call(tool))["status"]
        with_credentials(stage, await own_token(provider))
        assert (await stage.call(tool, user_id="bob"))["status"] != 403

    play(story, provider)


def test_an_issuer_of_programs_may_be_one(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "ada"))
        link = await stage.challenge(user_id="bob")
        async with stage.browser() as browser:
            assert (await Visitor(browser, "bob").sign_in_at(link)).status == 200

    play(story, provider, issuers=[issuer(provider.issuer, speaks_for_users=True)])


def test_a_link_for_an_issuer_that_is_no_more_says_so(provider: Provider, tmp_path: Path) -> None:
    async def story() -> None:
        kept = {"store": f"sqlite:{tmp_path / 'ledger.db'}"}
        async with door(provider, **kept) as stage:
            link = await stage.challenge(user_id="ada")
            async with stage.browser() as browser:
                address = await Visitor(browser, "ada").back_to(await Visitor(browser, "ada").leave_for(link))
                cookies = browser.cookies
        async with door(provider, **kept, issuers=[provider.issuer]) as stage, stage.browser() as browser:
            browser.cookies = cookies
            page = await Visitor(browser, "ada").open(address)
            assert (page.status, "Nobody signs in at" in page.text) == (400, True)
            page = await Visitor(browser, "ada").open(link.url)
            assert (page.status, "Have the tool called again" in page.text) == (410, True)

    asyncio.run(story())


def test_who_has_signed_in_is_told_where_the_provider_is_no_more(provider: Provider, tmp_path: Path) -> None:
    async def story() -> None:
        kept = {"store": f"sqlite:{tmp_path / 'ledger.db'}"}
        async with door(provider, **kept) as stage, stage.browser() as browser:
            link = await stage.challenge(user_id="ada")
            address = await Visitor(browser, "ada").back_to(await Visitor(browser, "ada").leave_for(link))
            cookies = browser.cookies
        another = providers(provider.issuer, id="another")
        async with door(provider, **kept, providers=another) as stage, stage.browser() as browser:
            browser.cookies = cookies
            page = await Visitor(browser, "ada").open(address)
            assert (page.status, "No provider is set up" in page.text) == (200, True)

    asyncio.run(story())


def test_the_way_may_lead_over_two_nodes(provider: Provider, postgres_url: str) -> None:
    async def story() -> None:
        shared = {"store": postgres_url, "secret_key": "ab" * 32}
        async with door(provider, **shared) as one, door(provider, **shared) as other:
            link = await one.challenge(user_id="ada")
            async with one.browser() as browser:
                address = await Visitor(browser, "ada").back_to(await Visitor(browser, "ada").leave_for(link))
                cookies = browser.cookies
            async with other.browser() as browser:
                browser.cookies = cookies
                there = await Visitor(browser, "ada").open(address)
                assert there.status == 200
                onward = await Visitor(browser, "ada").back_to(there)
            async with one.browser() as browser:
                browser.cookies = cookies
                assert (await Visitor(browser, "ada").open(onward)).status == 200
            assert await other.status(link) == "completed"

    asyncio.run(story())


# --- calls that wait -----------------------------------------------------------------------------

USE = {"type": "tool_use", "id": "t-1", "name": "Post_Read", "input": {}}


async def held(stage: Scene) -> tuple[dict[str, Any], Callable[[], Awaitable[Any]]]:
    """Where a tool use that waits sends its caller, and how to see its result."""
    session = (await stage._caller.post(f"{HERE}/v1/sessions", json={})).json()["sessionId"]
    message = {"role": "assistant", "content": [USE]}
    await stage._caller.post(f"{HERE}/v1/sessions/{session}/messages", json=message)
    shown = (await stage._caller.get(f"{HERE}/v1/tools/request/{session}/t-1")).json()
    assert (shown["state"], shown["waitingFor"]) == ("PENDING", "authorization")

    async def results() -> Any:
        return (await stage._caller.get(f"{HERE}/v1/sessions/{session}/results?wait=20")).json()

    (place,) = shown["waitingAt"]
    return place, results


def here(place: dict[str, Any]) -> Link:
    return Link(HERE + "/authorize/" + place["url"].partition("/authorize/")[2], "", "")


def test_a_tool_use_waits_until_its_caller_has_signed_in_and_allowed_it(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "ada"))
        place, results = await held(stage)
        assert place["message"] == "Post_Read needs your authorization at idp"
        async with stage.browser() as browser, stage.browser() as another:
            assert (await Visitor(another, "eve").sign_in_at(here(place))).status == 403
            assert (await Visitor(browser, "ada").connect(here(place))).status == 200
        (result,) = (await results())["message"]["content"]
        assert not result.get("is_error")

    play(story, provider)


def test_what_a_link_asks_for_depends_on_who_looks(provider: Provider) -> None:
    """A program that is not known at the issuer is shown a code, for its own calls alone."""

    async def story(stage: Scene) -> None:
        place, _ = await held(stage)
        assert "The page asks for this code" in place["message"]

    play(story, provider)


def test_a_task_has_its_caller_sign_in(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "ada"))
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}}, "clientInfo": {}}
        opened = await stage._caller.post(f"{HERE}/mcp", json=rpc("initialize", hello))
        headers = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        about = rpc("tools/call", {"name": "Post_Read", "arguments": {}, "task": {}})
        task = (await stage._caller.post(f"{HERE}/mcp", json=about, headers=headers)).json()["result"]["task"]
        assert task["status"] == "input_required"
        shown = (await stage._caller.get(f"{HERE}/v1/calls/{task['taskId']}")).json()
        (place,) = shown["waitingAt"]
        assert "code" not in place["message"]
        about = rpc("tasks/get", {"taskId": task["taskId"], "_meta": META})
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tasks/get", "mcp-name": task["taskId"]}
        looked = (await stage._caller.post(f"{HERE}/mcp", json=about, headers=headers)).json()["result"]
        assert "needs your authorization at idp" in str(looked["inputRequests"])
        assert "this code" not in str(looked["inputRequests"])
        async with stage.browser() as browser:
            assert (await Visitor(browser, "ada").connect(here(place))).status == 200
        ended = (await stage._caller.get(f"{HERE}/v1/calls/{task['taskId']}?wait=20")).json()
        assert ended["state"] == "COMPLETE"

    play(story, provider)


META = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
    f"{PREFIX}clientCapabilities": {"elicitation": {"url": {}}, "extensions": {TASKS: {}}},
}


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
