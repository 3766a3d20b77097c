"""The whole way in a real browser, as a person goes it: a server process, a provider process, and Chromium."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.chromium import CHROMIUM, browsing
from toolyard import MissingRequirements

from .serving import Served, guarded, served
from .stage import Link

IMAGE = Path(__file__).parents[3] / "docs" / "images" / "connect-an-account.png"


def test_chromium_is_installed() -> None:
    assert CHROMIUM, "'apt-get install chromium' installs it, or TOOLYARD_TEST_CHROMIUM names it"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """Of a person who was never here, with cookies of their own. What a page's own policy forbids it is an error."""
    context = chromium.new_context(viewport={"width": 720, "height": 560}, color_scheme="light")
    opened = context.new_page()
    broken: list[str] = []
    opened.on("console", lambda said: broken.append(said.text) if "Content Security Policy" in said.text else None)
    yield opened
    context.close()
    assert broken == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("browser")) as started:
        yield started


def standing(link: Link) -> Any:
    with urllib.request.urlopen(link.check_url, timeout=10) as reply:
        return json.load(reply)["status"]


def go_to_the_provider(page: Page, link: Link, who: str) -> None:
    """With the keyboard alone."""
    page.goto(link.url)
    page.keyboard.press("Tab")
    page.keyboard.type(link.code)
    page.keyboard.press("Enter")
    page.wait_for_selector("input[name=login]")
    page.fill("input[name=login]", who)
    page.fill("input[name=password]", "x")
    page.click("button[type=submit]")
    page.wait_for_selector("text=mail.read")


def test_a_person_allows_it_and_the_tool_has_the_token(server: Served, page: Page) -> None:
    link = server.challenge("ada")
    page.goto(link.url)
    assert page.inner_text("h1") == "Connect an account"
    for shown in ("Post.Read", "idp", "mail.read", "ada"):
        assert shown in page.inner_text("main")
    if os.environ.get("TOOLYARD_TEST_IMAGES"):
        page.screenshot(path=IMAGE)
    go_to_the_provider(page, link, "ada")
    assert standing(link) == "pending"
    page.click("button[type=submit]")
    page.wait_for_selector("text=You can close this page")
    assert "The account ada@example.com at idp is connected" in page.inner_text("main")
    assert urlsplit(page.url).path == "/connections/idp/callback"
    assert standing(link) == "completed"
    assert server.call("ada")
    page.reload()
    assert "done already" in page.inner_text("main"), "the same answer again"


def test_a_person_does_not_allow_it(server: Served, page: Page) -> None:
    link = server.challenge("bob")
    go_to_the_provider(page, link, "bob")
    page.click("text=[ Cancel ]")
    page.wait_for_selector("text=Not connected")
    assert "You did not allow it" in page.inner_text("[role=alert]")
    assert standing(link) == "failed"
    with pytest.raises(MissingRequirements):
        server.call("bob")


def test_somebody_who_was_sent_the_link_does_not_know_the_code(server: Served, page: Page) -> None:
    link = server.challenge("eve")
    page.goto(link.url)
    for attempt in range(5):
        page.fill("#code", f"GUES-{attempt}{attempt}{attempt}{attempt}")
        page.click("button")
        page.wait_for_selector("[role=alert]")
        assert "This is not the code" in page.inner_text("[role=alert]")
        assert page.evaluate("document.activeElement.id") == "code"
    page.fill("#code", link.code)
    page.click("button")
    page.wait_for_selector("text=Not connected")
    assert standing(link) == "failed"


def test_another_sites_page_can_neither_frame_it_nor_send_its_form(server: Served, page: Page) -> None:
    link = server.challenge("ada2")
    page.goto(link.url)
    form = page.get_attribute("input[name=form]", "value")
    page.goto("about:blank")
    page.set_content(
        f"<iframe src='{link.url}'></iframe><form method='post' action='{link.url}'>"
        f"<input name='code' value='{link.code}'><input name='form' value='{form}'><button>Win a prize</button></form>"
    )
    assert not any("Connect an account" in frame.content() for frame in page.frames[1:])
    page.click("text=Win a prize")
    page.wait_for_url(link.url.partition("?")[0] + "*")
    assert "may not use this server" in page.content()
    assert standing(link) == "pending"


# --- where users sign in -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with guarded(tmp_path_factory.mktemp("front")) as started:
        yield started


def sign_in(page: Page, who: str) -> None:
    """At the issuer, which also asks whether they want this server to know who they are."""
    page.wait_for_selector("input[name=login]")
    page.fill("input[name=login]", who)
    page.fill("input[name=password]", "x")
    page.click("button[type=submit]")
    page.wait_for_selector("text=Authorize")
    page.click("button[type=submit]")


def test_a_person_signs_in_and_then_allows_it(front: Served, page: Page) -> None:
    link = front.challenge("ada")
    page.goto(link.url)
    assert page.locator("input[type=text]").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == f"Sign in as ada at {front.provider.issuer}"
    page.keyboard.press("Enter")
    sign_in(page, "ada")
    page.wait_for_selector("text=mail.read")
    page.click("button[type=submit]")
    page.wait_for_selector("text=You can close this page")
    assert "The account ada@example.com at idp is connected" in page.inner_text("main")
    assert standing(link) == "completed"
    assert front.call("ada")


def test_somebody_who_was_sent_the_link_signs_in_and_connects_nothing(
    front: Served, page: Page, chromium: Browser
) -> None:
    link = front.challenge("bob")
    victims = chromium.new_context()
    with victims.new_page() as theirs:
        theirs.goto(link.url)
        theirs.click("button")
        sign_in(theirs, "eve")
        theirs.wait_for_selector("text=This link is for somebody else")
        assert "Nothing was connected" in theirs.inner_text("[role=alert]")
        assert "bob" not in theirs.inner_text("main")
        assert standing(link) == "pending"
        theirs.click("text=Sign in as another person")
        theirs.wait_for_selector("input[name=login]")
        theirs.click("text=[ Cancel ]")
        theirs.wait_for_selector("text=You did not sign in")
        theirs.click("text=Try again")
        theirs.wait_for_selector("text=Sign in as bob")
    victims.close()
    page.goto(link.url)
    page.click("button")
    sign_in(page, "bob")
    page.wait_for_selector("text=mail.read")
    page.click("button[type=submit]")
    page.wait_for_selector("text=You can close this page")
    assert standing(link) == "completed"
    assert front.call("bob")
