"""A tool's result on its way out: it fits the tool's own schema, it is finite, and it is JSON.

msgspec writes inf and NaN as `null`. So a result whose bytes hold no `null` has none of them, and only the others need
the slow look.
"""

import math
from typing import Any

import msgspec
from msgspec import Raw

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
    if b"null" in data and not _is_finite(value):
        raise BrokenResult("the result holds a number that is not finite")
    return Raw(data)


def _is_finite(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
    return True
