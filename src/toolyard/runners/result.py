"""A tool's result on its way out: it fits the tool's own schema, it is finite, and it is JSON.

msgspec writes inf and NaN as `null`. So a result whose bytes hold no `null` has none of them, and only the others need
the slow look.
"""

import math
from typing import Any

import msgspec
from msgspec import Raw

from ..model.errors import path_of
from ..model.json_value import decode

_encode = msgspec.json.Encoder().encode


class BrokenResult(Exception):
    """Why a result cannot be given to the caller: for the log."""


def to_json(value: Any) -> Raw:
    """The result as JSON bytes. A whole float is written without its fraction, as most of the world does."""
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    try:
        data = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BrokenResult(f"the result is not JSON: {error}") from None
    if data.find(b"null") >= 0 and (path := _not_finite(value)) is not None:
        where = f"the number at {path_of(path)}" if path else "the result"
        raise BrokenResult(f"{where} is not finite")
    return Raw(data)


def from_json(json: Any) -> Any:
    """A part of a result that came as JSON, as plain values. It is taken for what it is and not for what it should be:
    whoever reads it later must not stumble."""
    try:
        return decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenResult(f"the result is not JSON: {error}") from None


def _not_finite(value: Any) -> list[str | int] | None:
    """The path to a number that is not finite."""
    pending: list[tuple[list[str | int], Any]] = [([], value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return path
        elif isinstance(item, dict):
            pending.extend(([*path, name], member) for name, member in item.items())
        elif isinstance(item, list | tuple):
            pending.extend(([*path, index], member) for index, member in enumerate(item))
    return None
