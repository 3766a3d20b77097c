"""Keeps what a call was given in confidence out of everything that the call says.

A value is looked for as it is, and as programs write it down without meaning to show it: in Base64 (both alphabets,
with or without padding, and also inside of something larger), escaped for an address, for JSON and for Python. What is
found is replaced by `[secret NAME]`. A tool that wants to give its secret away can always find another way; this is for
those that do not. Values under four characters are not looked for: they are everywhere.
"""

import base64
import json
import logging
import re
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
_percent = re.compile("%[0-9A-F]{2}")


class Scrubber:
    """For one call. It knows the values in clear, and so lives no longer than the call."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        self._names = {form: f"[secret {name}]" for name, value in given for form in _forms(value)}

    def text(self, text: str) -> str:
        if any(form in text for form in self._names):
            return self._any.sub(lambda found: self._names[found[0]], text)
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
    def _any(self) -> "re.Pattern[str]":
        """In one pass, so that nothing is looked for in what was put in; the longest first."""
        return re.compile("|".join(map(re.escape, sorted(self._names, key=len, reverse=True))))


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
    for ensure_ascii in (True, False):
        once = json.dumps(value, ensure_ascii=ensure_ascii)[1:-1]
        yield from (once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ensure_ascii)[1:-1])
    yield repr(value)[1:-1]


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
