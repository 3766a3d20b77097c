"""Who completes a challenge signs in as whom it was made for, and nobody else goes on."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolyard.trust.jwt import signed

from ..trust.identity_provider import Provider
from .signing import (
    SIGNED_IN,
    Visitor,
    audited,
    buttons,
    connections,
    door,
    issuer,
    own_token,
    token_of,
    with_credentials,
)
from .stage import CALLBACK, HERE, Clock, Link, Scene

Story = Callable[[Scene], Awaitable[None]]


def play(story: Story, provider: Provider, **settings: Any) -> None:
    async def played() -> None:
        async with door(provider, **settings) as stage:
            await story(stage)

    asyncio.run(played())


@pytest.mark.parametrize("how", ["a token of theirs", "a program that names them"])
def test_whom_it_was_made_for_signs_in_and_is_sent_on(how: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        named = {"user_id": "ada"} if how == "a program that names them" else {}
        if not named:
            with_credentials(stage, await token_of(stage, provider, "ada"))
        link = await stage.challenge(**named)
        assert link.code == ""
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            page = await ada.open(link.url)
            assert f"Sign in as ada at {provider.issuer}" in page.text
            assert "code" not in page.text
            there = await ada.sign_in_at(link)
            assert (there.status, there.url.startswith(f"{SIGNED_IN}?")) == (200, True)
            assert there.goes_to.startswith(f"{provider.issuer}/auth?")
            assert "client_id=toolyard&" in there.goes_to
            done = await ada.there(there)
            assert (done.status, "ada@example.com at idp is connected" in done.text) == (200, True)
        assert await stage.status(link) == "completed"
        assert (await stage.call(**named))["status"] == 200
        assert await connections(stage) == [("default", "ada")]

    play(story, provider)


def test_somebody_else_is_told_so_and_the_right_person_can_sign_in_after_them(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada-the-right-one")
        async with stage.browser() as browser:
            eve = Visitor(browser, "eve")
            for _ in range(2):
                page = await eve.sign_in_at(link)
                assert (page.status, "This link is for somebody else" in page.text) == (403, True)
                assert "ada-the-right-one" not in page.text
                assert "refresh" not in page.text
            assert await stage.status(link) == "pending"
            assert await connections(stage) == []
            again = await eve.press(page)
            assert "&prompt=login" in again.goes_to
            eve.name = "ada-the-right-one"
            page = await eve.there(again)
            assert (page.status, "client_id=toolyard&" in page.goes_to) == (200, True)
            assert (await eve.there(page)).status == 200
        assert await stage.status(link) == "completed"
        log = await audited(stage)
        assert log.count(f"failed idp: eve of default signed in at {provider.issuer}") == 2
        assert log.count("connected idp") == 1

    play(story, provider)


def test_a_link_that_was_passed_on_connects_nothing_and_stays_good(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "mallory"))
        link = await stage.challenge()
        async with stage.browser() as victims, stage.browser() as own:
            page = await Visitor(victims, "ada").sign_in_at(link)
            assert (page.status, "Nothing was connected" in page.text) == (403, True)
            assert await connections(stage) == []
            page = await Visitor(own, "mallory").sign_in_at(link)
            onward = page.goes_to
            handed_on = await Visitor(victims, "ada").there(page)
            assert (handed_on.status, "began in another browser" in handed_on.text) == (400, True)
            assert onward.startswith(provider.issuer)
        assert await connections(stage) == []

    play(story, provider)


def test_an_answer_of_the_issuer_counts_once_and_in_one_browser(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser, stage.browser() as another, stage.browser() as third:
            ada = Visitor(browser, "ada")
            address = await ada.back_to(await ada.leave_for(link))
            assert address.startswith(f"{SIGNED_IN}?")
            await Visitor(third, "eve").open(link.url)
            for stranger in (another, third):
                page = await Visitor(stranger, "eve").open(address)
                assert (page.status, "began in another browser" in page.text) == (400, True)
            pages = await asyncio.gather(*(ada.open(address) for _ in range(5)))
            assert sorted(page.status for page in pages) == [200, 400, 400, 400, 400]
            again = await ada.open(address)
            assert (again.status, "done already" in again.text) == (400, True)
        assert await stage.status(link) == "pending"

    play(story, provider)


def test_an_answer_of_the_issuer_is_none_of_the_provider_nor_the_other_way_round(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            address = await ada.back_to(await ada.leave_for(link))
            page = await ada.open(address.replace(SIGNED_IN, CALLBACK))
            assert (page.status, "did not begin here" in page.text) == (400, True)
            there = await ada.open(address)
            onward = await ada.back_to(there)
            page = await ada.open(onward.replace(CALLBACK, SIGNED_IN))
            assert (page.status, "did not begin here" in page.text) == (400, True)
            assert (await ada.open(onward)).status == 200

    play(story, provider)


@pytest.mark.parametrize("address", [SIGNED_IN, f"{SIGNED_IN}?state=", f"{SIGNED_IN}?state=guessed&code=x"])
def test_an_answer_to_what_nobody_asked_is_not_taken(address: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        async with stage.browser() as browser:
            page = await Visitor(browser, "eve").open(address)
            assert (page.status, "did not begin here" in page.text) == (400, True)
            twice = await Visitor(browser, "eve").open(f"{SIGNED_IN}?state=a&state=b")
            assert (twice.status, "twice" in twice.text) == (400, True)

    play(story, provider)


NOT_RIGHT: dict[str, tuple[Callable[[str], str], str]] = {
    "a denial": (lambda url: re.sub(r"code=[^&]+", "error=access_denied", url), "You did not sign in at"),
    "an error": (lambda url: re.sub(r"code=[^&]+", "error=<script>", url), "refused: script."),
    "another issuer": (lambda url: re.sub(r"iss=[^&]+", "iss=https%3A%2F%2Fevil.example", url), "is not from"),
    "no issuer": (lambda url: re.sub(r"&?iss=[^&]+", "", url), "This answer is not from"),
    "a guessed code": (lambda url: re.sub(r"code=[^&]+", "code=guessed", url), "did not say who you are"),
    "no code": (lambda url: re.sub(r"code=[^&]+", "none=1", url), "without an answer"),
}


def test_an_answer_that_is_not_right_leaves_the_challenge_as_it_was(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            for name, (change, said) in NOT_RIGHT.items():
                address = await ada.back_to(await ada.leave_for(link))
                page = await ada.open(change(address))
                assert (page.status, said in page.text) == (400, True), (name, page.text)
                assert f"href='{link.url.partition('?')[0]}'" in page.text, "it can be tried again"
                assert (await ada.open(address)).status == 400
                assert await stage.status(link) == "pending"
            assert (await ada.connect(link)).status == 200
        assert (await audited(stage)).count("failed idp: ") == len(NOT_RIGHT)

    play(story, provider)


def test_who_does_not_want_to_sign_in_can_do_it_later(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            page = await ada.open((await ada.leave_for(link)).goes_to)
            page = await ada.open(page.cancels_at)
            assert (page.status, "You did not sign in" in page.text) == (400, True)
            assert await stage.status(link) == "pending"
            assert (await ada.connect(link)).status == 200

    play(story, provider)


@pytest.mark.parametrize("step", ["link", "state"])
def test_what_took_too_long_leads_nowhere(step: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            if step == "link":
                stage.clock.ahead = 601
                assert (await ada.open(link.url)).status == 404
            else:
                address = await ada.back_to(await ada.leave_for(link))
                stage.clock.ahead = 601
                page = await ada.open(address)
                assert (page.status, "took too long" in page.text) == (400, True)
        assert await stage.status(link) == "failed"

    play(story, provider)


def test_a_code_is_not_taken_where_people_sign_in(provider: Provider) -> None:
    """There is none, and so no code is the right one either."""

    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            eve = Visitor(browser, "eve")
            page = await eve.open(link.url)
            for given in ({"code": ""}, {"code": "AAAA-AAAA"}, {"issuer": "https://evil.example"}, {"issuer": ""}, {}):
                refused = await eve.fill_in(page, **given)
                assert (refused.status, "Press one of the buttons" in refused.text) == (403, True)
                assert "refresh" not in refused.text
        challenges = stage.yard.connecting.authorizing.challenges  # type: ignore[union-attr]
        text = link.url.partition("/authorize/")[2].partition("?")[0]
        asked = challenges.open(text)
        assert asked is not None
        assert not await challenges.is_code(text, asked, "")

    play(story, provider)


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
    return signed({"exp": int(Clock()()) + 300, **claims}, SHARED)


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
            for named in ({}, {"user_id": "bob"}):
                link = await stage.challenge(**named)
                assert buttons(await Visitor(browser, "ada").open(link.url)) == [provider.issuer]

    play(story, provider, issuers=[issuer("http://127.0.0.1:1"), issuer(provider.issuer)])


def test_a_caller_of_an_issuer_where_nobody_can_sign_in_keeps_the_code(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        with_credentials(stage, await token_of(stage, provider, "ada"))
        assert (await stage.challenge()).code
        link = await stage.challenge(user_id="bob")
        async with stage.browser() as browser:
            assert buttons(await Visitor(browser, "ada").open(link.url)) == ["http://127.0.0.1:1"]

    play(story, provider, issuers=[issuer("http://127.0.0.1:1"), provider.issuer])


def test_a_link_for_an_issuer_that_is_no_more_says_so(provider: Provider, tmp_path: Path) -> None:
    async def story() -> None:
        kept = {"store": f"sqlite:{tmp_path / 'ledger.db'}"}
        async with door(provider, **kept) as stage:
            link = await stage.challenge(user_id="ada")
        async with door(provider, **kept, issuers=[provider.issuer]) as stage, stage.browser() as browser:
            page = await Visitor(browser, "ada").open(link.url)
            assert (page.status, "Have the tool called again" in page.text) == (410, True)

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
        async with stage.browser() as browser:
            assert (await Visitor(browser, "ada").connect(here(place))).status == 200
        ended = (await stage._caller.get(f"{HERE}/v1/calls/{task['taskId']}?wait=20")).json()
        assert ended["state"] == "COMPLETE"

    play(story, provider)


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
