"""What the console's pages are made of. Whatever callers, tools and workers wrote is text here: it is escaped, and what
would be hidden in it is spelled out."""

from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from ...text.hidden import escaped, escaped_json
from ..pages.layout import age as age

MOST_CHARACTERS = 20_000
MOST_IN_A_CELL = 200
NOTHING = "–"


def shown(text: object) -> str:
    """As HTML."""
    return escape(escaped(str(text)))


def brief(text: object) -> str:
    """The same, cut where it is longer than a line or two."""
    whole = str(text)
    return shown(whole if len(whole) <= MOST_IN_A_CELL else whole[:MOST_IN_A_CELL] + "…")


def code(text: object) -> str:
    return f"<code>{shown(text)}</code>"


def json_text(data: bytes, whole: str = "") -> str:
    """JSON, laid out to be read; what is too long is cut, and that is said. `whole` is a link to where it is not, as
    HTML."""
    text = msgspec.json.format(data, indent=2).decode()
    cut = ""
    if len(text) > MOST_CHARACTERS:
        said = f"Cut: these are the first {MOST_CHARACTERS:,} of {len(text):,} characters. {whole}"
        cut = f"<p class='note'>{said.rstrip()}</p>"
    return f"<pre tabindex='0'>{escape(escaped_json(text[:MOST_CHARACTERS]))}</pre>{cut}"


def whole_json(data: bytes) -> str:
    """The same, and nothing is cut."""
    return f"<pre tabindex='0'>{escape(escaped_json(msgspec.json.format(data, indent=2).decode()))}</pre>"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Two columns: a name, and HTML."""
    cells = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a heading for each column. Cells are HTML."""
    heads = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='wide' tabindex='0'><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"


def bullets(lines: Iterable[str]) -> str:
    """Of HTML."""
    return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"
