"""The pieces of HTML that the console's pages are made of: code, JSON, tables, lists.

Whatever callers, tools and workers wrote is text here: it is escaped, and hidden characters in it are spelled out.
"""

from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from ...text.hidden import escaped_json
from ..pages.layout import shown

MOST_CHARACTERS = 20_000
"""How much of a JSON document is shown before it is cut."""
MOST_IN_A_CELL = 200
NOTHING = "–"


def brief(text: object) -> str:
    """Text as HTML, cut where it is longer than a line or two."""
    whole = str(text)
    return shown(whole if len(whole) <= MOST_IN_A_CELL else whole[:MOST_IN_A_CELL] + "…")


def code(text: object) -> str:
    return f"<code>{shown(text)}</code>"


def json_text(data: bytes, whole: str = "") -> str:
    """JSON as HTML, laid out to be read. A long document is cut, which is said; `whole` is HTML that links to all of
    it."""
    text = msgspec.json.format(data, indent=2).decode()
    cut = ""
    if len(text) > MOST_CHARACTERS:
        said = f"Cut: these are the first {MOST_CHARACTERS:,} of {len(text):,} characters. {whole}"
        cut = f"<p class='note'>{said.rstrip()}</p>"
    return f"<pre tabindex='0'>{escape(escaped_json(text[:MOST_CHARACTERS]))}</pre>{cut}"


def whole_json(data: bytes) -> str:
    """JSON as HTML, laid out to be read, with nothing cut."""
    return f"<pre tabindex='0'>{escape(escaped_json(msgspec.json.format(data, indent=2).decode()))}</pre>"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A table of two columns: names, which are text, and values, which are HTML."""
    cells = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a heading for each column. Headings are text, cells HTML."""
    heads = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='wide' tabindex='0'><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"


def bullets(lines: Iterable[str]) -> str:
    """A list. Its lines are HTML."""
    return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"
