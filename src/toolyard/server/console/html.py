"""The pieces of HTML that the console's pages are made of: tables, lists, short texts. Code and JSON are laid out by
`pages/layout`.

Whatever callers, tools and workers wrote is text here: it is escaped, and hidden characters in it are spelled out.
"""

from collections.abc import Iterable, Sequence
from html import escape

from ..pages.layout import shown

MOST_IN_A_CELL = 200
NOTHING = "–"


def brief(text: object) -> str:
    """Text as HTML, cut where it is longer than a line or two."""
    whole = str(text)
    return shown(whole if len(whole) <= MOST_IN_A_CELL else whole[:MOST_IN_A_CELL] + "…")


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
