"""Keeps the secrets and tokens that a call was given out of its results, errors, progress and log.

A value is looked for as it is, and as programs write it down without meaning to show it: in Base64 (both alphabets,
with or without padding, inside something larger, or broken into lines), in hexadecimal, and escaped for a URL, HTML,
JSON or Python, as text or as bytes. What is found is replaced by `[secret NAME]`, and the text around it is left whole.
A tool that wants to give its secret away can always find another way; this is for those that do not want to. Values of
fewer than four characters, backslashes not counted, are not looked for: they would be found everywhere.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from .escapes import Reading, Unbroken, escapes_letters, has_broken_base64, is_escaped, without_half_an_escape

SHORTEST = 4
MOST_ESCAPED = 12
"""How many characters stand for one at most: in JSON those of a surrogate pair, in a URL those of four bytes."""
_needs_no_escape = re.compile(r"[A-Za-z0-9]*").fullmatch
_plain = re.compile(r"[A-Za-z0-9]+").findall


class _Escapable(Struct, frozen=True):
    """A form of a secret that may have been escaped: the form with its own escapes undone, a part of it that no escape
    changes, and what is shown in its place."""

    text: str
    part: str
    shown: str


class Scrubber:
    """Replaces one call's secrets in texts and JSON values. It has the secrets in clear, and so lives no longer than
    the call does. (They are not put into regular expressions either: Python caches those beyond the call.)"""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        # By each form that a secret may take: what is shown in its place.
        self._names: dict[str, str] = {}
        self._numbers: dict[int | float, str] = {}
        self._escapable: list[_Escapable] = []
        for name, value in given:
            shown = f"[secret {name}]"
            self._numbers |= dict.fromkeys(_as_numbers(value), shown)
            for form in dict.fromkeys(_forms(value)):
                self._names[form] = shown
                if not _needs_no_escape(form) and len(read := Reading(form).text) >= SHORTEST:
                    self._escapable.append(_Escapable(read, _longest(form, read), shown))
        looked_for = [*self._names, *(each.text for each in self._escapable)]
        # A secret of punctuation alone has no part that stays plain, so every escaped text has to be read for it.
        self._has_no_letters = any(not each.part for each in self._escapable)
        self._shortest = min(map(len, looked_for), default=0)
        self.longest = MOST_ESCAPED * max(map(len, self._names), default=0)
        """How many characters a secret is written in at most, unless it was escaped again and again."""

    def text(self, text: str) -> str:
        """The text with every secret replaced, in one pass, so that a replacement is never searched itself. Of two
        findings that overlap, the first one's name is shown."""
        if len(text) < self._shortest:  # an escape is longer than what it stands for, so it cannot hide here either
            return text
        parts, at = [], 0
        for start, end, shown in sorted(self._found(text), key=lambda each: (each[0], -each[1])):
            if start >= at:
                parts += [text[at:start], shown]
            at = max(at, end)
        return "".join([*parts, text[at:]]) if parts else text

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where secrets stand in the text: start, end, and what is shown there instead."""
        for form, shown in self._names.items():
            for start in _places(form, text):
                yield *without_half_an_escape(text, start, start + len(form)), shown
        if is_escaped(text):
            # Undoing escapes is slow, so it is done only where the plain part of a secret is in the text.
            likely = [each for each in self._escapable if each.part in text]
            if self._has_no_letters or escapes_letters(text):
                likely = [*self._escapable, *(_Escapable(form, "", shown) for form, shown in self._names.items())]
            yield from _read(likely, text, Reading(text if likely else ""))
        if has_broken_base64(text):
            forms = [_Escapable(form, "", shown) for form, shown in self._names.items()]
            yield from _read(forms, text, Unbroken(text))

    def value(self, value: Any) -> Any:
        """A JSON value with every secret in it replaced, all the way down. A number that is a secret becomes a text."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(name): self.value(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, bytes):
            return self.text(base64.b64encode(value).decode())
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._names.get(str(value)) or self._numbers.get(abs(value), value)
        return value

    def is_number(self, value: float) -> bool:
        """Whether a number is a secret, however a program has come by it."""
        return str(value) in self._names or abs(value) in self._numbers


def scrubber_of(secrets: Mapping[str, str], tokens: Mapping[str, str]) -> Scrubber | None:
    """The scrubber for a call that was given these secrets and tokens; None where it was given none."""
    return Scrubber([*tokens.items(), *secrets.items()]) if secrets or tokens else None


def _forms(value: str) -> Iterator[str]:
    """What a secret may be written as, before any escaping. No form is shorter than `SHORTEST`."""
    for each in {value: 0, value.strip(): 0}:  # a file's last line end is often read along, and dropped when used
        if len(each.replace("\\", "")) >= SHORTEST:
            written = each.encode(errors="surrogatepass")
            yield each
            yield each.replace(" ", "+")  # in the query of a URL
            yield written.decode("latin-1")  # as bytes, which Python shows escaped
            yield from (written.hex(), written.hex().upper())
            yield from _in_base64(written)


def _as_numbers(value: str) -> Iterator[int | float]:
    """The numbers that programs make of a secret of digits. As a float it may have lost its last digits, and a zero in
    front is lost in any case; what has fewer than `SHORTEST` digits then is not looked for."""
    for read in (int, float):
        try:
            number = abs(read(value))
        except ValueError:
            continue
        digits = str(number).removesuffix(".0").replace(".", "").lstrip("0")
        if digits[:1].isdigit() and len(digits) >= SHORTEST:  # and not `inf` or `nan`
            yield number


def _longest(form: str, read: str) -> str:
    """The longest run of letters and digits in a form that is no part of an escape: escaping leaves those alone, but
    for programs that escape everything, which `escapes_letters` finds."""
    return max((run for run in _plain(read) if run in form), key=len, default="")


def _read(forms: Iterable[_Escapable], text: str, reading: Reading | Unbroken) -> Iterator[tuple[int, int, str]]:
    """Where these forms stand in a text that has to be read first: start and end in the text as it is written."""
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
    """A value in Base64: by itself, and inside something larger. Base64 takes three bytes at a time, so the value may
    begin at the first, second or third byte of a group; given are the characters that depend on the value alone."""
    for alphabet in (None, b"-_"):
        whole = base64.b64encode(value, alphabet).decode()
        yield from (whole, whole.rstrip("="))
        # With one foreign byte before it, the first two characters also depend on that byte; with two, the first three.
        for before, first in ((0, 0), (1, 2), (2, 3)):
            encoded = base64.b64encode(b"\0" * before + value, alphabet).decode()
            yield encoded[first : (before + len(value)) * 8 // 6]
