"""From a refused call to a token, and all the ways that do not lead there."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ...trust.credentials.identity_provider import Provider
from .stage import CALLBACK, Link, Person, Scene, scene
from .tools import digest_of

Story = Callable[[Scene], Awaitable[None]]


def play(story: Story, provider: Provider, **settings: Any) -> None:
    async def played() -> None:
        async with scene(provider, **settings) as stage:
            await story(stage)

    asyncio.run(played())


def test_who_allows_it_is_connected_and_the_same_call_works(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        assert await stage.status(link) == "pending"
        async with stage.browser() as browser:
            person = Person(browser, "ada")
            page = await person.open(link.url)
            for shown in ("Post.Read", "idp", "mail.read", "local"):
                assert shown in page.text
            assert link.code not in page.text
            done = await person.allow(link)
            assert (done.status, "Connected" in done.text, "ada@example.com" in done.text) == (200, True, True)
            assert "done already" in (await person.open(link.url)).text
        assert await stage.status(link) == "completed"
        answer = await stage.call()
        assert (answer["status"], answer["success"]) == (200, True)
        assert answer["value"]

    play(story, provider)


def test_who_does_not_allow_it_is_not_connected(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            page = await Person(browser, "ada").deny(link)
            assert (page.status, "You did not allow it" in page.text) == (400, True)
            assert "Have the tool called again" in (await Person(browser, "ada").open(link.url)).text
        assert await stage.status(link) == "failed"
        assert (await stage.call())["status"] == 400

    play(story, provider)


@pytest.mark.parametrize("step", ["link", "state"])
def test_what_took_too_long_leads_nowhere(step: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            person = Person(browser, "ada")
            if step == "link":
                stage.clock.ahead = 601
                page = await person.open(link.url)
                assert (page.status, "has run out" in page.text) == (404, True)
            else:
                consent = await person.sign_in(link)
                stage.clock.ahead = 601
                page = await person.fill_in(consent)
                assert (page.status, "took too long" in page.text) == (400, True)
        assert await stage.status(link) == "failed"
        assert (await stage.call())["status"] == 400

    play(story, provider)


def test_an_answer_of_the_provider_counts_once(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            person = Person(browser, "ada")
            address = await person.answer(link)
            refused = provider.said("refused authorization_code invalid_grant")
            pages = await asyncio.gather(*(person.open(address) for _ in range(5)))
            assert sorted(page.status for page in pages) == [200, 400, 400, 400, 400]
            again = await person.open(address)
            assert (again.status, "done already" in again.text) == (400, True)
            assert provider.said("refused authorization_code invalid_grant") == refused, "it was asked once"
        assert await stage.status(link) == "completed"
        assert (await stage.call())["status"] == 200

    play(story, provider)


def test_an_answer_counts_in_the_browser_that_was_sent_alone(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser, stage.browser() as another, stage.browser() as third:
            person = Person(browser, "ada")
            address = await person.answer(link)
            await Person(third, "eve").open(link.url)
            for stranger in (another, third):
                page = await Person(stranger, "eve").open(address)
                assert (page.status, "began in another browser" in page.text) == (400, True)
            assert await stage.status(link) == "pending"
            assert (await person.open(address)).status == 200
        assert await stage.status(link) == "completed"

    play(story, provider)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda url: re.sub(r"iss=[^&]+", "iss=https%3A%2F%2Fevil.example", url), "This answer is not from idp"),
        (lambda url: re.sub(r"&?iss=[^&]+", "", url), "This answer is not from idp"),
        (lambda url: re.sub(r"code=[^&]+", "code=guessed", url), "did not give access"),
        (lambda url: re.sub(r"code=[^&]+", "none=1", url), "without an answer"),
        (lambda url: re.sub(r"code=[^&]+", "error=<script>", url), "idp refused: script."),
    ],
    ids=["another issuer", "no issuer", "a guessed code", "no code", "an error"],
)
def test_an_answer_that_is_not_right_ends_the_challenge(
    change: Callable[[str], str], said: str, provider: Provider
) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            person = Person(browser, "ada")
            address = await person.answer(link)
            page = await person.open(change(address))
            assert (page.status, said in page.text) == (400, True), page.text
            assert (await person.open(address)).status == 400
        assert await stage.status(link) == "failed"

    play(story, provider)


@pytest.mark.parametrize("address", [CALLBACK, f"{CALLBACK}?state=", f"{CALLBACK}?state=guessed&code=x"])
def test_an_answer_to_what_nobody_asked_is_not_taken(address: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        async with stage.browser() as browser:
            page = await Person(browser, "eve").open(address)
            assert (page.status, "did not begin here" in page.text) == (400, True)
            twice = await Person(browser, "eve").open(f"{CALLBACK}?state=a&state=b")
            assert (twice.status, "twice" in twice.text) == (400, True)

    play(story, provider)


def test_another_persons_link_leads_nowhere_without_its_code(provider: Provider) -> None:
    """Five times; and a code that is tried many times at once is tried five times, too."""

    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            person = Person(browser, "eve")
            wrong = await person.leave(link, "AAAA-AAAA")
            assert (wrong.status, "This is not the code" in wrong.text) == (403, True)
            pages = await asyncio.gather(*(person.fill_in(wrong, code=f"BBBB-{n:04}") for n in range(20)))
            assert [page.status for page in pages].count(403) == 4
            late = await person.fill_in(wrong, code=link.code)
            assert (late.status, "wrong code" in late.text) == (410, True)
        assert await stage.status(link) == "failed"

    play(story, provider)


def test_a_link_has_one_spelling(provider: Provider) -> None:
    """Or each would have five tries of its own."""

    def spelt(link: Link) -> list[Link]:
        """What a lax decoder takes for the same bytes."""
        before, _, rest = link.url.partition("/authorize/")
        text, _, query = rest.partition("?")
        texts = (f"{text}=", f"{text}====", f"{text[:9]}~{text[9:]}", f"{text}!", f"{text[:9]}%0A{text[9:]}")
        return [Link(f"{before}/authorize/{each}?{query}", link.check_url, link.code) for each in texts]

    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            for other in spelt(link):
                assert (await Person(browser, "eve").open(other.url)).status == 404
        assert await stage.status(link) == "pending"

    play(story, provider)


def test_a_code_may_be_typed_in_any_way(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            for code in (link.code.lower(), link.code.replace("-", " "), f" {link.code.replace('-', '')} ") * 3:
                assert (await Person(browser, "ada").leave(link, code)).status == 200

    play(story, provider)


def test_the_code_of_one_challenge_is_not_that_of_another(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        one, other = await stage.challenge(), await stage.challenge()
        async with stage.browser() as browser:
            assert (await Person(browser, "ada").leave(one, other.code)).status == 403

    play(story, provider)


@pytest.mark.parametrize(
    "how", ["no cookie", "another browser's", "another page's", "no origin", "another challenge's"]
)
def test_a_form_is_taken_from_the_browser_that_was_given_it_alone(how: str, provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link, other = await stage.challenge(), await stage.challenge()
        async with stage.browser() as browser, stage.browser() as another:
            page = await Person(browser, "ada").open(link.url)
            fields = {**page.fields, "code": link.code}
            headers, sender = {"origin": "http://127.0.0.1:9"}, browser
            if how == "no cookie":
                browser.cookies.clear()
            elif how == "another browser's":
                await Person(another, "eve").open(link.url)
                sender = another
            elif how == "another page's":
                headers = {"origin": "http://127.0.0.1:8"}
            elif how == "no origin":
                headers = {}
            else:
                fields["form"] = (await Person(browser, "ada").open(other.url)).fields["form"]
            reply = await sender.post(page.action, data=fields, headers=headers)
            assert (reply.status_code, "Not connected" in reply.text) == (403, True)
            assert provider.issuer not in reply.text

    play(story, provider)


@pytest.mark.parametrize("change", [lambda text: text[:-6] + "AAAAAA", lambda text: "x", lambda text: "A" * 400])
def test_a_link_that_was_changed_is_none(change: Callable[[str], str], provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        text = link.url.partition("/authorize/")[2].partition("?")[0]
        async with stage.browser() as browser:
            page = await Person(browser, "ada").open(link.url.replace(text, change(text)))
            assert (page.status, "not valid" in page.text) == (404, True)
            reply = await browser.get(link.check_url.replace(text, change(text)))
            assert (reply.status_code, reply.json()) == (200, {"status": "failed"})

    play(story, provider)


def test_a_connection_is_one_users_alone(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await stage.connect(user_id="ada")
        assert (await stage.call(user_id="ada"))["status"] == 200
        for others in ({"user_id": "bob"}, {}):
            assert (await stage.call(**others))["status"] == 400

    play(story, provider)


def test_what_a_call_brings_wins_over_what_is_held(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await stage.connect()
        brought = await stage.call(authorization=[{"id": "idp", "token": "my-own"}])
        assert (brought["status"], brought["value"]) == (200, digest_of("my-own"))
        assert (await stage.call())["value"] != digest_of("my-own")

    play(story, provider)


def test_scopes_grow_from_one_tool_to_the_next(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        await stage.connect("Post.Read")
        assert (await stage.call("Post.Send"))["status"] == 400
        link = await stage.challenge("Post.Send")
        async with stage.browser() as browser:
            page = await Person(browser, "ada").open(link.url)
            assert "mail.send" in page.text
            assert "mail.read" in page.text
            await Person(browser, "ada").allow(link)
        for tool in ("Post.Send", "Post.Read"):
            assert (await stage.call(tool))["status"] == 200

    play(story, provider)


def test_where_no_provider_is_set_up_nobody_is_given_a_code(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge("Post.Other")
        assert link.code == ""
        assert await stage.status(link) == "failed"

    play(story, provider)


def test_beyond_this_machine_the_page_wants_https(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            page = await Person(browser, "ada").open(link.url.replace("http://tools.example", "http://127.0.0.1:9"))
            assert (page.status, "plain http" in page.text) == (400, True)

    play(story, provider, public_url="http://tools.example")


def test_over_https_the_cookie_is_one_that_only_this_host_can_set(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            page = await Person(browser, "ada").open(link.url.replace("https://tools.example", "http://127.0.0.1:9"))
            cookie = page.headers["set-cookie"]
            assert cookie.startswith("__Host-toolyard=")
            assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))

    play(story, provider, public_url="https://tools.example")


def test_the_pages_cannot_be_framed_and_have_no_script(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="<script>alert(1)</script>")
        async with stage.browser() as browser:
            person = Person(browser, "ada")
            pages = [await person.open(link.url), await person.leave(link), await person.deny(link)]
        for page in pages:
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "form-action 'self'" in policy
            assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")
            assert "<script" not in page.text
            assert "style=" not in page.text

    play(story, provider)


def test_what_became_of_it_is_in_the_audit_log_and_no_token_is(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            await Person(browser, "ada").deny(link)
        await stage.connect(user_id="ada")
        token = (await stage.held("ada"))["access"]
        assert (await stage.call(user_id="ada"))["value"] == digest_of(token)
        audit = stage.yard.audit
        assert audit is not None
        await audit.written()
        blocks = await stage.yard.store.audit.blocks("main", 0, 100)
        lines = b"\n".join(block.entries for block in blocks)
        assert b"connected idp" in lines
        assert b"failed idp: You did not allow it" in lines
        assert token.encode() not in lines
        sealed = await stage.yard.store.sealed.listed("connection")
        assert [(each.owner, each.name) for each in sealed] == [("ada", "idp")]
        assert token.encode() not in sealed[0].data + sealed[0].about

    play(story, provider)


def test_who_guesses_codes_is_not_heard_for_a_while(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        others, link = [await stage.challenge() for _ in range(2)], await stage.challenge()
        async with stage.browser() as browser:
            person = Person(browser, "eve")
            for other in others:
                assert (await person.leave(other, "AAAA-AAAA")).status == 403
            late = await person.leave(link)
            assert (late.status, "Not connected" in late.text) == (400, True)
            stage.clock.ahead = 60
            assert (await person.leave(link)).status == 200

    play(story, provider, auth_failures_per_minute=2)


def test_an_id_token_for_another_departure_is_not_taken(provider: Provider) -> None:
    """Somebody has put a code of theirs in the place of the one that was asked for."""

    async def story(stage: Scene) -> None:
        link = await stage.challenge()
        async with stage.browser() as browser:
            person = Person(browser, "ada")
            address = (await person.leave(link)).goes_to
            assert "&nonce=" in address
            page = await person.open(re.sub(r"nonce=[^&]+", "nonce=another", address))
            done = await person.fill_in(await person.fill_in(page, login="ada", password="x"))
            assert (done.status, "did not give access" in done.text) == (400, True)
        assert await stage.status(link) == "failed"
        assert await stage.yard.store.sealed.listed("connection") == []

    play(story, provider)
