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
