"""Cuts long texts, so that whatever is made of them is cheap, and no credential is cut in two.

Whoever hides credentials in a text looks for whole ones: a cut would leave half of one, which nobody finds. So the text
around a cut is searched before it is cut, and what stands next to the cut is left out.
"""

import re
from collections.abc import Callable

HIDDEN = "[hidden]"
MARGIN = 16 * 2**10
"""How many characters on either side of a cut are searched and left out. A credential is hardly ever longer."""
_credentials = re.compile(
    r"\bty_[A-Za-z0-9_.~-]{6,}|\beyJ[A-Za-z0-9_-]{8,}+(?P<jwt>\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*)?"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/=-]{6,}"
)
"""API keys, JWTs, a password in an address, and whatever an Authorization header has. What only begins as a JWT does is
matched as well, and left as it is: else a text of many such beginnings would be read from each of them to its end."""
_begins_a_jwt = re.compile(r"eyJ[A-Za-z0-9_-]{8,}").fullmatch
_has_spaces = re.compile(r"\s").search


def without_credentials(text: str) -> str:
    """A text in which whatever looks like a credential is replaced."""
    return _credentials.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    is_header_of_none = found["jwt"] is None and _begins_a_jwt(found[0]) is not None
    return found[0] if is_header_of_none else HIDDEN


def excerpt(text: str, most: int, scrub: Callable[[str], str] = without_credentials, margin: int = MARGIN) -> str:
    """At most about `most` characters of a text: its beginning and its end, with how much is left out between them. A
    text that is not longer is returned as it is. `scrub` hides what has to be hidden in the two parts, and finds only
    what is written in at most `margin` characters, or without a space in it."""
    if len(text) <= most:
        return text
    head, tail = most - most // 4, most // 4
    if head + tail + 2 * margin >= len(text):
        # Both parts would overlap: the whole is searched, and nothing in it is cut yet.
        whole = scrub(text)
        return _joined(whole[:head], whole[-tail:] if tail else "", len(text)) if len(whole) > most else whole
    before, after = scrub(text[: head + margin]), scrub(text[-tail - margin :])
    return _joined(_without_last(before, margin), _without_first(after, margin), len(text))


def _joined(head: str, tail: str, size: int) -> str:
    return f"{head} [... {size - len(head) - len(tail)} of {size} characters are left out ...] {tail}"


def _without_last(text: str, count: int) -> str:
    """A text without so many of its last characters, and without the word that they are the end of."""
    kept, dropped = text[:-count], text[-count:]
    if _has_spaces(dropped) or kept[-1:].isspace():
        return kept
    return kept[: len(kept) - len(kept.rsplit(None, 1)[-1])] if kept else ""


def _without_first(text: str, count: int) -> str:
    """A text without so many of its first characters, and without the word that they are the beginning of."""
    dropped, kept = text[:count], text[count:]
    if _has_spaces(dropped) or kept[:1].isspace():
        return kept
    return kept[len(kept.split(None, 1)[0]) :] if kept else ""
