"""What every page has: its frame, its headers, the one style sheet, and the pieces of HTML that most pages share.

No page has a script or a style of its own, and none may be shown in another page's frame. All of them can be read
without the style sheet and used with a keyboard alone.
"""

from collections.abc import Iterable
from html import escape

import msgspec

from ...text.hidden import escaped, escaped_json
from ...wires.contract import Headers, Reply

STYLE = b"""
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; }
h2 { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { padding: .8rem; background: #8882; border-radius: .3rem; overflow-x: auto; }
.method { font-weight: bold; }
form { margin: 1.5rem 0; }
label { display: block; font-weight: bold; }
input[type=text] { font: 20px/1.5 ui-monospace, monospace; padding: .2rem .5rem; margin: .3rem .8rem .3rem 0; }
button, .button { font: inherit; padding: .4rem 1.2rem; margin: .3rem .8rem .3rem 0; }
button, .button { border: 1px solid; border-radius: .3rem; }
.button { display: inline-block; text-decoration: none; }
[role=alert] { padding: .5rem .8rem; border-left: .3rem solid #c33; background: #c332; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
nav [aria-current] { font-weight: bold; text-decoration: none; }
.wide { overflow-x: auto; }
td ul { margin: 0; padding-left: 1.2rem; }
h2 code { font-size: 1em; }
select { font: inherit; padding: .2rem .5rem; margin: .3rem 0 1rem; }
.note { border-left: .3rem solid #8888; padding-left: .8rem; }
"""
HTML: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
FORM: Headers = [*HTML[:-1], (b"referrer-policy", b"same-origin"), (b"cache-control", b"no-store")]
"""The headers of a page with a form. It may be named as the origin of what it sends, else its form would be refused."""


def page(title: str, body: str, base_url: str = "", head: str = "") -> str:
    """A whole page as HTML. `body` and `head` are HTML, the title is text."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'>{head}"
        f"<link rel='stylesheet' href='{escape(base_url)}/style.css'>"
        f"</head><body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )


def shown(text: object) -> str:
    """Text as HTML, escaped, and with its hidden characters spelled out."""
    return escape(escaped(str(text)))


def table(rows: Iterable[tuple[str, object]]) -> str:
    """A table of two columns, as HTML: names and values, which are text."""
    cells = "".join(f"<tr><th scope='row'>{shown(a)}</th><td>{shown(b)}</td></tr>" for a, b in rows)
    return f"<table>{cells}</table>"


def paragraph(text: str) -> str:
    return f"<p>{shown(text)}</p>"


def alert(text: str) -> str:
    """What went wrong, as HTML; a screen reader says it first."""
    return f"<p role='alert'>{shown(text)}</p>"


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits: `5 s`, `3 min`, `2 h`, `4 d`."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{max(0, int(seconds))} s"


def html(text: str, status: int = 200, headers: Headers = HTML) -> Reply:
    """The reply that shows a page."""
    return Reply(status, text.encode(), headers)


MOST_CHARACTERS = 20_000
"""How much of a JSON document is shown before it is cut."""


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
