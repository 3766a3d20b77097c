"""The head of the last request on a connection, so that the same head need not be parsed again.

A client that keeps its connection sends the same head with every call: the same path, credentials and headers, and only
`content-length` differs. To compare such a head with the last one takes a tenth of the time that the parser takes. What
the parser made of a head holds for every head that is the same byte for byte, and the parser is between two requests
whenever this is asked, so nothing is decided here that the parser has not decided before.
"""

import re
from typing import Any

from .routes import CheckedHead

LONGEST_HEAD = 4096
"""Bytes of a head that a connection remembers: as long as it is open it holds them."""
_END = b"\r\n\r\n"
MOST_DIGITS = 15
"""Of `content-length`: Python takes long to convert thousands of them."""
_length_in = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE).finditer
_OTHER_BODIES = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""Headers after which a request is not simply its head and `content-length` bytes."""


class KnownHead:
    """The head of a request, and what was made of it."""

    __slots__ = ("_after", "_before", "keep_alive", "request", "scope")

    def __init__(self, before: bytes, after: bytes, scope: dict[str, Any], keep_alive: bool) -> None:
        """`before` and `after` are what stands before and after the digits of `content-length`. `keep_alive`: whether
        the connection stays open after the reply."""
        self._before, self._after, self.keep_alive = before, after, keep_alive
        # Without the length, which is another one with each body: whoever gets this scope gets the body with it.
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        self.scope = {**scope, "headers": headers}
        """As ASGI has it. It is the same object for all requests with this head, so nobody may change it."""
        self.request: CheckedHead | None = None
        """What the shell made of it, once a request with this head was let in."""

    def body_in(self, data: bytes) -> bytes | None:
        """The body of a request that came whole, with this head; None for anything else."""
        before, after = self._before, self._after
        if not data.startswith(before):
            return None
        end = data.find(b"\r", len(before))
        length = data[len(before) : end]
        if not data.startswith(after, end) or not length.isdigit() or len(length) > MOST_DIGITS:
            return None
        body = data[end + len(after) :]
        return body if len(body) == int(length) else None


def known_head(data: bytes, scope: dict[str, Any], keep_alive: bool) -> KnownHead | None:
    """The head of `data`, where that is exactly one request that the parser made `scope` of; None where that cannot be
    told, or where a request with the same head need not end where its body does."""
    end = data.find(_END, 0, LONGEST_HEAD) + len(_END)
    if end < len(_END) or not _OTHER_BODIES.isdisjoint(name for name, _ in scope["headers"]):
        return None
    lengths = list(_length_in(data, 0, end))
    if len(lengths) != 1 or int(lengths[0][1]) != len(data) - end:
        return None
    start, stop = lengths[0].span(1)
    return KnownHead(data[:start], data[stop:end], scope, keep_alive)
