"""The documentation site: it is built whole, every link in it leads somewhere, and it needs nothing from elsewhere."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from docs.site import commands, names, pages

import toolyard
import toolyard.testing
from tests.chromium import browsing
from toolyard.worker import worker

from .markdown import ROOT

NEXT_TO_PUBLIC = {"toolyard.testing.InProcessTransport"}
"""What public modules define for other parts of toolyard."""


class Page(HTMLParser):
    """What a page of the site has for links to lead to, where its own lead, and what a browser loads with it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "prefetch", "modulepreload"):
            self.loads.append(given["href"])
        elif tag != "a":
            self.loads += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]


def read(folder: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))}


def is_elsewhere(target: str) -> bool:
    return re.match(r"(\w+:)?//|mailto:", target) is not None


def broken(site: dict[Path, Page]) -> Iterator[str]:
    """Links of the site to a page, a file or an anchor that is not there."""
    for file, page in site.items():
        for target in [*page.links, *page.loads]:
            path, _, anchor = target.partition("#")
            there = (file.parent / path.partition("?")[0]).resolve() if path else file
            if is_elsewhere(target) or target.startswith("data:"):
                continue
            if not there.is_file() or (anchor and there in site and anchor not in site[there].anchors):
                yield f"{file.name}: {target}"


def loaded_from_elsewhere(folder: Path, site: dict[Path, Page]) -> Iterator[str]:
    """What a browser would fetch from another server."""
    for file, page in site.items():
        yield from (f"{file.name}: {target}" for target in page.loads if is_elsewhere(target))
    for file in folder.rglob("*.css"):
        imported = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", file.read_text(encoding="utf-8"))
        yield from (f"{file.name}: {target}" for target in imported)


def search_words(folder: Path) -> set[str]:
    """The words that search knows, by their stems."""
    index = (folder / "searchindex.js").read_text(encoding="utf-8")
    return set(json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["terms"])


def found_from_the_folder(folder: Path, words: str) -> list[str]:
    """The titles that somebody finds who opens the site as files. The first of them leads where it says."""
    with browsing() as browser:
        page = browser.new_context(offline=True).new_page()
        page.goto((folder / "index.html").as_uri())
        page.fill("input[name=q]", words)
        page.press("input[name=q]", "Enter")
        hits = page.locator("ul.search li a")
        hits.first.wait_for()
        titles = hits.all_inner_texts()
        with page.expect_navigation():
            hits.first.click()
        assert page.locator("h1").first.inner_text().startswith(titles[0])
    return titles


def test_the_site_is_built_whole_and_works_without_a_network(tmp_path: Path) -> None:
    """One test, because the build is dear. It fails for any warning of Sphinx."""
    folder = tmp_path / "site"
    built = subprocess.run([sys.executable, "-m", "docs.site", folder], cwd=ROOT, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")

    site = read(folder)
    assert folder / "guides" / "approvals.html" in site
    assert list(broken(site)) == []
    assert list(loaded_from_elsewhere(folder, site)) == []
    assert {"idempot", "approv", "drain"} <= search_words(folder)
    assert "Running a server" in found_from_the_folder(folder, "drains")

    verbs = site[folder / "reference" / "cli.html"].anchors
    assert [path for path, _ in commands.verbs() if commands.anchor(path) not in verbs] == []
    reference = {anchor for page in (folder / "reference" / "python").glob("*.html") for anchor in site[page].anchors}
    assert sorted(public_names() - reference) == []


def public_names() -> set[str]:
    """What authors import."""
    return {f"toolyard.{name}" for name in toolyard.__all__} | set(defined(toolyard.testing)) | set(defined(worker))


def defined(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        is_here = (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
        if is_here and not name.startswith("_") and f"{module.__name__}.{name}" not in NEXT_TO_PUBLIC:
            yield f"{module.__name__}.{name}"


def test_every_public_name_has_a_place_in_the_reference() -> None:
    placed = {name for page in names.PAGES.values() for name in page.names}
    assert sorted(public_names() - placed) == [], "give it a place in docs/site/names.py"


def test_the_reference_of_the_command_line_has_every_verb_and_option() -> None:
    text = commands.reference()
    for path, command in commands.verbs():
        section = text.split(f"\n## {path}\n", 1)[1].split("\n## ", 1)[0]
        assert command.help, f"{path} has no help"
        for parameter in (each for each in command.params if not each.hidden):
            assert parameter.help, f"{path} {parameter.name} has no help"
            for option in (each for each in parameter.opts + parameter.secondary_opts if each.startswith("-")):
                assert re.search(rf"[` ]{option}[`, ]", section), f"{path} {option}"


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [place for section in pages.sections() for place in section.places]
    assert len(listed) == len(set(listed))
    missing = {pages.place_of(page) for page in pages.written_pages()} - {*listed, "index.md"}
    assert not missing, "link it in docs/index.md, which is the navigation of the site"


def test_links_to_what_is_not_on_the_site_are_plain_text_there() -> None:
    assert "[Apache-2.0](LICENSE)" in (ROOT / "README.md").read_text(encoding="utf-8")
    readme = pages.for_the_site(ROOT / "README.md")
    assert "\nApache-2.0\n" in readme
    assert "(guides/demo.md)" in readme
    assert "(../readme.md#install)" not in pages.for_the_site(ROOT / "docs" / "quickstart.md")
    assert "(readme.md#install)" in pages.for_the_site(ROOT / "docs" / "quickstart.md")


# --- the checks themselves ------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["gone.html", "page.html#gone", "#gone"])
def test_a_link_that_leads_nowhere_is_found_out(link: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<h1 id="here"><a href="{link}"></a><a href="#here"></a></h1>')
    assert list(broken(read(tmp_path))) == [f"page.html: {link}"]


@pytest.mark.parametrize(
    "asset",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/x.css">',
        '<img src="http://pictures.example/x.png">',
    ],
)
def test_what_is_loaded_from_elsewhere_is_found_out(asset: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<a href="https://example.com">a link is no asset</a>{asset}')
    (tmp_path / "page.css").write_text("a { background: url(images/x.png) }")
    assert len(list(loaded_from_elsewhere(tmp_path, read(tmp_path)))) == 1


def test_a_font_that_a_style_sheet_loads_from_elsewhere_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "page.css").write_text("@import 'https://fonts.example/x.css'; a { background: url(//x.example/y) }")
    assert len(list(loaded_from_elsewhere(tmp_path, {}))) == 2
