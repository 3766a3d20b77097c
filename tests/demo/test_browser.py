"""The demo as a person goes through it, with a real browser for every link that it shows."""

import re
from pathlib import Path

from playwright.sync_api import Page

from ..cli.processes import DEADLINE_S
from .processes import demo


def test_a_person_follows_both_links_in_a_browser(tmp_path: Path, page: Page) -> None:
    made = tmp_path / "made"
    made.mkdir()
    with demo(made) as running:
        link, code = re.findall(r"open (\S+)\n   type (\S+), then", "\n".join(running.hear("Waiting for you")))[0]
        page.goto(link)
        page.get_by_label("The code").fill(code)
        page.get_by_role("button", name="Continue to demo").click()
        page.wait_for_url("**/authorize?*")
        assert "demo provider" in page.inner_text("main")
        page.get_by_label("Bob").check()
        page.get_by_role("button", name="Allow").click()
        page.wait_for_url("**/connections/demo/callback?*")
        assert "bob@demo.example" in page.inner_text("main")
        running.hear('"Your parcel is on its way"')
        link, code = re.findall(r"open (\S+)\n   type (\S+), and", "\n".join(running.hear("Waiting for you")))[0]
        page.goto(link)
        page.get_by_label("Code").fill(code)
        page.get_by_role("button", name="Approve").click()
        running.hear("500 cents for order 7")
        running.hear("That was all.")
        assert running.process.wait(DEADLINE_S) == 0
