"""What a docstring says of a function: Google, NumPy and Sphinx styles alike."""

from inspect import getdoc
from typing import Any

from docstring_parser import ParseError, parse
from msgspec import Struct


class Described(Struct, frozen=True):
    """The function, its parameters and its result, each in the author's words."""

    summary: str = ""
    parameters: dict[str, str] = {}
    returns: str | None = None


def describe(function: Any) -> Described:
    """A docstring that cannot be parsed is taken whole as the description."""
    text = getdoc(function)
    if not text:
        return Described()
    try:
        parsed = parse(text)
    except ParseError:
        return Described(summary=text)
    return Described(
        summary=_joined(parsed.short_description, parsed.long_description),
        parameters={p.arg_name: _one_line(p.description) for p in parsed.params if p.description},
        returns=_one_line(parsed.returns.description) if parsed.returns and parsed.returns.description else None,
    )


def _joined(short: str | None, long: str | None) -> str:
    return "\n\n".join(part.strip() for part in (short, long) if part)


def _one_line(text: str) -> str:
    return " ".join(text.split())
