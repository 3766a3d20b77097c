"""Keeps what a call was given in confidence out of everything that the call says.

A value is looked for as it is, and as programs write it down without meaning to show it: in Base64 (both alphabets,
with or without padding, and also inside of something larger), escaped for an address, for JSON and for Python. What is
found is replaced by `[secret NAME]`. A tool that wants to give its secret away can always find another way; this is for
those that do not. Values under four characters are not looked for: they are everywhere.
"""

import base64
import logging
import re
import sys
import traceback
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from msgspec.structs import replace

if TYPE_CHECKING:
    from .errors import ToolError
    from .running import Question

SHORTEST = 4
_AS_IN_JAVASCRIPT = "!*'()"
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_escape = re.compile(
    r"\\+(?:u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|([nrtbf]))?"
).finditer
_needs_no_escape = re.compile(r"[A-Za-z0-9 _.~!#$%()*+,:;=?@\[\]^{|}-]*").fullmatch
_percent = re.compile("%[0-9A-F]{2}")


class Scrubber:
    """For one call. It knows the values in clear, and so lives no longer than the call. (Nor are they put into regular
    expressions: Python remembers those.)"""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        self._names: dict[str, str] = {}
        self._escapable: list[tuple[str, str]] = []
        for name, value in given:
            shown = f"[secret {name}]"
            self._names |= dict.fromkeys(_forms(value), shown)
            if not _needs_no_escape(value):
                plain = {Unescaped(each).text for each in (value, value.strip())}
                self._escapable += [(each, shown) for each in plain if len(each) >= SHORTEST]

    def text(self, text: str) -> str:
        """In one pass, so that nothing is looked for in what was put in. Of two that overlap the first is named."""
        parts, at = [], 0
        for start, end, shown in sorted(self._found(text), key=lambda each: (each[0], -each[1])):
            if start >= at:
                parts += [text[at:start], shown]
            at = max(at, end)
        return "".join([*parts, text[at:]]) if parts else text

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """From where to where, and what is to stand there."""
        for form, shown in self._names.items():
            yield from ((start, start + len(form), shown) for start in _places(form, text))
        if self._escapable and "\\" in text:
            unescaped = Unescaped(text)
            for value, shown in self._escapable:
                for start in _places(value, unescaped.text):
                    yield unescaped.source(start), unescaped.source(start + len(value)), shown

    def value(self, value: Any) -> Any:
        """A JSON value, all the way down. A number that is a secret becomes a text."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(name): self.value(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, bytes):
            return self.text(base64.b64encode(value).decode())
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._names.get(str(value), value)
        return value

    def error(self, error: "ToolError") -> "ToolError":
        """The same one: nobody else should see it as it was."""
        error.message = self.text(error.message)
        if error.developer_message is not None:
            error.developer_message = self.text(error.developer_message)
        if error.additional_prompt_content is not None:
            error.additional_prompt_content = self.text(error.additional_prompt_content)
        error.args = tuple(map(self.value, error.args))
        return error

    def question(self, question: "Question") -> "Question":
        return replace(
            question,
            name=self.text(question.name),
            message=self.text(question.message),
            schema=self.value(question.schema),
            url=self.text(question.url),
            request=self.value(question.request),
        )


def scrubber_of(secrets: Mapping[str, str], tokens: Mapping[str, str]) -> Scrubber | None:
    """None where nothing was given."""
    return Scrubber([*tokens.items(), *secrets.items()]) if secrets or tokens else None


def _forms(value: str) -> Iterator[str]:
    """What a value may look like. None of them is shorter than what is looked for at all."""
    for each in {value, value.strip()}:
        if len(each) >= SHORTEST:
            yield from _escaped(each)
            yield from _in_base64(each.encode(errors="surrogatepass"))


def _escaped(value: str) -> Iterator[str]:
    yield value
    for quoted in (quote(value, safe=""), quote(value), quote_plus(value), quote(value, safe=_AS_IN_JAVASCRIPT)):
        yield quoted
        yield _percent.sub(lambda found: found[0].lower(), quoted)


def _places(form: str, text: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + len(form))


class Unescaped:
    """A text without its escapes, those of JSON, of Python, or of one inside of the other, however often; and where in
    it everything was. A value that is read in the same way is found in it."""

    def __init__(self, text: str) -> None:
        parts: list[str] = []
        self._starts, self._sources = [0], [0]
        length = last = 0
        for found in _escape(text):
            for piece, source in ((text[last : found.start()], last), (_meant(found), found.start())):
                parts.append(piece)
                self._starts.append(length)
                self._sources.append(source)
                length, last = length + len(piece), found.end()
        self._starts.append(length)
        self._sources.append(last)
        self.text = "".join([*parts, text[last:]])

    def source(self, place: int) -> int:
        """Where that place of it is in the text."""
        index = bisect_right(self._starts, place) - 1
        return self._sources[index] + place - self._starts[index]


def _meant(found: "re.Match[str]") -> str:
    """By one escape. Backslashes alone mean nothing here: how many of them are meant depends on how often it was
    escaped."""
    high, low, number, letter = found[1], found[2], found[3] or found[4] or found[5], found[6]
    if high:
        return (bytes.fromhex(high) + bytes.fromhex(low)).decode("utf-16-be")
    if number:
        return chr(min(int(number, 16), sys.maxunicode))
    return _LETTERS[letter] if letter else ""


def _in_base64(value: bytes) -> Iterator[str]:
    """Whole; and for each place that it may begin at among groups of three bytes, the characters that depend on nothing
    but it."""
    for alphabet in (None, b"-_"):
        whole = base64.b64encode(value, alphabet).decode()
        yield from (whole, whole.rstrip("="))
        for before, first in ((0, 0), (1, 2), (2, 3)):
            encoded = base64.b64encode(b"\0" * before + value, alphabet).decode()
            yield encoded[first : (before + len(value)) * 8 // 6]


# -- what is logged while a call runs --------------------------------------------------------------

active: ContextVar[Scrubber | None] = ContextVar("what the running call was given", default=None)


def scrub_logs() -> None:
    """From now on every record that is logged while a call runs is without what the call was given, whoever logs it and
    whoever writes it down. Once is enough; again does nothing."""
    make = logging.getLogRecordFactory()
    if isinstance(make, _Records):
        return
    logging.setLogRecordFactory(_Records(make))


class _Records:
    """Makes records as before, and scrubs them where there is something to scrub."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        scrubber = active.get()
        if scrubber is not None:
            _scrub(record, scrubber)
        return record


def _scrub(record: logging.LogRecord, scrubber: Scrubber) -> None:
    try:
        message = record.getMessage()
    except Exception:  # an author's arguments: whoever writes it down says what is wrong with them
        message = f"{record.msg} {record.args}"
    record.msg, record.args = scrubber.text(message), None
    if record.exc_info:
        record.exc_text = scrubber.text("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
        record.exc_info = None
    if record.stack_info:
        record.stack_info = scrubber.text(record.stack_info)
