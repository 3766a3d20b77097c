"""No link leads nowhere."""

from pathlib import Path

import pytest

from .markdown import anchors, links, pages, shown


@pytest.mark.parametrize("page", [pytest.param(page, id=shown(page)) for page in pages()])
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = [target for target in links(page.read_text(encoding="utf-8")) if not leads_somewhere(page, target)]
    assert not broken


def leads_somewhere(page: Path, target: str) -> bool:
    if "://" in target or target.startswith("mailto:"):
        return True
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    return there.exists() and (not anchor or anchor in anchors(there.read_text(encoding="utf-8")))


def test_a_link_to_a_page_or_heading_that_is_not_there_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading: its `name`\n")
    assert leads_somewhere(page, "#a-heading-its-name")
    assert leads_somewhere(page, "page.md#a-heading-its-name")
    assert not leads_somewhere(page, "#another")
    assert not leads_somewhere(page, "other.md")
