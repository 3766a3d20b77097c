"""Characters that a person does not see and a model may act on: those that move a terminal's cursor, turn the direction
of text, take no room, or spell a text that is not shown.

One table of ranges. What makes an emoji is left: a variation selector after a pictograph, and a joiner between two of
them. So is what ends a line: a newline, also after a carriage return.
"""

import re
from functools import cache

RANGES: tuple[tuple[int, int, str], ...] = (
    (0x0000, 0x0008, "control"),
    (0x000B, 0x000C, "control"),
    (0x000E, 0x001F, "control"),
    (0x007F, 0x009F, "control"),
    (0x00AD, 0x00AD, "invisible"),
    (0x034F, 0x034F, "invisible"),
    (0x061C, 0x061C, "direction"),
    (0x115F, 0x1160, "invisible"),
    (0x17B4, 0x17B5, "invisible"),
    (0x180B, 0x180F, "invisible"),
    (0x200B, 0x200C, "invisible"),
    (0x200E, 0x200F, "direction"),
    (0x2028, 0x2029, "control"),
    (0x202A, 0x202E, "direction"),
    (0x2060, 0x2065, "invisible"),
    (0x2066, 0x2069, "direction"),
    (0x206A, 0x206F, "invisible"),
    (0x3164, 0x3164, "invisible"),
    (0xD800, 0xDFFF, "surrogate"),
    (0xFE00, 0xFE0D, "invisible"),
    (0xFEFF, 0xFEFF, "invisible"),
    (0xFFA0, 0xFFA0, "invisible"),
    (0xFFF0, 0xFFFB, "invisible"),
    (0x1BCA0, 0x1BCA3, "invisible"),
    (0x1D173, 0x1D17A, "invisible"),
    (0xE0000, 0xE007F, "tag"),
    (0xE0080, 0xE0FFF, "invisible"),
)
"""The first, the last, and what they are. Those that are hidden only in some places are in `_PLACED`."""

_PICTOGRAPH = "#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_PLACED = (
    r"\r(?!\n)",
    rf"(?<![{_PICTOGRAPH}])[\ufe0e\ufe0f]",
    rf"(?<![{_PICTOGRAPH}\ufe0f])\u200d",
    rf"\u200d(?![{_PICTOGRAPH}])",
)
_ALWAYS = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last, _ in RANGES)
_hidden = re.compile("|".join((f"[{_ALWAYS}]", *_PLACED)))
_suspect_in_ascii = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]").search
_is_above_suspicion = re.compile(rf"[^{_ALWAYS}\r\ufe0e\ufe0f\u200d]*+").fullmatch


def has_hidden(text: str) -> bool:
    """Most text is told to have none by a look that is much quicker than the exact one."""
    if text.isascii():
        if text.isprintable() or _suspect_in_ascii(text) is None:
            return False
    elif _is_above_suspicion(text):
        return False
    return _hidden.search(text) is not None


def may_be_hidden_in(json: bytes) -> bool:
    """Whether JSON has to be looked into: anything but plain ASCII has."""
    return _has_escapes(json) or b"\x7f" in json or not json.isascii()


def is_hidden_in(json: bytes) -> bool:
    """The same, after that look. An escape counts, also where it stands for something else."""
    return _has_escapes(json) or (may_be_hidden_in(json) and has_hidden(json.decode()))


def _has_escapes(json: bytes) -> bool:
    return b"\\" in json and (b"\\u" in json or b"\\r" in json or b"\\b" in json or b"\\f" in json)


def escaped(text: str) -> str:
    """With each of them spelled out, such as `\\u{202E}`. Text that has none is given back as it is."""
    return _hidden.sub(lambda found: _spelled(found[0]), text) if has_hidden(text) else text


def escaped_json(text: str) -> str:
    """The same of JSON, in JSON's own spelling: it still says the same."""
    return _hidden.sub(lambda found: _spelled_in_json(found[0]), text) if has_hidden(text) else text


def kinds_of(text: str) -> list[str]:
    """What is hidden in a text: control, direction, invisible, surrogate, tag. Empty where nothing is."""
    return sorted({_kind(found[0]) for found in _hidden.finditer(text)})


@cache
def _spelled(character: str) -> str:
    return f"\\u{{{ord(character):X}}}"


@cache
def _spelled_in_json(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _kind(character: str) -> str:
    number = ord(character)
    placed = "control" if character == "\r" else "invisible"
    return next((kind for first, last, kind in RANGES if first <= number <= last), placed)
