"""Sphinx's source folder, made from the pages of the repository and from the code.

A page keeps its text. What differs between a code host and the site is changed on the way: links to pages that have
another place there, and the file name of an example, which is shown above it.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from . import commands, names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BESIDE_DOCS = {
    "README.md": "readme.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/reporting.md",
    "bench/README.md": "project/bench.md",
    "bench/results.md": "project/bench-results.md",
}
"""Pages from elsewhere in the repository, and their places on the site."""

_link = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s]+)\)")
_fence = re.compile(r"^```(\w*)(.*)$")
_title = re.compile(r'title="([^"]+)"')


def write_sources(folder: Path) -> None:
    """Makes the source folder, or brings it up to date: a file that stays as it is keeps its time, so that Sphinx does
    not read it again."""
    wanted = {place: text.encode() for place, text in sources().items()}
    wanted |= {f"images/{picture.name}": picture.read_bytes() for picture in DOCS.glob("images/*")}
    for file in folder.rglob("*"):
        if file.is_file() and file.relative_to(folder).as_posix() not in wanted:
            file.unlink()
    for place, content in wanted.items():
        file = folder / place
        if not file.exists() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def sources() -> dict[str, str]:
    """The Markdown of every page of the site, by its place there."""
    found = {place_of(page): for_the_site(page) for page in written_pages()}
    found["index.md"] += navigation()
    found["reference/cli.md"] += commands.reference()
    for place, text in names.pages().items():
        found[place] = found.get(place, "") + text
    return found


@cache
def written_pages() -> list[Path]:
    """The pages that people wrote, wherever they stand in the repository."""
    return sorted([*DOCS.rglob("*.md"), *(ROOT / page for page in BESIDE_DOCS)])


def place_of(page: Path) -> str:
    """Where a page stands on the site."""
    path = page.relative_to(ROOT).as_posix()
    return BESIDE_DOCS[path] if path in BESIDE_DOCS else page.relative_to(DOCS).as_posix()


def for_the_site(page: Path) -> str:
    """A page's Markdown with the site's links, and with the file names of its examples."""
    lines, is_code = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if fence := _fence.match(line):
            line, is_code = line if is_code else _opening(fence[1], fence[2]), not is_code
        elif not is_code:
            line = _link.sub(lambda link: _moved(page, link), line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _opening(language: str, options: str) -> str:
    title = _title.search(options)
    return f"```{language}" if title is None else f"```{{code-block}} {language}\n:caption: {title[1]}\n"


def _moved(page: Path, link: re.Match[str]) -> str:
    """A link as the site has it. What it leads to may be a file that is not on the site: its text is left."""
    path, hash_, anchor = link[3].partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return link[0]
    there = (page.parent / path).resolve()
    if there not in written_pages() and there.parent != DOCS / "images":
        return link[2]
    here = PurePosixPath(place_of(page)).parent
    return f"{link[1]}[{link[2]}]({os.path.relpath(place_of(there), here)}{hash_}{anchor})"


# --- the navigation ------------------------------------------------------------------------------


class Section(NamedTuple):
    """A heading of `docs/index.md`, and the pages that are linked below it."""

    title: str
    places: list[str]


def sections() -> Iterator[Section]:
    """The site's navigation: each page stands where the index first links it."""
    seen = {"index.md"}
    for part in re.split(r"^## ", for_the_site(DOCS / "index.md"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        linked = [link[3].partition("#")[0] for link in _link.finditer(body)]
        places = [place for place in dict.fromkeys(linked) if place.endswith(".md") and place not in seen]
        seen.update(places)
        if places:
            yield Section(title, places)


def navigation() -> str:
    """The sections as MyST's tables of contents, which the theme shows beside every page."""
    return "".join(toctree(section.places, f":caption: {section.title}\n") for section in sections())


def toctree(places: list[str], options: str = "") -> str:
    return f"\n```{{toctree}}\n:hidden:\n{options}\n" + "".join(f"/{place}\n" for place in places) + "```\n"
