"""One HTTP request, read whole and within limits, and where it came from."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any

from ..model.caller import LOCAL
from ..model.errors import BodyTooLarge, MalformedRequest, UnsupportedMediaType
from ..model.seam import random_id
from ..wires.contract import Reply, Stream
from .line import Line

_string = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Never fails once it has begun, also where the end is missing: that keeps a search of the whole body linear."""
PEEK_BYTES, PEEK_S = 64 * 2**10, 0.5
_request_id = re.compile(r"[A-Za-z0-9_.:-]{1,128}").fullmatch
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One level down is 1, one level up is -1, as signed bytes."""
ONCE = (
    b"host", b"origin", b"authorization", b"oxp-api-key", b"otc-api-key", b"content-type", b"content-length",
    b"content-encoding", b"mcp-session-id", b"mcp-protocol-version",
)  # fmt: skip
_utf8_json = re.compile(rb"application/([a-z0-9.+-]+\+)?json\s*(;\s*charset=\"?utf-?8\"?\s*)?", re.IGNORECASE).fullmatch


class Gone(Exception):
    """The client went away before its request was complete."""


FindAddress = Callable[[Mapping[str, Any], Mapping[bytes, bytes]], str]
Dress = Callable[[Reply | Stream], Reply | Stream]


def peer_of(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str:
    """The address at the other end of the connection."""
    client = scope.get("client")
    return client[0] if client else ""


class Exchange:
    """What a handler gets."""

    __slots__ = (
        "_find_address", "_id", "_line", "_public_url", "_scope",
        "body", "caller", "dress", "headers", "is_admitted", "parameters", "path", "query",
    )  # fmt: skip

    def __init__(
        self,
        scope: Mapping[str, Any],
        path: str,
        headers: Mapping[bytes, bytes],
        public_url: str | None,
        line: Line,
        find_address: FindAddress = peer_of,
    ) -> None:
        self._scope, self._public_url, self._line, self._find_address = scope, public_url, line, find_address
        self.path = path
        self.headers = headers
        self.query: bytes = scope["query_string"]
        self.body = b""
        self.caller = LOCAL
        """Who was authenticated, where the route asks for that."""
        self.is_admitted = False
        self._id = ""
        self.dress: Dress | None = None
        """What is done to every reply before it is given, early or not."""
        self.parameters: dict[str, str] = {}
        """What stood in the variable parts of the path, by their names."""

    def answer(self, reply: Reply | Stream) -> None:
        """Replies now, while the handler goes on; what it returns is then thrown away. A stream is carried beside it,
        and the request is over when both are. Does nothing when there is a reply already or nobody to read it. To be
        called on the loop."""
        if type(reply) is Stream:
            reply.caller = self.caller
        self._line.answer(reply if self.dress is None else self.dress(reply))

    def when_gone(self, callback: Callable[[], object]) -> None:
        """Has `callback` called, on the loop and once, if the client leaves before there is a whole reply. (A stream
        that the handler returned is closed instead.)"""
        self._line.when_gone(callback)

    @property
    def id(self) -> str:
        """The request's, in logs: what the client calls it, or else what it gets here when it is first asked for."""
        if not self._id:
            given = self.headers.get(b"x-request-id", b"").decode("latin-1")
            self._id = given if _request_id(given) else random_id()
        return self._id

    @property
    def method(self) -> str:
        return str(self._scope["method"])

    @property
    def address(self) -> str:
        """The client's, as trusted proxies tell it; the proxy's own where what they tell is no address."""
        return self._find_address(self._scope, self.headers)

    def base_url(self) -> str:
        """The server's address: the one that is set, or else the one that the client used."""
        if self._public_url is not None:
            return self._public_url
        scope = self._scope
        host = self.headers.get(b"host")
        if host is None:
            name, port = scope.get("server") or ("localhost", None)
            host = f"{name}:{port}".encode() if port else str(name).encode()
        return f"{scope.get('scheme', 'http')}://{host.decode('latin-1')}{scope.get('root_path', '')}"


class BodyReader:
    """Reads bodies, and refuses those that are too large, too deep, or not JSON."""

    def __init__(self, max_bytes: int, max_depth: int) -> None:
        self._max_bytes, self._max_depth = max_bytes, max_depth

    async def read(self, headers: Mapping[bytes, bytes], receive: Any) -> bytes:
        """The body, as it arrives. Raises BodyTooLarge as soon as that is known."""
        if _announced(headers) > self._max_bytes:
            raise self._too_large()
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        body: bytes = message.get("body", b"")
        return await self._rest(body, receive) if message.get("more_body") else body

    async def peek(self, headers: Mapping[bytes, bytes], receive: Any) -> bytes:
        """As much as comes soon of a body that nobody will read: what is refused is refused in its own words, as far as
        they are known. Nothing where the client waits for leave to send it."""
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
        """Raises for a body that is too large, too deep, or not JSON."""
        if len(body) > self._max_bytes:
            raise self._too_large()
        depth = self._max_depth
        if len(body) > 2 * depth and body.count(b"[") + body.count(b"{") > depth:
            self._refuse_too_deep(body)
        if body and (headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers):
            _refuse_other_media(headers)

    async def _rest(self, first: bytes, receive: Any) -> bytes:
        parts, size, more = [first], len(first), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > self._max_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(parts)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            "The request is too large", developer_message=f"a body may have at most {self._max_bytes} bytes"
        )

    def _refuse_too_deep(self, body: bytes) -> None:
        steps = _string.sub(b"", body).translate(_STEPS, _NOT_BRACKETS)
        if max(accumulate(memoryview(steps).cast("b")), default=0) > self._max_depth:
            raise MalformedRequest(
                "The request is nested too deeply",
                developer_message=f"JSON may be nested {self._max_depth} levels deep",
            )


def refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises MalformedRequest where a header is there twice of which whoever stood before us may have read the other
    one: which host is meant, who asks, how the body is to be read."""
    names = [name for name, _ in headers]
    for name in ONCE:
        if names.count(name) > 1:
            raise MalformedRequest(
                "The request is not valid", developer_message=f"the header {name.decode()} may be there once"
            )


def _announced(headers: Mapping[bytes, bytes]) -> int:
    """The length a client promises. (Not every server that we may be mounted in has checked that it is a number.)"""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise MalformedRequest("The request is not valid", developer_message="content-length must be a number")
    return int(length[:20])


def _refuse_other_media(headers: Mapping[bytes, bytes]) -> None:
    kind = headers.get(b"content-type", b"application/json")
    if not _utf8_json(kind):
        shown = kind[:80].decode("latin-1")
        raise UnsupportedMediaType(
            "The body must be JSON", developer_message=f"content-type must be application/json, got {shown!r}"
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise UnsupportedMediaType("The body must not be compressed")
