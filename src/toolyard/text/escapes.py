"""Undoes escapes, and remembers where in the escaped text each character stood.

The scrubber looks for secrets in what a program printed, and programs escape what they print. `Reading` undoes the
escapes of URLs (`%2B`), of JSON and Python strings (`\\u002b`, `\\x2b`) and of HTML (`&#43;`), also where one was
escaped inside another, however often. Two texts that mean the same are then read alike, so that one can be found in the
other; how many backslashes or percent signs it took is forgotten on the way. `source` gives the way back: which part of
the escaped text has to be replaced.
"""

import codecs
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
# A run of backslashes and what it escapes, if anything. The first alternative is a surrogate pair, which JSON writes
# for one character beyond U+FFFF: it must come before the single \uXXXX, which would read its halves one by one.
_backslashes = re.compile(
    r"\\+(?:u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|([nrtbf]))?"
)
# %25 is an escaped percent sign, so that any number of them is one escape that was escaped again and again. Possessive:
# else every step of a run is remembered, in hundreds of megabytes.
_percents = re.compile("(?:%(?:25)*[0-9a-fA-F]{2})++")
_percent = re.compile("%(?:25)*([0-9a-fA-F]{2})").finditer
_escaped_percents = re.compile("%(?:25)+(?=[0-9a-fA-F]{2})").sub
LONG_RUN, MOST_PIECES = 2**16, 2**18
"""What is more is not taken apart: a secret found in it takes all of it along."""
_unfinished_escape = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|U[0-9a-fA-F]{0,7})?$|%[0-9a-fA-F]?$").search
_escape = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|[\"'/nrtbf])|%[0-9a-fA-F]{2}").match
_LONGEST_UNFINISHED = 9
"""`\\U` and seven of its eight digits."""
_NAMED_REFERENCES = {"quot": '"', "apos": "'", "lt": "<", "gt": ">", "amp": "&"}
_references = re.compile(r"&(?:amp;)*(?:(quot|apos|lt|gt|amp)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_letter_escaped = re.compile(
    r"[%\\&](?:(?:(?:25)*|u00|x|U000000|#[xX])(?:3\d|[46][1-9a-fA-F]|[57][0-9aA])|#(?:4[89]|5[0-7]|[6-9]\d|1[012]\d);)"
).search
"""An escaped ASCII letter or digit. No program writes one, unless it escapes every character."""
_breaks = re.compile(r"(?:\r?\n|(?:\\+r)?\\+n)[ \t]*").finditer
_FULL_LINE = 60
"""A line of Base64 that goes on in the next has at least so many characters: PEM breaks after 64, MIME after 76."""
_base64 = re.compile(r"[A-Za-z0-9+/_-]+").fullmatch
_ends_full = re.compile(rf"[A-Za-z0-9+/_-]{{{_FULL_LINE}}}(?:\\+r)?[\\\r]*$").search
Piece = tuple[str, int, int]
"""An unescaped piece of a text, and the start and end of what it was written as."""


class Reading:
    """A text with its escapes undone (`text`), and the way back to the text as it was written (`source`).

    The positions are worked out when `source` is first called: mostly nothing is found, and the list of positions takes
    fifty times the room of the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._read: list[tuple[str, Callable[[str], Iterable[Piece]]]] = []
        for sign, unescape, pieces in _KINDS:
            if sign in self.text:
                self._read.append((self.text, pieces))
                self.text = unescape(self.text)

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Start and end, in the text as it was written, of a part of `text`; that part must not be empty."""
        # Each step knows the way back through one kind of escape, so the kind that was undone last comes first.
        for step in reversed(self._steps):
            start, end = step.source(start, end)
        return start, end

    @cached_property
    def _steps(self) -> "list[_Step]":
        return [_Step(text, pieces(text)) for text, pieces in self._read]


def is_escaped(text: str) -> bool:
    """Whether there may be an escape in the text."""
    return "\\" in text or "%" in text or "&" in text


def has_broken_base64(text: str) -> bool:
    """Whether a line of the text ends as a full line of Base64 does. This is asked of everything that is scrubbed, and
    `split` finds the ends of lines far faster than a regular expression."""
    for end in ("\n", "\\n"):
        if end in text:
            for line in text.split(end):
                # The last twenty characters may be the backslashes and the \r of an escaped end of line.
                if len(line) >= _FULL_LINE and _ends_full(line[-_FULL_LINE - 20 :]):
                    return True
    return False


def escapes_letters(text: str) -> bool:
    """Whether whoever wrote the text escapes every character, so that no part of a secret is sure to be plain."""
    return _letter_escaped(text) is not None


class Unbroken:
    """A text with its broken lines of Base64 joined again (`text`, empty where there are none), and the way back to the
    text as it was written (`source`)."""

    def __init__(self, text: str) -> None:
        breaks = [("", each.start(), each.end()) for each in _breaks(text) if _is_full(text, each.start())]
        self._step = _Step(text, breaks) if breaks else None
        self.text = "" if self._step is None else self._step.text

    def source(self, start: int, end: int) -> tuple[int, int]:
        return (start, end) if self._step is None else self._step.source(start, end)


def _is_full(text: str, end: int) -> bool:
    """Whether the characters before this end of a line are a full line of Base64."""
    return end >= _FULL_LINE and _base64(text, end - _FULL_LINE, end) is not None


class _Step:
    """A text in which one kind of escape is undone, and the rest is left as it is."""

    def __init__(self, text: str, pieces: Iterable[Piece]) -> None:
        self._starts: list[int] = []
        self._pieces: list[Piece] = []
        parts: list[str] = []
        length = last = 0
        # An empty piece at the end of the text brings along the plain text behind the last escape.
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
        return self._source_of_character(start)[0], self._source_of_character(end - 1)[1]

    def _source_of_character(self, position: int) -> tuple[int, int]:
        """Where one character of `text` was written. A piece of one character may be an escape, and then all of it is
        the source; a longer piece is plain text, character by character. Of a text that was too much to be taken apart,
        the end is one piece."""
        index = bisect_right(self._starts, position) - 1
        meant, start, end = self._pieces[index]
        is_rest = self._is_cut and index == len(self._pieces) - 1
        if len(meant) != end - start or is_rest:
            return start, end
        within = start + position - self._starts[index]
        return within, within + 1


def _backslash_pieces(text: str) -> Iterator[Piece]:
    for found in _backslashes.finditer(text):
        yield _backslash_meaning(found), found.start(), found.end()


def _backslash_meaning(found: "re.Match[str]") -> str:
    """The character that a backslash escape stands for. Backslashes alone are dropped: how many are meant depends on
    how often the text was escaped, which nobody knows."""
    high, low, number, letter = found[1], found[2], found[3] or found[4] or found[5], found[6]
    if high:
        return (bytes.fromhex(high) + bytes.fromhex(low)).decode("utf-16-be")
    if number:
        return chr(min(int(number, 16), sys.maxunicode))  # \U may name more than Unicode has
    return _LETTERS[letter] if letter else ""


def _reference_pieces(text: str) -> Iterator[Piece]:
    for found in _references.finditer(text):
        yield _reference_meaning(found), found.start(), found.end()


def _reference_meaning(found: "re.Match[str]") -> str:
    """The character that an HTML character reference stands for."""
    number = int(found[2]) if found[2] else int(found[3], 16) if found[3] else None
    return _NAMED_REFERENCES[found[1]] if number is None else chr(min(number, sys.maxunicode))


def _percent_pieces(text: str) -> Iterator[Piece]:
    for run in _percents.finditer(text):
        if len(run[0]) > LONG_RUN:
            yield _percent_text(run), run.start(), run.end()
            continue
        content, starts = _percent_bytes(run)
        at = 0
        while at < len(content):
            size = 1 if content[at] < 0x80 else _utf8_size(content, at)
            meant = content[at : at + size].decode() if size > 1 else chr(content[at])
            yield meant, starts[at], starts[at + size]
            at += size


def _percent_text(run: "re.Match[str]") -> str:
    """What a run of percent escapes means."""
    plain = _escaped_percents("%", run[0]) if "%25" in run[0] else run[0]
    return bytes.fromhex(plain.replace("%", "")).decode(errors="toolyard.byte_as_character")


def _percent_bytes(run: "re.Match[str]") -> tuple[bytes, Sequence[int]]:
    """The bytes that a run of percent escapes stands for, and where each of them starts; last, where the run ends."""
    text, start = run[0], run.start()
    if "%25" not in text:  # no sign is escaped itself, so each byte takes three characters
        return bytes.fromhex(text.replace("%", "")), range(start, run.end() + 3, 3)
    signs = list(_percent(text))
    starts = [*(start + sign.start() for sign in signs), run.end()]
    return bytes(int(sign[1], 16) for sign in signs), starts


def _utf8_size(content: bytes, at: int) -> int:
    """How many bytes from here are one character in UTF-8. A byte that begins none is a character by itself, as it was
    in older encodings."""
    size = sum(content[at] >= least for least in (0, 0xC0, 0xE0, 0xF0))
    try:
        content[at : at + size].decode()
    except UnicodeDecodeError:
        return 1
    return size


def _byte_as_character(error: UnicodeError) -> tuple[str, int]:
    """Decodes a byte that is no UTF-8 as `_utf8_size` counts it: one character by itself."""
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("toolyard.byte_as_character", _byte_as_character)

# Percent signs come first: what is escaped for a URL is escaped last, when it is sent.
_KINDS: tuple[tuple[str, Callable[[str], str], Callable[[str], Iterable[Piece]]], ...] = (
    (
        "%",
        lambda text: _percents.sub(_percent_text, text),
        _percent_pieces,
    ),
    ("\\", lambda text: _backslashes.sub(_backslash_meaning, text), _backslash_pieces),
    ("&", lambda text: _references.sub(_reference_meaning, text), _reference_pieces),
)
"""Kinds of escapes, in the order they are undone: the sign each begins with, how a whole text is unescaped, which is
fast, and the same piece by piece, which also says where."""


def without_half_an_escape(text: str, start: int, end: int) -> tuple[int, int]:
    """The start and end of a part of a text, moved so that replacing the part leaves no half of an escape behind: what
    was JSON is still JSON. How often the text was escaped is not known, so backslashes at the ends of the part stay,
    except those before a letter that can be escaped."""
    while text[start] == "\\":
        start += 1
    while text[end - 1] == "\\":
        end -= 1
    # A secret that begins with "n" is also found behind the backslash of "\n": then the backslash has to go, too.
    unfinished = _unfinished_escape(text, max(0, start - _LONGEST_UNFINISHED), start)
    whole = unfinished and _escape(text, unfinished.start())
    if whole and whole.end() > start:
        run = _run_before(text, whole.start() + 1)
        is_quote = text[start] in "\"'"
        # Before a quote, an even number of backslashes are escaped backslashes: the quote itself is not escaped.
        start = whole.start() if not run else start if is_quote and run % 2 == 0 else whole.start() + 1 - run
    return start, end


def _run_before(text: str, position: int) -> int:
    """How many backslashes stand before this position, one after the other."""
    first = position
    while first and text[first - 1] == "\\":
        first -= 1
    return position - first
