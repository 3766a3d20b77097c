"""Who completes a challenge signs in as whom it was made for, and nobody else goes on."""

import asyncio
import re
from collections.abc import Callable

import pytest

from ...trust.credentials.identity_provider import Provider
from .signing import SIGNED_IN, Visitor, audited, connections, play, token_of, with_credentials
from .stage import CALLBACK, Scene


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
            assert "name='code'" not in page.text
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


def test_who_signs_in_for_what_is_done_already_is_told_so(provider: Provider) -> None:
    async def story(stage: Scene) -> None:
        link = await stage.challenge(user_id="ada")
        async with stage.browser() as browser:
            ada = Visitor(browser, "ada")
            late = await ada.back_to(await ada.leave_for(link))
            assert (await ada.connect(link)).status == 200
            page = await ada.open(late)
            assert (page.status, "done already" in page.text) == (400, True)

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
