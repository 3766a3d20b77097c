"""Keeps what a call was given in confidence out of everything that the call says.

A value is looked for as it is, and as programs write it down without meaning to show it: in Base64 (both alphabets,
with or without padding, and also inside of something larger or broken into lines), in hexadecimal, and escaped for an
address, for HTML, for JSON and for Python, as text or as bytes. What is found is replaced by `[secret NAME]`, and what
is around it is left whole. A tool that wants to give its secret away can always find another way; this is for those
that do not. Values under four characters, without their backslashes, are not looked for: they are everywhere.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from .escapes import Reading, Unbroken, escapes_letters, has_broken_base64, is_escaped, without_half_an_escape

SHORTEST = 4
_needs_no_escape = re.compile(r"[A-Za-z0-9]*").fullmatch
_plain = re.compile(r"[A-Za-z0-9]+").findall


class _Escapable(Struct, frozen=True):
    """A form that may have been escaped: how it is read, and a part of it that no escape changes."""

    text: str
    part: str
    shown: str


class Scrubber:
    """For one call. It knows the values in clear, and so lives no longer than the call. (Nor are they put into regular
    expressions: Python remembers those.)"""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        self._names: dict[str, str] = {}
        self._escapable: list[_Escapable] = []
        for name, value in given:
            shown = f"[secret {name}]"
            for form in dict.fromkeys(_forms(value)):
                self._names[form] = shown
                if not _needs_no_escape(form) and len(read := Reading(form).text) >= SHORTEST:
                    self._escapable.append(_Escapable(read, _longest(form, read), shown))
        looked_for = [*self._names, *(each.text for each in self._escapable)]
        self._has_no_letters = any(not each.part for each in self._escapable)
        """Then all that it has may be escaped, where letters are not."""
        self._shortest = min(map(len, looked_for), default=0)

    def text(self, text: str) -> str:
        """In one pass, so that nothing is looked for in what was put in. Of two that overlap the first is named. (What
        is shorter than all that is looked for cannot have any of it: an escape is longer than what it means.)"""
        if len(text) < self._shortest:
            return text
        parts, at = [], 0
        for start, end, shown in sorted(self._found(text), key=lambda each: (each[0], -each[1])):
            if start >= at:
                parts += [text[at:start], shown]
            at = max(at, end)
        return "".join([*parts, text[at:]]) if parts else text

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """From where to where, and what is to stand there."""
        for form, shown in self._names.items():
            for start in _places(form, text):
                yield *without_half_an_escape(text, start, start + len(form)), shown
        if is_escaped(text):
            likely = [each for each in self._escapable if each.part in text]
            if self._has_no_letters or escapes_letters(text):
                likely = [*self._escapable, *(_Escapable(form, "", shown) for form, shown in self._names.items())]
            yield from _read(likely, text, Reading(text if likely else ""))
        if has_broken_base64(text):
            forms = [_Escapable(form, "", shown) for form, shown in self._names.items()]
            yield from _read(forms, text, Unbroken(text))

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


def scrubber_of(secrets: Mapping[str, str], tokens: Mapping[str, str]) -> Scrubber | None:
    """None where nothing was given."""
    return Scrubber([*tokens.items(), *secrets.items()]) if secrets or tokens else None


def _forms(value: str) -> Iterator[str]:
    """What a value may look like, before it is escaped. None of them is shorter than what is looked for at all."""
    for each in {value: 0, value.strip(): 0}:
        if len(each.replace("\\", "")) >= SHORTEST:
            written = each.encode(errors="surrogatepass")
            yield each
            yield each.replace(" ", "+")  # in the query of an address
            yield written.decode("latin-1")  # as bytes, which Python shows escaped
            yield from (written.hex(), written.hex().upper())
            yield from _in_base64(written)


def _longest(form: str, read: str) -> str:
    """The longest run of letters and digits in it, where they are no part of an escape. Nobody escapes those."""
    return max((run for run in _plain(read) if run in form), key=len, default="")


def _read(forms: Iterable[_Escapable], text: str, reading: Reading | Unbroken) -> Iterator[tuple[int, int, str]]:
    """Where they are in a text that means something else than it says."""
    for each in forms:
        for start in _places(each.text, reading.text):
            found = reading.source(start, start + len(each.text))
            yield *without_half_an_escape(text, *found), each.shown


def _places(form: str, text: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + len(form))


def _in_base64(value: bytes) -> Iterator[str]:
    """Whole; and for each place that it may begin at among groups of three bytes, the characters that depend on nothing
    but it."""
    for alphabet in (None, b"-_"):
        whole = base64.b64encode(value, alphabet).decode()
        yield from (whole, whole.rstrip("="))
        for before, first in ((0, 0), (1, 2), (2, 3)):
            encoded = base64.b64encode(b"\0" * before + value, alphabet).decode()
            yield encoded[first : (before + len(value)) * 8 // 6]
