"""Hostile words of callers and tools, on the real pages in a real browser: nothing runs, and nothing is hidden."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from ..server.accounts.test_browser import chromium
from .processes import Served, serving, toolyard

__all__ = ["chromium"]

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "</pre></main><form action=/approvals/1><button>Approve</button></form>",
    '" autofocus onfocus="window.hacked = 1',
    "javascript:window.hacked=1",
    "\u202egnp.exe\u202c",
    "a\u200bb\u2066c\u2069",
    "\U000e0041\U000e0042 tags",
    "\x1b[2J\x1b[1;1H cleared",
    "{{7*7}} ${7*7} <%= 7*7 %>",
]
UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\x00-\x08\x0b-\x1f\x7f]")
TOOLS = '''
from toolyard import Toolkit

pay = Toolkit("Pay", version="1.0.0")


@pay.tool(approval="always", description="Pays. <script>window.hacked = 1</script>")
def refund(words: list[str]) -> list[str]:
    """Gives back what it got."""
    return words
'''
IMAGES = Path(__file__).parents[2] / "docs" / "images"


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 720, "height": 720}, color_scheme="light")
    opened = context.new_page()
    said: list[str] = []
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    yield opened
    context.close()
    assert said == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        yield served


def ask(served: Served, words: list[str], call_id: str) -> Any:
    return served.request(
        "POST", "/tools/call", {"tool_id": "Pay.Refund", "call_id": call_id, "input": {"words": words}}
    )


def picture(page: Page, name: str) -> None:
    """For the guides, when it is asked for."""
    if os.environ.get("TOOLYARD_TEST_IMAGES"):
        page.screenshot(path=IMAGES / name)


def harmless(page: Page) -> str:
    """What is on the page, once it was looked at."""
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 0
    text = page.locator("body").inner_text()
    assert UNSEEN.findall(text) == []
    return text


def code_of(folder: Path) -> str:
    found = re.search(r"code (\S+)", toolyard("approvals", folder=folder).out)
    assert found is not None
    return found[1]


def test_an_approval_is_read_and_given_with_the_keyboard(server: Served, page: Page, tmp_path: Path) -> None:
    asked = ask(server, ["order 7", "500 cents"], "k")
    page.goto(asked["missing_requirements"]["authorization"][0]["url"])
    picture(page, "approve-a-call.png")
    page.keyboard.press("Tab")
    page.get_by_label("Code").focus()
    page.keyboard.type(code_of(tmp_path))
    page.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("It was approved by a person")).to_be_visible()
    assert page.get_by_role("button").count() == 0
    until_done = server.request("GET", "/v1/calls/k?wait=20")
    assert until_done["value"] == ["order 7", "500 cents"]


def test_nobody_says_yes_by_pressing_enter(server: Served, page: Page, tmp_path: Path) -> None:
    asked = ask(server, ["order 7"], "k")
    page.goto(asked["missing_requirements"]["authorization"][0]["url"])
    page.get_by_label("Code").fill(code_of(tmp_path))
    page.get_by_label("Reason").fill("wrong order")
    page.keyboard.press("Enter")
    expect(page.get_by_text("It was rejected by")).to_be_visible()


def test_hostile_words_are_only_words_where_a_person_decides(server: Served, page: Page) -> None:
    asked = ask(server, HOSTILE, "k")
    page.goto(asked["missing_requirements"]["authorization"][0]["url"])
    text = harmless(page)
    for words in HOSTILE[:3]:
        assert words.replace('"', '\\"') in text
    assert "\\u202e" in text
    assert page.get_by_role("button").count() == 2


def test_hostile_words_are_only_words_in_the_console(server: Served, page: Page, tmp_path: Path) -> None:
    ask(server, HOSTILE, "k")
    assert toolyard("approve", "1", folder=tmp_path).code == 0
    assert server.request("GET", "/v1/calls/k?wait=20")["value"] == HOSTILE
    entering = toolyard("console", "--json", folder=tmp_path).out
    url, code = re.search(r'"url": "([^"]+)"', entering), re.search(r'"code": "([^"]+)"', entering)
    assert url is not None
    assert code is not None
    page.goto(url[1])
    page.get_by_role("textbox").fill(code[1])
    page.get_by_role("button").first.click()
    picture(page, "console.png")
    for path in ("/console", "/console/tools", "/console/calls"):
        page.goto(server.address + path)
        harmless(page)
    page.locator("main td a").first.click()
    text = harmless(page)
    assert "<script>window.hacked = 1</script>" in text
    assert "\\u202e" in text
