"""Undoes the escapes of addresses (`%2F`), for what strangers send before it is known who they are.

The standard library's `unquote` takes a step of Python for each escape, and several for what only looks like one: eight
kilobytes of them take a hundred times as long as all else that a request costs. Here the whole text is decoded at once.
"""

from urllib.parse import unquote

MOST_PARAMETERS = 100
"""Of a query, or fields of a form: what reads them takes a step for each."""
MOST_UNSURE = 64
"""Percent signs in a text some of which begin no escape. Beyond them it is left as it is: nobody writes such a text but
to have it read."""


def unescaped(text: str) -> str:
    """The text as `unquote` gives it: escapes stand for bytes of UTF-8, and what is no text becomes U+FFFD."""
    if "%" not in text:
        return text
    try:
        # As an escape of Python's own, `\\x2F`, whose decoder is not written in Python. It takes two digits, too.
        plain = text.replace("\\", "\\\\").replace("%", "\\x").encode().decode("unicode_escape")
    except UnicodeDecodeError:
        return unquote(text) if text.count("%") <= MOST_UNSURE else text
    return plain.encode("latin-1").decode("utf-8", "replace")


def parameters(query: str) -> list[tuple[str, str]]:
    """The parameters of a query, or the fields of a form, in their order. Raises ValueError where they are too many."""
    if query.count("&") >= MOST_PARAMETERS:
        raise ValueError(f"Has at most {MOST_PARAMETERS} parameters")
    parts = [part.partition("=") for part in query.replace("+", " ").split("&") if part]
    return [(unescaped(name), unescaped(value)) for name, _, value in parts]
