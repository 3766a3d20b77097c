"""What verbs write. What callers, tools and other servers said is shown as text and does nothing to the terminal:
hidden characters are spelled out, whether somebody looks on or a file takes it. No verb writes in another way."""

import sys
from typing import Any

import msgspec

from ...text.hidden import escaped, escaped_json

CLEAR = "\x1b[H\x1b[2J"


def say(text: str) -> None:
    """On standard output."""
    sys.stdout.write(escaped(text))


def complain(text: str) -> None:
    """On standard error."""
    sys.stderr.write(escaped(text))


def say_again(text: str) -> None:
    """On a screen, in the place of what was there."""
    sys.stdout.write(CLEAR + escaped(text) if sys.stdout.isatty() else escaped(text) + "\n")
    sys.stdout.flush()


def pretty(value: Any) -> str:
    """As JSON, laid out to be read. It says exactly what the value is."""
    return escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n"


def in_json(value: Any) -> str:
    """The same in one line."""
    return escaped_json(msgspec.json.encode(value).decode()) + "\n"
