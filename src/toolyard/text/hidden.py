"""Hidden characters: those that a person does not see and a model may act on. They move a terminal's cursor, turn the
direction of text, take no room, spell a text that is not shown, or look different on every screen.

One table says which characters these are (`RANGES`), and a second one where people need them to write (`FINE`): a
joiner between two emoji, say. Tools' definitions are refused, and output is escaped, by the same two tables. They are
written down here and not asked of Python's `unicodedata`, which differs from version to version.

No pattern of `FINE` looks at a neighbour that may be hidden itself, but for the selector between an emoji and a joiner,
which belongs to the emoji. So escaping one character never makes another one hidden, and text that was escaped once
has nothing hidden in it.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

RANGES: tuple[tuple[int, int, str], ...] = (
    (0x0000, 0x0008, "control"),
    (0x000B, 0x001F, "control"),
    (0x007F, 0x009F, "control"),
    (0x00AD, 0x00AD, "invisible"),
    (0x034F, 0x034F, "invisible"),
    (0x061C, 0x061C, "direction"),
    (0x115F, 0x1160, "invisible"),
    (0x17B4, 0x17B5, "invisible"),
    (0x180B, 0x180F, "invisible"),
    (0x200B, 0x200D, "invisible"),
    (0x200E, 0x200F, "direction"),
    (0x2028, 0x2029, "control"),
    (0x202A, 0x202E, "direction"),
    (0x2060, 0x2065, "invisible"),
    (0x2066, 0x2069, "direction"),
    (0x206A, 0x206F, "invisible"),
    (0x3164, 0x3164, "invisible"),
    (0xD800, 0xDFFF, "surrogate"),
    (0xE000, 0xF8FF, "private"),
    (0xFDD0, 0xFDEF, "noncharacter"),
    (0xFE00, 0xFE0F, "invisible"),
    (0xFEFF, 0xFEFF, "invisible"),
    (0xFFA0, 0xFFA0, "invisible"),
    (0xFFF0, 0xFFFB, "invisible"),
    *((plane | 0xFFFE, plane | 0xFFFF, "noncharacter") for plane in range(0, 0xF0000, 0x10000)),
    (0x13430, 0x1343F, "invisible"),
    (0x1BCA0, 0x1BCA3, "invisible"),
    (0x1D173, 0x1D17A, "invisible"),
    (0xE0000, 0xE007F, "tag"),
    (0xE0080, 0xE0FFF, "invisible"),
    (0xF0000, 0xFFFFD, "private"),
    (0xFFFFE, 0xFFFFF, "noncharacter"),
    (0x100000, 0x10FFFD, "private"),
    (0x10FFFE, 0x10FFFF, "noncharacter"),
)
"""The first and the last character of each range, and their kind. TAB (9) and LINE FEED (10) are the two control
characters that everybody writes."""

# -- where people need them ----------------------------------------------------------------------

# Scripts and signs, each as the inside of a character class.
_EMOJI = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3\u23f8-\u23fa"
    r"\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714"
    r"\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1"
    r"\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_VIRAMA = (
    r"\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u0e3a\u0eba\u0f84\u1039\u103a\u1714\u1715"
    r"\u1734\u17d2\u1a60\u1b44\u1baa\u1bab\u1bf2\u1bf3\u2d7f\ua806\ua82c\ua8c4\ua953\ua9c0\uaaf6\uabed\U00010a3f\U00011046"
    r"\U00011070\U0001107f\U000110b9\U00011133\U00011134\U000111c0\U00011235\U000112ea\U0001134d\U000113ce-\U000113d0"
    r"\U00011442\U000114c2\U000115bf\U0001163f\U000116b6\U0001172b\U00011839\U0001193d\U0001193e\U000119e0\U00011a34"
    r"\U00011a47\U00011a99\U00011c3f\U00011d44\U00011d45\U00011d97\U00011f41\U00011f42\U0001612f"
)
"""Signs that take the vowel from the letter before them; a joiner beside one chooses how both are drawn."""
_INDIC = (
    r"\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3\u1b00-\u1bff\ua800-\ua82f\ua880-\ua8df\ua980-\ua9ff"
    r"\U00011000-\U00011fff"
)
_MONGOLIAN = r"\u1820-\u1878\u1880-\u18aa"
_CURSIVE = (
    r"\u0620-\u06dc\u06de-\u070e\u0710-\u077f\u07c0-\u07ff\u0840-\u088f\u0897-\u08e1\u08e3-\u08ff\ufb50-\ufdcf"
    rf"\ufdf0-\ufdff\ufe70-\ufefc\U00010ac0-\U00010aff\U00010d00-\U00010d3f\U0001e900-\U0001e95f{_MONGOLIAN}"
)
"""Letters that join, with their marks and digits: Arabic, Syriac, N'Ko, Mandaic, Mongolian and others."""
_POINTS = r"\u0591-\u05c7"
_WITHOUT_SPACES = r"\u0e01-\u0e5b\u0e81-\u0edf\u1000-\u109f\u1780-\u17b3\u17b6-\u17e9\uaa60-\uaa7f"
_IDEOGRAPH = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fffd\U00030000-\U0003fffd"
_MATHS = (
    r"\u2229\u222a\u2268\u2269\u2272\u2273\u228a\u228b\u2293-\u2295\u2297\u229c\u22da\u22db\u2a3c\u2a3d\u2a9d\u2a9e\u2aac"
    r"\u2aad\u2acb\u2acc"
)
_STOPS = r"\u3001\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f"
_HIEROGLYPH = r"\U00013000-\U0001342f\U00013440-\U000143ff"

FINE: dict[str, str] = {
    "before the end of a line": r"\r(?=\n)",
    "which way an emoji is drawn": rf"(?<=[{_EMOJI}])[\ufe0e\ufe0f]",
    "in a keycap": r"(?<=[#*0-9])\ufe0f(?=\u20e3)",
    "between two emoji": rf"(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])",
    "between an emoji with a selector and another": rf"(?<=[{_EMOJI}]\ufe0f)\u200d(?=[{_EMOJI}])",
    "after a virama": rf"(?<=[{_VIRAMA}])[\u200c\u200d]",
    "before a virama": rf"(?<=[{_INDIC}])[\u200c\u200d](?=[{_VIRAMA}])",
    "before a Khmer shifter": r"(?<=[\u1780-\u17b3])\u200c(?=[\u17c9\u17ca])",
    "between letters that would join, and before an ending": rf"(?<=[{_CURSIVE}0-9A-Za-z])\u200c(?=[{_CURSIVE}])",
    "after a letter, which is drawn as if it joined": rf"(?<=[{_CURSIVE}])\u200d",
    "between Hebrew points": rf"(?<=[{_POINTS}])[\u034f\u200c\u200d](?=[{_POINTS}])",
    "between words that have no space": rf"(?<=[{_WITHOUT_SPACES}])\u200b(?=[{_WITHOUT_SPACES}])",
    "which way a Mongolian letter is drawn": rf"(?<=[{_MONGOLIAN}])[\u180b-\u180d\u180f]",
    "before a Mongolian ending": rf"(?<=[{_MONGOLIAN}])\u180e(?=[\u1820\u1821])",
    "which way an ideograph is drawn": rf"(?<=[{_IDEOGRAPH}])[\ufe00-\ufe02\U000e0100-\U000e010f]",
    "which way a sign is drawn": rf"(?<=[{_MATHS}\u1000-\u109f\uaa60-\uaa7f\ua840-\ua873])\ufe00",
    "where a full stop is drawn": rf"(?<=[{_STOPS}])[\ufe00\ufe01]",
    "after a hieroglyph": rf"(?<=[{_HIEROGLYPH}])[\U00013430-\U0001343f]",
    "before a hieroglyph": rf"[\U00013430-\U0001343f](?=[{_HIEROGLYPH}])",
}
"""Where a character of `RANGES` belongs to what people write. Each pattern matches that one character, and looks at its
neighbours without taking them."""
_FLAGS = [
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
]
"""England, Scotland and Wales. Any other flag that is spelled in tags is drawn as a black one, and so hides a text."""
# A tag is fine only within one of these three, with all that belongs before it and after it.
_IN_FLAGS = "|".join(
    f"(?<={flag[:index]}){flag[index]}(?={flag[index + 1 :]})" for flag in _FLAGS for index in range(1, len(flag))
)

# -- looking -------------------------------------------------------------------------------------

_BEYOND = "\U00010000"
"""The first character beyond Unicode's first plane, which has nearly all that people write."""
_FINE_SOMEWHERE = frozenset("\r\u034f\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d\ufe00\ufe01\ufe02\ufe0e\ufe0f")
"""Those before `_BEYOND` that `FINE` is about: all others before it are hidden wherever they stand."""
_TABLE = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last, _ in RANGES)
_WORTH_A_LOOK = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last, _ in RANGES if chr(first) < _BEYOND) + (
    r"\U00013430-\U0001efff\U0001fb00-\U0001ffff\U0002fff0-\U0010ffff"
)
"""`RANGES`, with few and wide ranges beyond the first plane: a regular expression tries the ranges one by one, and what
is caught in a wide one is looked at again, exactly."""
_ends_a_line = re.compile("[\t\n\r]")
_PLAIN = bytes((*b"\t\n", *range(0x20, 0x7F)))
_BACKSLASH, _DELETE = b"\\\x7f"
"""As numbers: Python finds a byte in bytes in half the time in which it finds bytes there."""
_SHORT = 32
"""Up to this length `isprintable` is quicker than encoding and translating."""


def has_hidden(text: str) -> bool:
    """Whether a text has hidden characters. Most text is cleared by a check that is much quicker than the exact one."""
    if text.isascii():
        if (len(text) <= _SHORT and text.isprintable()) or not text.encode().translate(None, _PLAIN):
            return False
    elif _unsuspicious()(text):
        return False
    return next(positions(text), None) is not None


def positions(text: str) -> Iterator[int]:
    """The positions of a text's hidden characters."""
    return (found.start() for found in _suspects().finditer(text) if _is_hidden(found))


@cache
def _suspects() -> re.Pattern[str]:
    """Characters that may be hidden. This and the next two take long to compile, and a server whose texts are ASCII
    never needs them, so they are compiled on first use."""
    return re.compile(f"[{_WORTH_A_LOOK}]")


@cache
def _unsuspicious() -> Callable[[str], re.Match[str] | None]:
    return re.compile(f"[^{_WORTH_A_LOOK}]*+").fullmatch


def _is_hidden(found: re.Match[str]) -> bool:
    """Whether a suspect must not stand where it was found. Most of them must not stand anywhere, which is known without
    a look at their neighbours."""
    if found[0] not in _FINE_SOMEWHERE and found[0] < _BEYOND:
        return True
    return _fine()(found.string, found.start()) is None


@cache
def _fine() -> Callable[[str, int], re.Match[str] | None]:
    """Matches where the character at that position of a text may stand."""
    return re.compile("|".join((f"[^{_TABLE}]", *FINE.values(), rf"(?=[\U000e0000-\U000e007f])(?:{_IN_FLAGS})"))).match


def may_be_hidden_in(json: bytes) -> bool:
    """Whether JSON has to be examined for hidden characters: plain ASCII without escapes does not."""
    return not json.isascii() or _DELETE in json or _has_escapes(json)


def is_hidden_in(json: bytes) -> bool:
    """Whether JSON has hidden characters, or escapes that may stand for one. An escape counts whatever it stands for:
    the answer may be yes too often, and is never no where something is hidden."""
    return _has_escapes(json) or (may_be_hidden_in(json) and has_hidden(json.decode()))


def _has_escapes(json: bytes) -> bool:
    return _BACKSLASH in json and (b"\\u" in json or b"\\r" in json or b"\\b" in json or b"\\f" in json)


def kinds_of(text: str) -> list[str]:
    """The kinds of hidden characters in a text, as `RANGES` calls them."""
    return sorted({_kind(text[position]) for position in positions(text)})


def _kind(character: str) -> str:
    number = ord(character)
    return next(kind for first, last, kind in RANGES if first <= number <= last)


# -- spelling out --------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """The text with each hidden character spelled out, such as `\\u{202E}`. Text that has none is returned as it is."""
    return _with_spelled(text, _spelled) if has_hidden(text) else text


def in_one_line(text: str) -> str:
    """As `escaped`, with tabs and ends of lines spelled out, too."""
    return _ends_a_line.sub(lambda found: _spelled(found[0]), escaped(text))


def escaped_json(text: str) -> str:
    """As `escaped`, for JSON and in JSON's own escapes (`\\u202e`): it still decodes to the same value."""
    return _with_spelled(text, _spelled_in_json) if has_hidden(text) else text


def _with_spelled(text: str, spell: Callable[[str], str]) -> str:
    return _suspects().sub(lambda found: spell(found[0]) if _is_hidden(found) else found[0], text)


@cache
def _spelled(character: str) -> str:
    return f"\\u{{{ord(character):X}}}"


@cache
def _spelled_in_json(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
