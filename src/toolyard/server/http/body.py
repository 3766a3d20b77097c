"""Reads the body of a request within limits, and refuses what is too large, what would be too much to decode, and what
is not JSON.

A body is checked before it is decoded: a decoder would follow a thousand brackets down, and has read the whole of what
is too large before it says so.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...model.errors import BodyTooLarge, MalformedRequest, UnsupportedMediaType
from ...model.json_bounds import JsonBounds
from .body_budget import BodyBudget
from .exchange import Exchange, Gone
from .turns import LARGE_BODY

PEEK_BYTES, PEEK_S = 64 * 2**10, 0.5
_utf8_json = re.compile(rb"application/([a-z0-9.+-]+\+)?json\s*(;\s*charset=\"?utf-?8\"?\s*)?", re.IGNORECASE).fullmatch


class BodyReader:
    """Reads bodies of at most `max_bytes`, whose JSON is within bounds."""

    def __init__(self, max_bytes: int, bounds: JsonBounds) -> None:
        self._max_bytes, self._excess = max_bytes, bounds.excess
        self.budget = BodyBudget(max_bytes)

    async def read(self, exchange: Exchange, receive: Any) -> bytes:
        """The body, whole; a large one has its room in the budget. Raises BodyTooLarge, LimitReached or Unavailable as
        soon as that is known, and Gone where the client leaves before the end."""
        announced = _announced(exchange.headers)
        if announced > self._max_bytes:
            raise self._too_large()
        if announced > LARGE_BODY:
            self.budget.hold(exchange, announced)
        message = await receive()
        if message["type"] != "http.request":  # http.disconnect
            raise Gone
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return body
        exchange.body = body  # tells whose words a refusal should be in
        return await self._rest(exchange, receive, has_room=announced > 0)

    async def peek(self, headers: Mapping[bytes, bytes], receive: Any) -> bytes:
        """As much as comes soon of the body of a request that is refused already: it tells which of several protocols
        the refusal should be in. Nothing where the client waits for leave to send it."""
        body = b""
        if b"expect" in headers:
            return body
        with suppress(TimeoutError):
            async with asyncio.timeout(PEEK_S):
                while len(body) < PEEK_BYTES:
                    message = await receive()
                    body += message.get("body", b"")
                    if not message.get("more_body"):
                        break
        return body[:PEEK_BYTES]

    def check(self, headers: Mapping[bytes, bytes], body: bytes) -> None:
        """Raises BodyTooLarge, MalformedRequest or UnsupportedMediaType for a body that must not be decoded."""
        if len(body) > self._max_bytes:
            raise self._too_large()
        excess = self._excess(body)
        if excess is not None:
            raise MalformedRequest(f"The request {excess.what}", developer_message=excess.bound)
        if body and (headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers):
            _refuse_other_media(headers)

    async def _rest(self, exchange: Exchange, receive: Any, *, has_room: bool) -> bytes:
        """The whole of a body that comes in several pieces, of which the exchange has the first."""
        body, more = bytearray(exchange.body), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                raise self._too_large()
            if not has_room and len(body) > LARGE_BODY:
                has_room = True
                self.budget.hold(exchange, self._max_bytes)
            more = message.get("more_body", False)
        return bytes(body)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            "The request is too large", developer_message=f"a body may have at most {self._max_bytes} bytes"
        )


def _announced(headers: Mapping[bytes, bytes]) -> int:
    """The length that a client promises. Not every server that we may be mounted in has checked that it is a number."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise MalformedRequest("The request is not valid", developer_message="content-length must be a number")
    return int(length[:20])  # Python converts no text of thousands of digits, and twenty are too large in any case


def _refuse_other_media(headers: Mapping[bytes, bytes]) -> None:
    """Raises UnsupportedMediaType for a body that is not JSON in UTF-8, or is compressed: what is small on the way
    could be large here."""
    kind = headers.get(b"content-type", b"application/json")
    if not _utf8_json(kind):
        shown = kind[:80].decode("latin-1")
        raise UnsupportedMediaType(
            "The body must be JSON", developer_message=f"content-type must be application/json, got {shown!r}"
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise UnsupportedMediaType("The body must not be compressed")
