"""Characters that a person does not see and a model reads.

A tool's definition is approved by people and obeyed by models. What only one of them sees has no place in it: control
characters (and so escapes for terminals), what turns the direction of writing, what has no width, tags, private use,
and selectors that say nothing to the eye. Everything else passes, in any language.

Some of these characters are part of how people write. They pass where they are:
- a line end and a tab, but not in names and titles; a carriage return before a line end;
- between two emoji, the joiner that makes them one, and after a symbol the selector that makes it an emoji or text;
- after a virama, either joiner; between two Arabic letters, the non-joiner.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from .errors import path_of

Path = tuple[str | int, ...]

_NON_JOINER, _JOINER = "\u200c", "\u200d"
_TEXT, _EMOJI = "\ufe0e", "\ufe0f"
_KEYCAP = "\u20e3"
_VIRAMA = 9
"""The combining class of signs that take a letter's vowel."""
_ALSO_EMOJI = frozenset("\u203c\u2049\u2139\u3030")
"""Emoji that are no symbols to Unicode."""
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
) + "".join(f"\\U{plane:04x}fffe\\U{plane:04x}ffff" for plane in range(1, 14))
"""Written down, and not asked of Python, whose Unicode is another in each version."""
_in_lines = re.compile(f"[{_HIDDEN}]")
_in_one_line = re.compile(f"[\t\n{_HIDDEN}]")
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
"""Members of a definition that have no lines."""


class Unseen(Struct, frozen=True):
    """The first such character of a text: which, where in the text (from 1), and where the text stands."""

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
    """One for each text that has any, all the way down: the values, and the names of members."""
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
    """The character, and its place from 1."""
    for found in (_in_one_line if one_line else _in_lines).finditer(text):
        if not _belongs(text, found.start(), one_line):
            return found[0], found.start() + 1
    return None


def escaped(text: str) -> str:
    """A text as it can be shown, whatever is in it."""
    return _in_lines.sub(lambda found: _escape(found[0]), text)


def name_of(character: str) -> str:
    """Unicode's name, or what it is."""
    kind: str = _KINDS.get(unicodedata.category(character), "UNASSIGNED")
    name: str = unicodedata.name(character, kind)
    return _NAMES.get(character, name)


def _belongs(text: str, index: int, one_line: bool) -> bool:
    """Whether a character that shows nothing is part of how people write, there."""
    character, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if character == "\r":
        return not one_line and after == "\n"
    if character in (_TEXT, _EMOJI):
        return _is_emoji(before) or (before in "#*0123456789" and before != "" and after == _KEYCAP)
    if character in (_JOINER, _NON_JOINER) and before and unicodedata.combining(before) == _VIRAMA:
        return True
    if character == _JOINER:
        joined = text[index - 2 : index - 1] if before == _EMOJI else before
        return _is_emoji(joined) and _is_emoji(after)
    if character == _NON_JOINER:
        return _is_arabic(before) and unicodedata.bidirectional(after or " ") == "AL"
    return False


def _is_emoji(character: str) -> bool:
    """Or another symbol. What is newer than this Python's Unicode is known by its place."""
    if not character or character.isascii():
        return False
    if 0x1F000 <= ord(character) <= 0x1FAFF or character in _ALSO_EMOJI:
        return True
    return unicodedata.category(character).startswith("S")


def _is_arabic(character: str) -> bool:
    """A letter of the Arabic kind, or a mark on one."""
    return bool(character) and unicodedata.bidirectional(character) in ("AL", "NSM")


def _is_one_line(path: Path) -> bool:
    """Names and titles of the definition itself: further down, a member of that name is data."""
    return len(path) == 1 and path[0] in _ONE_LINE


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
