"""Changes one table of a TOML file and leaves every other character where it is.

It looks at lines, and a line within a long text may look like a table's header. The caller therefore reads the changed
file again, and compares.
"""

import json
import re
from typing import Any

from ...lazy import load

_header = re.compile(r"\s*\[")


def read(text: str) -> dict[str, Any]:
    """The file's tables. Raises ValueError."""
    try:
        document: dict[str, Any] = load("toml").loads(text)
    except ValueError as error:
        raise ValueError(f"it is not TOML: {error}") from None
    return document


def snippet(key: str, name: str, entry: dict[str, Any]) -> str:
    lines = [f"[{key}.{name}]", *(f"{member} = {_value(value)}" for member, value in entry.items() if _is_line(value))]
    return "".join(f"{line}\n" for line in lines)


def put(text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """The text with the entry as a table: the lines of the table that is there are changed, or a new one is put at the
    end."""
    lines = text.splitlines(keepends=True)
    end = "\r\n" if "\r\n" in text else "\n"
    span = _span(lines, key, name)
    if span is None:
        gap = "" if not text else end if text.endswith("\n") else end * 2
        return text + gap + snippet(key, name, entry).replace("\n", end)
    for member in _REACHED - entry.keys():  # a table that had a command and now has an address, or the other way
        _drop(lines, span, member)
    for member, value in entry.items():
        inner = _span(lines, key, f"{name}.{member}")
        if inner is not None and isinstance(value, dict):
            for each, text in value.items():
                _set(lines, inner, each, text, end)
        elif inner is None and _is_line(value):
            _set(lines, _span(lines, key, name) or span, member, value, end)
    return "".join(lines)


def take_out(text: str, key: str, name: str) -> str:
    """The text without that table, the tables in it, and the empty line before it."""
    lines = text.splitlines(keepends=True)
    while (span := _span(lines, key, name, inner=True)) is not None:
        start, end = span
        del lines[start - 1 if start > 0 and not lines[start - 1].strip() else start : end]
    return "".join(lines)


_REACHED = frozenset({"command", "args", "url"})
"""How a server is reached: what our entry does not have of these, nobody's has."""


def _drop(lines: list[str], span: tuple[int, int], member: str) -> None:
    for number in range(*span):
        if re.match(rf"\s*{member}\s*=", lines[number]):
            lines[number] = ""


def _set(lines: list[str], span: tuple[int, int], member: str, value: Any, end: str) -> None:
    """Sets one member of the table. A line that says so already stays as it is."""
    made = f"{member} = {_value(value)}{end}"
    found = next((n for n in range(*span) if re.match(rf"\s*{member}\s*=", lines[n])), None)
    if found is None:
        lines[span[0]] += made
    elif not _says(lines[found], {member: value}):
        lines[found] = made


def _says(line: str, wanted: dict[str, Any]) -> bool:
    try:
        return read(line) == wanted
    except ValueError:
        return False


def _span(lines: list[str], key: str, name: str, *, inner: bool = False) -> tuple[int, int] | None:
    """The lines of a table, from its header to its last member; with `inner`, or of a table in it."""
    tail = r"(?:\.[^\]]*)?" if inner else ""
    wanted = re.compile(rf"""\s*\[\s*["']?{key}["']?\s*\.\s*["']?{re.escape(name)}["']?\s*{tail}\]""")
    start = next((n for n, line in enumerate(lines) if wanted.match(line)), None)
    if start is None:
        return None
    end = next((n for n in range(start + 1, len(lines)) if _header.match(lines[n])), len(lines))
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    return start, end


def _is_line(value: Any) -> bool:
    """Whether a value is one line of the table: a text, or texts in a list or by names. Others stay as they are."""
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _value(value: Any) -> str:
    """A value as TOML. JSON's texts and lists of texts are TOML's, too, but for one character."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
