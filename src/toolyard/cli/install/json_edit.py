"""Changes one member of a JSON file and leaves every other character where it is."""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from msgspec import Struct

_space = re.compile(r"[ \t\r\n]*")
_comment_or_string = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_last_comma = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_decoder = json.JSONDecoder()
BOM = "\ufeff"


class HasComments(ValueError):
    """JSON with comments, or with commas after the last member."""


def read(text: str) -> dict[str, Any]:
    """The file's object; an empty file is an empty object. Raises ValueError, HasComments where it is JSON but for
    comments or commas."""
    bare = text.removeprefix(BOM)
    try:
        document = json.loads(bare) if bare.strip() else {}
    except ValueError as error:
        if _is_json(_last_comma.sub(r"\1", _comment_or_string.sub(_without_comment, bare))):
            raise HasComments from None
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def snippet(key: str, name: str, entry: dict[str, Any]) -> str:
    return json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False) + "\n"


def _without_comment(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class Member(Struct, frozen=True):
    """Where a member stands: its name begins at `start`, its value at `value`, and it ends before `end`."""

    name: str
    start: int
    value: int
    end: int


def put(text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """The text with `{key: {name: entry}}` in it; what was there of that name is replaced."""
    if not text.removeprefix(BOM).strip():
        return text.rstrip() + snippet(key, name, entry)
    root = _root(text)
    servers = _find(text, root, key)
    if servers is None:
        return _added(text, root, key, {name: entry}, 1)
    there = _find(text, servers.value, name)
    if there is None:
        return _added(text, servers.value, name, entry, 2)
    return text[: there.value] + _shown(text, entry, 2) + text[there.end :]


def take_out(text: str, key: str, name: str) -> str:
    """The text without that entry, and without the comma that parted it from the next."""
    servers = _find(text, _root(text), key)
    members = [] if servers is None else _members(text, servers.value)
    number = next(n for n, member in enumerate(members) if member.name == name)
    if number > 0:
        return text[: members[number - 1].end] + text[members[number].end :]
    if len(members) > 1:
        return text[: members[0].start] + text[members[1].start :]
    return text[: text.rindex("{", 0, members[0].start) + 1] + text[_skip(text, members[0].end) :]


def _root(text: str) -> int:
    return _skip(text, len(BOM) if text.startswith(BOM) else 0)


def _find(text: str, at: int, name: str) -> Member | None:
    """The member of that name in the object that begins at `at`. Of several the last counts, as in JSON parsers."""
    return next((member for member in reversed(_members(text, at)) if member.name == name), None)


def _members(text: str, at: int) -> list[Member]:
    """The members of the object that begins at `at`. The text is known to be JSON."""
    found = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        start = at
        name, at = scanstring(text, at + 1)
        value = _skip(text, _skip(text, at) + 1)
        _, end = _decoder.raw_decode(text, value)
        found.append(Member(name, start, value, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    return _space.match(text, at).end()  # type: ignore[union-attr]


def _added(text: str, at: int, name: str, value: Any, depth: int) -> str:
    """The text with a new member, after the last one of the object that begins at `at`."""
    member = f"{_line(text, depth)}{json.dumps(name, ensure_ascii=False)}: {_shown(text, value, depth)}"
    members = _members(text, at)
    if members:
        return text[: members[-1].end] + "," + member + text[members[-1].end :]
    return text[: at + 1] + member + _line(text, depth - 1) + text[_skip(text, at + 1) :]


def _shown(text: str, value: Any, depth: int) -> str:
    lines = json.dumps(value, indent=_indent(text), ensure_ascii=False).splitlines()
    return _line(text, depth).join(lines)


def _line(text: str, depth: int) -> str:
    return ("\r\n" if "\r\n" in text else "\n") + _indent(text) * depth


def _indent(text: str) -> str:
    """The indentation of the file, as its first indented member shows it."""
    found = re.search(r'[{,][ \t]*\r?\n([ \t]+)"', text)
    return found[1] if found else "  "
