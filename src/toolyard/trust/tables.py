"""Reads `[[tables]]` of the settings: rules, limits, providers, issuers. What is wrong with one is said in a sentence
that names the table and the member, because whoever wrote it sees nothing but that sentence.

Each kind of table is read beside the rule that it becomes; what all of them share is here.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..model.patterns import tool_pattern

T = TypeVar("T")


class WrongTable(ValueError):
    """A sentence about one of a setting's tables. `number` is which of them, counted from 1: the sentence says so, too,
    and whoever read the file turns it into a line."""

    def __init__(self, sentence: str, number: int = 1) -> None:
        super().__init__(sentence)
        self.number = number


def is_pattern(text: str) -> bool:
    """Whether other texts than this very one may fit it."""
    return any(letter in text for letter in "*?[")


def patterns_of(table: Mapping[str, Any], at: str) -> tuple[str, ...]:
    """The member `tools` of a table, which is all tools where it is left out. Raises ValueError."""
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
    """What `read` makes of each table of the setting `name`. `read` is also given what to call the table in a sentence,
    `name[1]`. Raises WrongTable for a table that `read` raises ValueError for, and ValueError where these are no
    tables."""
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
    """One text, or a list of them, as a tuple: most lists in rules have one item. Raises ValueError."""
    values = (given,) if isinstance(given, str) else given
    # An empty text would fit nothing, or everything: it is always a mistake.
    if isinstance(values, list | tuple) and all(isinstance(value, str) and value for value in values):
        return tuple(values)
    raise ValueError(f"{at} must be text or a list of texts, got {given!r}")


def only(table: Mapping[str, Any], at: str, *known: str) -> None:
    """Raises ValueError for a member that nobody reads: a rule with a mistyped member would mean something else."""
    for name in table:
        if name not in known:
            raise ValueError(f"{at} has no {name!r}; it has {', '.join(known)}")
