"""Keeps what a call was given in confidence out of everything that the call says.

A value is looked for as it is, and as programs write it down without meaning to show it: in Base64 (both alphabets,
with or without padding, and also inside of something larger), escaped for an address, for JSON and for Python. What is
found is replaced by `[secret NAME]`. A tool that wants to give its secret away can always find another way; this is for
those that do not. Values under four characters are not looked for: they are everywhere.
"""

import base64
import logging
import re
import struct
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from msgspec.structs import replace

if TYPE_CHECKING:
    from .errors import ToolError
    from .running import Question

SHORTEST = 4
_AS_IN_JAVASCRIPT = "!*'()"
_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_needs_no_escape = re.compile(r"[A-Za-z0-9 _.~!#$%()*+,:;=?@\[\]^{|}-]*").fullmatch
_percent = re.compile("%[0-9A-F]{2}")


class Scrubber:
    """For one call. It knows the values in clear, and so lives no longer than the call."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        self._names: dict[str, str] = {}
        self._loose: list[tuple[re.Pattern[str], str]] = []
        for name, value in given:
            shown = f"[secret {name}]"
            self._names |= dict.fromkeys(_forms(value), shown)
            if (pattern := _escaped_again(value)) is not None:
                self._loose.append((pattern, shown))

    def text(self, text: str) -> str:
        if any(form in text for form in self._names) or any(pattern.search(text) for pattern, _ in self._loose):
            pattern, shown = self._any
            return pattern.sub(lambda found: shown[(found.lastindex or 0) - 1], text)
        return text

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

    @cached_property
    def _any(self) -> tuple["re.Pattern[str]", list[str]]:
        """In one pass, so that nothing is looked for in what was put in; the longest first. And what to put in for
        each group."""
        exact = [(re.escape(form), self._names[form]) for form in sorted(self._names, key=len, reverse=True)]
        both = [(pattern.pattern, shown) for pattern, shown in self._loose] + exact
        return re.compile("|".join(f"({pattern})" for pattern, _ in both)), [shown for _, shown in both]


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


def _escaped_again(value: str) -> "re.Pattern[str] | None":
    """Escaped for JSON, for Python, or for one inside of the other, however often. None where nothing is escaped."""
    value = value.strip()
    if len(value) < SHORTEST or _needs_no_escape(value):
        return None
    first, *rest = re.findall(r"\\+|.", value, re.DOTALL)
    after = zip(rest, [first, *rest], strict=False)
    return re.compile(
        _letter(first, "") + "".join(_letter(each, "" if "\\" in last else r"\\*") for each, last in after)
    )


def _letter(letter: str, slashes: str) -> str:
    """What one character may have become: itself behind backslashes, or its number."""
    if letter[0] == "\\":
        return r"\\+"
    if _needs_no_escape(letter):
        return re.escape(letter)
    numbers = "".join(rf"\\+u{unit:04x}" for unit in _units(letter))
    ways = [slashes + re.escape(letter), rf"(?i:{numbers}|\\+x{ord(letter):02x}|\\+U{ord(letter):08x})"]
    if letter in _SHORT:
        ways.append(r"\\+" + _SHORT[letter])
    return f"(?:{'|'.join(ways)})"


def _units(letter: str) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 2}H", data) if (data := letter.encode("utf-16-be", "surrogatepass")) else ()


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
