"""Why a body is not JSON that can be read, in words that are true."""

import re

_half = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])").search
TRUNCATED = "Input data was truncated"
HALF = "it has one half of a surrogate pair, such as \\ud800, which is no character"


def why_unreadable(body: bytes, error: Exception) -> str:
    """The decoder also says that a body was cut off where one half of a pair stands near its end."""
    if not body:
        return "it is empty"
    is_whole = body.rstrip().endswith((b"}", b"]", b'"'))
    return HALF if str(error) == TRUNCATED and is_whole and _half(body) else str(error)
