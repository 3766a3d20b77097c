"""One HTTP request and its reply, as a handler sees them: independent of whichever server carries them.

The shell makes an exchange for each request and fills it as it goes: who sent it once that is known, the body once it
is read. What only a few handlers need, such as the client's address, is found when it is asked for.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any

from ...model.caller import LOCAL
from ...model.channel import nothing
from ...model.clock import random_id
from ...model.errors import MalformedRequest
from ...text.addresses import LOCALHOST
from ...trust.access.identity import CREDENTIAL_HEADERS
from ...trust.credentials.expiry import CredentialExpiry
from ...wires.contract import Reply, Stream
from .reply_line import PartLine, ReplyLine

# What a client calls its request goes into logs and headers: nothing that could look like another line there.
_request_id = re.compile(r"[A-Za-z0-9_.:-]{1,128}").fullmatch
ONCE = (
    b"host", b"origin", *CREDENTIAL_HEADERS, b"content-type", b"content-length", b"content-encoding",
    b"mcp-session-id", b"mcp-protocol-version",
)  # fmt: skip
"""Headers that may be there once: those that decide which server is meant, who asks, and how the body is to be read."""


class Gone(Exception):
    """The client went away before its request was complete."""


def give_up(waiting: "asyncio.Future[None]") -> None:
    """Ends the wait of a request whose client has left."""
    if not waiting.done():
        waiting.set_exception(Gone())


FindAddress = Callable[[Mapping[str, Any], Mapping[bytes, bytes]], str]
"""Finds the client's address in a scope and its headers."""
Dress = Callable[[Reply | Stream], Reply | Stream]
"""Adds headers to a reply before it goes out: CORS does."""


def peer_of(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str:
    """The address at the other end of the connection."""
    client = scope.get("client")
    return client[0] if client else ""


class Exchange:
    """A request, with its caller and its body, and the way to answer it early: what a handler gets."""

    __slots__ = (
        "_at_end", "_find_address", "_id", "_line", "_public_url", "_scope", "_validity",
        "body", "caller", "dress", "headers", "is_admitted", "is_expired", "parameters", "path", "query",
    )  # fmt: skip

    def __init__(
        self,
        scope: Mapping[str, Any],
        path: str,
        headers: Mapping[bytes, bytes],
        public_url: str | None,
        line: ReplyLine,
        find_address: FindAddress = peer_of,
        validity: CredentialExpiry | None = None,
    ) -> None:
        """`validity` knows when credentials end, where there are any."""
        self._scope, self._public_url, self._line, self._find_address = scope, public_url, line, find_address
        self.path = path
        self.headers = headers
        self.query: bytes = scope["query_string"]
        self.body = b""
        self.caller = LOCAL
        """Who was authenticated, where the route asks for that."""
        self.is_admitted = False
        self._validity, self.is_expired = validity, False
        self._id = ""
        self.dress: Dress | None = None
        """What is done to every reply before it is given, early or not."""
        self._at_end: list[Callable[[], None]] | None = None
        self.parameters: dict[str, str] = {}
        """What stood in the variable parts of the path, by their names."""

    def part(self, body: bytes) -> "Exchange":
        """The exchange of one message of several that came in this request and are answered together: the same
        request, with an end of its own, and no stream. Whether its credentials have ended is asked of the part."""
        line = PartLine(self._line)
        part = copy(self)
        part._id = self.id
        part.body, part.headers = body, {**self.headers, b"accept": b"application/json"}
        part._line, part._at_end = line, [line.end]
        return part

    @property
    def at_end(self) -> list[Callable[[], None]]:
        """What is called once the handler is done."""
        if self._at_end is None:
            self._at_end = []
        return self._at_end

    def end(self) -> None:
        """The handler is done."""
        if self._at_end is not None:
            for callback in self._at_end:
                callback()
            self._at_end = None

    def answer(self, reply: Reply | Stream) -> None:
        """Replies now, while the handler goes on; what it returns is then thrown away. A stream is carried beside it,
        and the request is over when both are. Does nothing when there is a reply already or nobody to read it. To be
        called on the loop."""
        if self.is_expired:
            return
        if type(reply) is Stream:
            reply.caller = self.caller
        self._line.answer(reply if self.dress is None else self.dress(reply))

    def when_gone(self, callback: Callable[[], object]) -> None:
        """Has `callback` called, on the loop and once, if the client leaves before there is a whole reply. (A stream
        that the handler returned is closed instead.)"""
        self._line.when_gone(callback)

    def when_expired(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Has `callback` called, on the loop and perhaps now, when the caller's credentials end. From then on there is
        one answer: the one that a new request would get. Returns what to call when nobody needs that any more."""
        if self._validity is None:
            return nothing

        def expire() -> None:
            self.is_expired = True
            callback()

        return self._validity.watch(self.caller, expire)

    @property
    def id(self) -> str:
        """The request's id in logs: what the client calls it, or else one that is made when it is first asked for."""
        if not self._id:
            given = self.headers.get(b"x-request-id", b"").decode("latin-1")
            self._id = given if _request_id(given) else random_id()
        return self._id

    @property
    def method(self) -> str:
        return str(self._scope["method"])

    @property
    def address(self) -> str:
        """The client's address, as trusted proxies tell it; the proxy's own where what they tell is no address."""
        return self._find_address(self._scope, self.headers)

    def base_url(self) -> str:
        """The server's address: the one that is set, or else the one that the client used."""
        if self._public_url is not None:
            return self._public_url
        scope = self._scope
        host = self.headers.get(b"host")
        if host is None:  # HTTP/1.0 need not say it
            name, port = scope.get("server") or (LOCALHOST, None)
            host = f"{name}:{port}".encode() if port else str(name).encode()
        return f"{scope.get('scheme', 'http')}://{host.decode('latin-1')}{scope.get('root_path', '')}"


def refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises MalformedRequest where a header of `ONCE` is there twice: a proxy before us may have decided by one of
    them, and we would go by the other (request smuggling, and credentials that were never checked)."""
    names = [name for name, _ in headers]
    for name in ONCE:
        if names.count(name) > 1:
            raise MalformedRequest(
                "The request is not valid", developer_message=f"the header {name.decode()} may be there once"
            )
