"""HTTP requests and replies as the wires see them, and what a wire of the OXP family implements.

A server uses `encode_list`, `encode_outcome` and `encode_error` (decoding a call is a matter of `oxp.negotiation`,
because three protocols share one address); a client uses `encode_request`, `decode_list` and `decode_outcome`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, final

from msgspec import Struct

from ..model.call import CallTool, ListTools, Outcome
from ..model.caller import Caller
from ..model.errors import ToolyardError
from ..model.record import Family
from ..model.tool import Tool

Headers = list[tuple[bytes, bytes]]
JSON = (b"content-type", b"application/json")
ALWAYS: Headers = [(b"x-content-type-options", b"nosniff")]
"""On every reply, whoever made it: a browser must not guess another content type."""
LARGE = 32 * 2**10
"""A part of a reply with more bytes than this is cheaper to send by itself than to copy once more."""


class Request(Struct):
    """An HTTP request, as far as a wire needs it. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[bytes, bytes] = {}
    body: bytes = b""
    query: bytes = b""


class Reply(Struct):
    """An HTTP reply. The shell adds its `Content-Length`."""

    status: int
    body: bytes
    headers: Headers
    more: tuple[bytes, ...] = ()
    """What follows `body`: large parts that are cached elsewhere, and so are not copied into it."""


@final
class Stream(Struct):
    """An HTTP reply that is sent in chunks. `chunks` is an async generator, which is closed as soon as the client
    leaves or the server stops; an exception that it raises breaks the connection off."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    has_an_end: bool = False
    """Whether the stream ends with a call. When the server stops, such a stream has the time that running calls have;
    any other is ended at once."""
    caller: Caller | None = None
    """The caller with whose credentials the stream ends, when they expire or are revoked."""


class ErrorEncoder(Protocol):
    """What every wire has, of whichever protocol: an answer to every error of the tree."""

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        """The reply to a request that ended with this error. `command` is the request, once it was decoded."""
        ...


class OxpFamilyWire(ErrorEncoder, Protocol):
    """One protocol of the OXP family (OXP 1.0, OTC 1.0, the OTC draft), for servers and for clients."""

    @property
    def name(self) -> str:
        """The protocol's name in metrics, logs and the ledger."""
        ...

    @property
    def family(self) -> Family:
        """The wires that share one space of idempotency keys with this one."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers that are on every reply of this wire."""
        ...

    # -- a server's side ---------------------------------------------------------------------------

    # The bytes alone, without a reply around them: the server caches them for each view of the catalogue.
    def encode_list(self, tools: Sequence[Tool]) -> bytes: ...

    def encode_outcome(self, outcome: Outcome) -> Reply: ...

    def encode_status(self, status: str) -> Reply:
        """`GET /health`: ready for calls or not."""
        ...

    # -- a client's side ---------------------------------------------------------------------------

    def encode_request(self, command: CallTool | ListTools) -> Request: ...

    def decode_list(self, reply: Reply) -> list[dict[str, Any]]:
        """The listed tools, as this wire's JSON describes them."""
        ...

    def decode_outcome(self, reply: Reply) -> Outcome:
        """How the call ended. Raises the error that the server refused the call with."""
        ...
