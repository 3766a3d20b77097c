"""What every wire is: bytes in, values out, and back. The shell does the I/O.

A server uses `encode_list`, `encode_outcome` and `encode_error` (decoding a call is a matter of negotiation, because
three wires share one address); a client uses `encode_request`, `decode_list` and `decode_outcome`.
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
"""On every reply, whoever made it: a browser must not take one for something else."""
LARGE = 32 * 2**10
"""What has more bytes costs less to send by itself than to copy once more."""


class Request(Struct):
    """An HTTP request, as far as a wire cares. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[bytes, bytes] = {}
    body: bytes = b""
    query: bytes = b""


class Reply(Struct):
    """An HTTP reply. The shell adds the length."""

    status: int
    body: bytes
    headers: Headers
    more: tuple[bytes, ...] = ()
    """Goes on after `body`: what is large and kept elsewhere, so that it need not be copied."""


@final
class Stream(Struct):
    """An HTTP reply that comes bit by bit. `chunks` is an async generator, and is closed as soon as the client leaves
    or the server stops; what it raises breaks the connection off."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    has_an_end: bool = False
    """Whether it ends with a call. Then it has the time that running calls have when the server stops; any other ends
    at once."""
    caller: Caller | None = None
    """It ends with the credentials of that caller."""


class ErrorEncoder(Protocol):
    """What every wire has: an answer to every error of the tree."""

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply: ...


class OxpFamilyWire(ErrorEncoder, Protocol):
    """One protocol of the OXP family."""

    @property
    def name(self) -> str:
        """In metrics and logs."""
        ...

    @property
    def family(self) -> Family:
        """Which wires share its keys."""
        ...

    @property
    def headers(self) -> Headers:
        """On every reply."""
        ...

    # -- a server's side ---------------------------------------------------------------------------

    def encode_list(self, tools: Sequence[Tool]) -> bytes: ...

    def encode_outcome(self, outcome: Outcome) -> Reply: ...

    def encode_status(self, status: str) -> Reply:
        """`GET /health`: ready for calls or not."""
        ...

    # -- a client's side ---------------------------------------------------------------------------

    def encode_request(self, command: CallTool | ListTools) -> Request: ...

    def decode_list(self, reply: Reply) -> list[dict[str, Any]]:
        """The tools as that wire describes them."""
        ...

    def decode_outcome(self, reply: Reply) -> Outcome:
        """Raises what the server refused the call with."""
        ...
