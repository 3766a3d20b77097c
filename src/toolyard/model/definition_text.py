"""Finds hidden characters in a tool's definition, and says where they stand.

A definition is approved by people and obeyed by models, so what only models see has no place in it. `text.hidden` says
which characters these are, and where people need them to write; here, names and titles are also kept to one line.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ..text.hidden import escaped, has_hidden, positions
from .errors import path_of

Path = tuple[str | int, ...]

_ends_a_line = re.compile("[\t\n\r]").search
# Control characters have no name in Unicode's data; these are the ones that authors are likely to meet.
_NAMES = {
    "\x00": "NULL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\t": "TAB",
    "\n": "LINE FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
    "\x9b": "CONTROL SEQUENCE INTRODUCER",
}
_KINDS = {"Cc": "CONTROL CHARACTER", "Co": "PRIVATE USE", "Cs": "SURROGATE"}
_ONE_LINE = frozenset({"name", "wire_name", "id", "title"})
"""Members of a definition that must be one line."""


class Unseen(Struct, frozen=True):
    """The first hidden character of one text in a definition: which it is, its position in the text (from 1), and the
    path to the text."""

    path: Path
    character: str
    position: int

    def __str__(self) -> str:
        return f"U+{ord(self.character):04X} {name_of(self.character)}, character {self.position}"

    @property
    def member(self) -> str:
        """`input_schema.properties.a.description`, with nothing hidden in it."""
        return escaped(path_of(self.path))


def unseen_in(value: Any, path: Path = ()) -> Iterator[Unseen]:
    """The first hidden character of each text in a definition, all the way down: of values and of members' names."""
    if isinstance(value, str):
        if found := first_unseen(value, one_line=_is_one_line(path)):
            yield Unseen(path, *found)
    elif isinstance(value, Mapping):
        for name, below in value.items():
            if isinstance(name, str) and (found := first_unseen(name, one_line=True)):
                yield Unseen((*path, name), *found)
            yield from unseen_in(below, (*path, name))
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from unseen_in(below, (*path, index))


def first_unseen(text: str, *, one_line: bool = False) -> tuple[str, int] | None:
    """The first hidden character of a text, and its position from 1; None where it has none."""
    found = [next(positions(text))] if has_hidden(text) else []
    if one_line and (end := _ends_a_line(text)):
        found.append(end.start())
    return (text[min(found)], min(found) + 1) if found else None


def name_of(character: str) -> str:
    """The character's name in Unicode, or else the kind of character it is."""
    kind: str = _KINDS.get(unicodedata.category(character), "UNASSIGNED")
    name: str = unicodedata.name(character, kind)
    return _NAMES.get(character, name)


def _is_one_line(path: Path) -> bool:
    """Whether a text is a name or title of the definition itself. Further down, in a schema, a member that is called
    `title` is data."""
    return len(path) == 1 and path[0] in _ONE_LINE
