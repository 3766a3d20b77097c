"""The whole way in a real browser, as a person goes it: a server process, a provider process, and Chromium."""

import json
import os
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from toolyard import Client, MissingRequirements
from toolyard.model.errors import Challenge

from ..conformance.serving import free_port, running
from ..trust.identity_provider import having_accounts
from .stage import providers

TOOLS = str(Path(__file__).with_name("tools.py"))
CHROMIUM = os.environ.get("TOOLYARD_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""The provider's pages ask for a font on the internet."""
IMAGE = Path(__file__).parents[2] / "docs" / "images" / "connect-an-account.png"


def test_chromium_is_installed() -> None:
    assert CHROMIUM, "'apt-get install chromium' installs it, or TOOLYARD_TEST_CHROMIUM names it"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    arguments = ["--no-sandbox", NOWHERE_ELSE] if os.geteuid() == 0 else [NOWHERE_ELSE]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


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
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("browser"), free_port()
    settings = {"TOOLYARD_PROVIDERS": json.dumps(providers(f"http://127.0.0.1:{port}"))}
    with (
        running("open", folder, [TOOLS], settings) as url,
        having_accounts(port, [f"{url}/connections/idp/callback"], folder / "provider.log"),
    ):
        yield url


def challenge(server: str, user: str) -> tuple[Challenge, str]:
    """Of a call for this user, and the code that its caller was told."""
    with Client(server) as client, pytest.raises(MissingRequirements) as refusal:
        client.call("Post.Read", user_id=user)
    (asked,) = refusal.value.missing.authorization
    code = re.search(r"idp is (\S{4}-\S{4})", refusal.value.message)
    assert code is not None
    return asked, code[1]


def standing(server: str, asked: Challenge) -> Any:
    with urllib.request.urlopen(asked.check_url, timeout=10) as reply:
        return json.load(reply)["status"]


def go_to_the_provider(page: Page, asked: Challenge, code: str, who: str) -> None:
    """With the keyboard alone."""
    page.goto(asked.url)
    page.keyboard.press("Tab")
    page.keyboard.type(code)
    page.keyboard.press("Enter")
    page.wait_for_selector("input[name=login]")
    page.fill("input[name=login]", who)
    page.fill("input[name=password]", "x")
    page.click("button[type=submit]")
    page.wait_for_selector("text=mail.read")


def test_a_person_allows_it_and_the_tool_has_the_token(server: str, page: Page) -> None:
    asked, code = challenge(server, "ada")
    page.goto(asked.url)
    assert page.inner_text("h1") == "Connect an account"
    for shown in ("Post.Read", "idp", "mail.read", "ada"):
        assert shown in page.inner_text("main")
    if os.environ.get("TOOLYARD_TEST_IMAGES"):
        page.screenshot(path=IMAGE)
    go_to_the_provider(page, asked, code, "ada")
    assert standing(server, asked) == "pending"
    page.click("button[type=submit]")
    page.wait_for_selector("text=You can close this page")
    assert "The account ada@example.com at idp is connected" in page.inner_text("main")
    assert urlsplit(page.url).path == "/connections/idp/callback"
    assert standing(server, asked) == "completed"
    with Client(server) as client:
        assert client.call("Post.Read", user_id="ada")
    page.reload()
    assert "done already" in page.inner_text("main"), "the same answer again"


def test_a_person_does_not_allow_it(server: str, page: Page) -> None:
    asked, code = challenge(server, "bob")
    go_to_the_provider(page, asked, code, "bob")
    page.click("text=[ Cancel ]")
    page.wait_for_selector("text=Not connected")
    assert "You did not allow it" in page.inner_text("[role=alert]")
    assert standing(server, asked) == "failed"
    with Client(server) as client, pytest.raises(MissingRequirements):
        client.call("Post.Read", user_id="bob")


def test_somebody_who_was_sent_the_link_does_not_know_the_code(server: str, page: Page) -> None:
    asked, code = challenge(server, "eve")
    page.goto(asked.url)
    for attempt in range(5):
        page.fill("#code", f"GUES-{attempt}{attempt}{attempt}{attempt}")
        page.click("button")
        page.wait_for_selector("[role=alert]")
        assert "This is not the code" in page.inner_text("[role=alert]")
        assert page.evaluate("document.activeElement.id") == "code"
    page.fill("#code", code)
    page.click("button")
    page.wait_for_selector("text=Not connected")
    assert standing(server, asked) == "failed"


def test_another_sites_page_can_neither_frame_it_nor_send_its_form(server: str, page: Page) -> None:
    asked, code = challenge(server, "ada2")
    page.goto(asked.url)
    form = page.get_attribute("input[name=form]", "value")
    page.goto("about:blank")
    page.set_content(
        f"<iframe src='{asked.url}'></iframe><form method='post' action='{asked.url}'>"
        f"<input name='code' value='{code}'><input name='form' value='{form}'><button>Win a prize</button></form>"
    )
    assert not any("Connect an account" in frame.content() for frame in page.frames[1:])
    page.click("text=Win a prize")
    page.wait_for_url(asked.url.partition("?")[0] + "*")
    assert "may not use this server" in page.content()
    assert standing(server, asked) == "pending"
