"""What verbs write: text, JSON and tables on standard output, and complaints on standard error.

Whatever callers, tools and other servers said is shown as text and does nothing to the terminal: hidden characters are
spelled out, whether a person looks on or a file takes it. No verb writes in another way.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer

from ...model.errors import InvalidInput, SetupError, ToolyardError
from ...model.raised import named
from ...text.hidden import escaped, escaped_json, in_one_line

CLEAR = "\x1b[H\x1b[2J"
NOTHING = "-"
"""A cell of a table that has nothing in it."""


def say(text: str) -> None:
    """Writes to standard output."""
    sys.stdout.write(escaped(text))


def complain(text: str) -> None:
    """Writes to standard error."""
    sys.stderr.write(escaped(text))


def say_again(text: str) -> None:
    """Writes to standard output, on a terminal in the place of what was there."""
    sys.stdout.write(CLEAR + escaped(text) if sys.stdout.isatty() else escaped(text) + "\n")
    sys.stdout.flush()


@contextmanager
def complaints() -> Iterator[None]:
    """Where a server refuses or is not there, says so on standard error and ends the verb with exit code 1."""
    try:
        yield
    except ToolyardError as error:
        if isinstance(error, SetupError):
            raise
        details = [error.developer_message] if error.developer_message else []
        if isinstance(error, InvalidInput):
            details += [f"{problem.path}: {problem.sentence}" for problem in error.problems]
        complain("\n  ".join([error.message, *details]) + "\n")
        raise typer.Exit(1) from None
    except (LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        # What is not a server of toolyard's may answer with anything.
        raise SetupError(f"the server's answer is not one of toolyard's ({named(error)})") from error


def pretty(value: Any) -> str:
    """A value as JSON, laid out to be read. It says exactly what the value is."""
    return escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n"


def in_json(value: Any) -> str:
    """A value as JSON in one line."""
    return escaped_json(msgspec.json.encode(value).decode()) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a line of names above it, each row in one line."""
    lines = [columns, *([in_one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def shown_time(seconds: float | None) -> str:
    """A time in UTC, to the minute."""
    return NOTHING if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
