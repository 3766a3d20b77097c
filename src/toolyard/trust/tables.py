"""Rules as they stand in the settings, read with a sentence for whatever is wrong."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..model.patterns import tool_pattern

T = TypeVar("T")


class WrongTable(ValueError):
    """A sentence about one of a setting's tables, which it names. `number` is its place among them."""

    def __init__(self, sentence: str, number: int = 1) -> None:
        super().__init__(sentence)
        self.number = number


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def patterns_of(table: Mapping[str, Any], at: str) -> tuple[str, ...]:
    patterns = texts_of(table.get("tools", "*"), f"{at}.tools")
    for pattern in patterns:
        try:
            tool_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"{at}.tools: {pattern!r} is not a pattern. {error}") from None
    if not patterns:
        raise ValueError(f"{at}.tools must name some tools; leave it out for all of them")
    return patterns


def each_table(given: Any, name: str, read: Callable[[Mapping[str, Any], str], T]) -> list[T]:
    """What `read` makes of each, which is also told what it is called. Raises WrongTable for one that is not right, and
    ValueError where these are no tables."""
    if not isinstance(given, list) or not all(isinstance(table, Mapping) for table in given):
        raise ValueError(f"a list of tables: [[{name}]]")
    made = []
    for number, table in enumerate(given, 1):
        try:
            made.append(read(table, f"{name}[{number}]"))
        except ValueError as error:
            raise WrongTable(str(error), number) from None
    return made


def texts_of(given: Any, at: str) -> tuple[str, ...]:
    values = (given,) if isinstance(given, str) else given
    if isinstance(values, list | tuple) and all(isinstance(value, str) and value for value in values):
        return tuple(values)
    raise ValueError(f"{at} must be text or a list of texts, got {given!r}")


def only(table: Mapping[str, Any], at: str, *known: str) -> None:
    for name in table:
        if name not in known:
            raise ValueError(f"{at} has no {name!r}; it has {', '.join(known)}")
