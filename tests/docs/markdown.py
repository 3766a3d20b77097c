"""A page as its blocks, headings and links: as much of Markdown as the documentation uses."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = "```"

_link = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_not_in_a_slug = re.compile(r"[^\w\- ]")


def pages() -> list[Path]:
    """Every page that people read."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """What stands between two fences. `line` is its first line's number, `section` counts the `##` before it."""

    language: str
    text: str
    line: int
    section: int
    options: Mapping[str, str] = field(default_factory=dict)


def blocks(markdown: str) -> Iterator[Block]:
    """Every fenced block. The fence's first word is the language, the others are `name="value"`."""
    section, opened = 0, None
    inside: list[str] = []
    for number, line in enumerate(markdown.splitlines(), 1):
        if not line.startswith(FENCE):
            section += opened is None and line.startswith("## ")
            inside.append(line)
        elif opened is None:
            opened, inside = (number + 1, line.removeprefix(FENCE)), []
        else:
            words = shlex.split(opened[1]) or [""]
            options = dict(word.split("=", 1) for word in words[1:])
            yield Block(words[0], "\n".join(inside) + "\n", opened[0], section, options)
            opened = None
    if opened is not None:
        raise ValueError(f"the block at line {opened[0]} has no end")


def prose(markdown: str) -> list[str]:
    """The lines outside blocks."""
    parts = re.split(rf"^{FENCE}.*$", markdown, flags=re.MULTILINE)
    return [line for part in parts[::2] for line in part.splitlines()]


def links(markdown: str) -> list[str]:
    return [target for line in prose(markdown) for target in _link.findall(line)]


def anchors(markdown: str) -> set[str]:
    """What a link may name after `#`."""
    headings = [line.lstrip("#").strip() for line in prose(markdown) if line.startswith("#")]
    return {_not_in_a_slug.sub("", heading.lower()).replace(" ", "-") for heading in headings}
