"""What an escaped text means, and where in it each character was: escapes of JSON and Python, of one inside of the
other, however often, those of addresses, also around the others, and those of HTML. Two texts that mean the same are
read alike, so that one can be found in the other; how many backslashes or percent signs it took is forgotten on the
way.
"""

import codecs
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_backslashes = re.compile(
    r"\\+(?:u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|([nrtbf]))?"
)
_percents = re.compile("(?:%(?:25)*[0-9a-fA-F]{2})++")
"""Possessive: else every step of a run is remembered, in hundreds of megabytes."""
_percent = re.compile("%(?:25)*([0-9a-fA-F]{2})").finditer
_escaped_percents = re.compile("%(?:25)+(?=[0-9a-fA-F]{2})").sub
LONG_RUN, MOST_PIECES = 2**16, 2**18
"""What is more is not taken apart: a secret found in it takes all of it along."""
_begun = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|U[0-9a-fA-F]{0,7})?$|%[0-9a-fA-F]?$").search
_escape = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|[\"'/nrtbf])|%[0-9a-fA-F]{2}").match
_LONGEST_ESCAPE = 9
_NAMED = {"quot": '"', "apos": "'", "lt": "<", "gt": ">", "amp": "&"}
_references = re.compile(r"&(?:amp;)*(?:(quot|apos|lt|gt|amp)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_letter_escaped = re.compile(
    r"[%\\&](?:(?:(?:25)*|u00|x|U000000|#[xX])(?:3\d|[46][1-9a-fA-F]|[57][0-9aA])|#(?:4[89]|5[0-7]|[6-9]\d|1[012]\d);)"
).search
"""A letter or a digit, which no program escapes unless it escapes everything."""
_breaks = re.compile(r"(?:\r?\n|(?:\\+r)?\\+n)[ \t]*").finditer
_FULL_LINE = 60
"""Base64 is broken after 64 characters or 76."""
_base64 = re.compile(r"[A-Za-z0-9+/_-]+").fullmatch
_ends_full = re.compile(rf"[A-Za-z0-9+/_-]{{{_FULL_LINE}}}(?:\\+r)?[\\\r]*$").search
Piece = tuple[str, int, int]
"""What is meant, and from where to where it is written: as it is if it is as long, and else as one escape."""


class Reading:
    """A text as it is meant. Where in it each character was is worked out when it is asked for: mostly nothing is
    found, and all those places take fifty times the room of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._read: list[tuple[str, Callable[[str], Iterable[Piece]]]] = []
        for sign, meant, pieces in _KINDS:
            if sign in self.text:
                self._read.append((self.text, pieces))
                self.text = meant(self.text)

    def source(self, start: int, end: int) -> tuple[int, int]:
        """From where to where that part of it is written, which is not empty."""
        for step in reversed(self._steps):
            start, end = step.source(start, end)
        return start, end

    @cached_property
    def _steps(self) -> "list[_Step]":
        return [_Step(text, pieces(text)) for text, pieces in self._read]


def is_escaped(text: str) -> bool:
    """Whether there may be an escape in it."""
    return "\\" in text or "%" in text or "&" in text


def has_broken_base64(text: str) -> bool:
    """Whether lines end as those do. (To look for the lines' ends themselves takes far longer.)"""
    for end in ("\n", "\\n"):
        if end in text:
            for line in text.split(end):
                if len(line) >= _FULL_LINE and _ends_full(line[-_FULL_LINE - 20 :]):
                    return True
    return False


def escapes_letters(text: str) -> bool:
    """Whether it is by somebody who escapes everything."""
    return _letter_escaped(text) is not None


class Unbroken:
    """A text whose lines of Base64 are put together again."""

    def __init__(self, text: str) -> None:
        breaks = [("", each.start(), each.end()) for each in _breaks(text) if _is_full(text, each.start())]
        self._step = _Step(text, breaks) if breaks else None
        self.text = "" if self._step is None else self._step.text
        """Empty where there are none."""

    def source(self, start: int, end: int) -> tuple[int, int]:
        return (start, end) if self._step is None else self._step.source(start, end)


def _is_full(text: str, end: int) -> bool:
    return end >= _FULL_LINE and _base64(text, end - _FULL_LINE, end) is not None


class _Step:
    """One kind of escapes read, the rest left as it is."""

    def __init__(self, text: str, pieces: Iterable[Piece]) -> None:
        self._starts: list[int] = []
        self._pieces: list[Piece] = []
        parts: list[str] = []
        length = last = 0
        for meant, start, end in chain(islice(pieces, MOST_PIECES), [("", len(text), len(text))]):
            for piece in ((text[last:start], last, start), (meant, start, end)):
                if piece[0]:
                    self._starts.append(length)
                    self._pieces.append(piece)
                    parts.append(piece[0])
                    length += len(piece[0])
            last = end
        self.text = "".join(parts)
        self._is_cut = len(self._pieces) >= MOST_PIECES

    def source(self, start: int, end: int) -> tuple[int, int]:
        return self._source(start)[0], self._source(end - 1)[1]

    def _source(self, place: int) -> tuple[int, int]:
        """Where one character of it is written. Of a text that was too much to be taken apart, the end is one piece."""
        index = bisect_right(self._starts, place) - 1
        meant, start, end = self._pieces[index]
        is_rest = self._is_cut and index == len(self._pieces) - 1
        if len(meant) != end - start or is_rest:
            return start, end
        within = start + place - self._starts[index]
        return within, within + 1


def _of_strings(text: str) -> Iterator[Piece]:
    for found in _backslashes.finditer(text):
        yield _meant(found), found.start(), found.end()


def _meant(found: "re.Match[str]") -> str:
    """By one escape. Backslashes alone mean nothing here: how many of them are meant depends on how often it was
    escaped."""
    high, low, number, letter = found[1], found[2], found[3] or found[4] or found[5], found[6]
    if high:
        return (bytes.fromhex(high) + bytes.fromhex(low)).decode("utf-16-be")
    if number:
        return chr(min(int(number, 16), sys.maxunicode))
    return _LETTERS[letter] if letter else ""


def _of_markup(text: str) -> Iterator[Piece]:
    for found in _references.finditer(text):
        yield _named(found), found.start(), found.end()


def _named(found: "re.Match[str]") -> str:
    """By one reference."""
    number = int(found[2]) if found[2] else int(found[3], 16) if found[3] else None
    return _NAMED[found[1]] if number is None else chr(min(number, sys.maxunicode))


def _of_addresses(text: str) -> Iterator[Piece]:
    for run in _percents.finditer(text):
        if len(run[0]) > LONG_RUN:
            yield _decoded(run), run.start(), run.end()
            continue
        written, places = _written(run)
        at = 0
        while at < len(written):
            size = 1 if written[at] < 0x80 else _size(written, at)
            meant = written[at : at + size].decode() if size > 1 else chr(written[at])
            yield meant, places[at], places[at + size]
            at += size


def _decoded(run: "re.Match[str]") -> str:
    """What a run of percent signs means."""
    plain = _escaped_percents("%", run[0]) if "%25" in run[0] else run[0]
    return bytes.fromhex(plain.replace("%", "")).decode(errors="toolyard.as_it_was")


def _written(run: "re.Match[str]") -> tuple[bytes, Sequence[int]]:
    """The bytes of a run of percent signs, and where each begins; last, where the run ends. Without signs that are
    escaped themselves, each takes three characters."""
    said, start = run[0], run.start()
    if "%25" not in said:
        return bytes.fromhex(said.replace("%", "")), range(start, run.end() + 3, 3)
    signs = list(_percent(said))
    places = [*(start + sign.start() for sign in signs), run.end()]
    return bytes(int(sign[1], 16) for sign in signs), places


def _size(written: bytes, at: int) -> int:
    """How many of them are one character in UTF-8. What is none is a character each, as it was in older encodings."""
    size = sum(written[at] >= least for least in (0, 0xC0, 0xE0, 0xF0))
    try:
        written[at : at + size].decode()
    except UnicodeDecodeError:
        return 1
    return size


def _as_it_was(error: UnicodeError) -> tuple[str, int]:
    """One byte that is no character in UTF-8."""
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("toolyard.as_it_was", _as_it_was)

_KINDS: tuple[tuple[str, Callable[[str], str], Callable[[str], Iterable[Piece]]], ...] = (
    (
        "%",
        lambda text: _percents.sub(_decoded, text),
        _of_addresses,
    ),
    ("\\", lambda text: _backslashes.sub(_meant, text), _of_strings),
    ("&", lambda text: _references.sub(_named, text), _of_markup),
)
"""Escapes by their sign: what a text means, and the same piece by piece."""


def without_half_an_escape(text: str, start: int, end: int) -> tuple[int, int]:
    """That part of a text, and no half of an escape at its ends: what is left is as good JSON as it was. How often that
    was escaped is not known, so backslashes at the ends stay, but for those before a letter that can be escaped."""
    while text[start] == "\\":
        start += 1
    while text[end - 1] == "\\":
        end -= 1
    begun = _begun(text, max(0, start - _LONGEST_ESCAPE), start)
    whole = begun and _escape(text, begun.start())
    if whole and whole.end() > start:
        run = _run_before(text, whole.start() + 1)
        is_quote = text[start] in "\"'"
        start = whole.start() if not run else start if is_quote and run % 2 == 0 else whole.start() + 1 - run
    return start, end


def _run_before(text: str, place: int) -> int:
    """How many backslashes there are, one after the other."""
    first = place
    while first and text[first - 1] == "\\":
        first -= 1
    return place - first
