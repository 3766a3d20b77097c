"""Reads a function's docstring, in Google's, NumPy's or Sphinx's style."""

from inspect import getdoc
from typing import Any

from msgspec import Struct

from ..lazy import load


class Described(Struct, frozen=True):
    """A parsed docstring: what the author says of the function, its parameters and its result."""

    summary: str = ""
    parameters: dict[str, str] = {}
    returns: str | None = None


def describe(function: Any) -> Described:
    """Parses a function's docstring. One that cannot be parsed is taken whole as the description."""
    text = getdoc(function)
    if not text:
        return Described()
    if "\n" not in text and ":" not in text:  # one sentence: no style has anything to find in it
        return Described(summary=text.strip())
    parser = load("docstring_parser")
    try:
        parsed = parser.parse(text)
    except parser.ParseError:
        return Described(summary=text)
    # The parser takes the summary and the rest apart; the model gets them as the author wrote them.
    between = "\n\n" if parsed.blank_after_short_description else "\n"
    return Described(
        summary=between.join(part.strip() for part in (parsed.short_description, parsed.long_description) if part),
        parameters={
            name: _one_line(parameter.description)
            for parameter in parsed.params
            if parameter.description and parameter.args[0] != "attribute"
            for name in parameter.arg_name.split(", ")  # NumPy style: `x, y : int`
        },
        returns=_one_line(parsed.returns.description) if parsed.returns and parsed.returns.description else None,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
