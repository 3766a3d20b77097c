"""Pages of other origins, where the settings name them: what their browsers ask for before and want to see after."""

from collections.abc import Sequence

from msgspec.structs import replace

from ..wires.contract import Headers, Reply, Stream
from .exchange import Dress, Exchange

LONGEST = 1024
EXPOSED = b"etag, mcp-session-id, retry-after, retry-after-ms, traceparent, www-authenticate, x-should-retry"


class Cors:
    """Credentials are never those of the browser: who calls sends a key or a token of its own."""

    def __init__(self, origins: Sequence[str], methods: Sequence[str]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.rstrip("/").encode() for origin in origins)
        self._methods = ", ".join(methods).encode()

    def is_preflight(self, method: str, exchange: Exchange) -> bool:
        asks = method == "OPTIONS" and b"access-control-request-method" in exchange.headers
        return asks and self._lets(exchange)

    def preflight(self, exchange: Exchange) -> Reply:
        wanted = exchange.headers.get(b"access-control-request-headers", b"")[:LONGEST]
        said = [(b"access-control-allow-methods", self._methods), (b"access-control-max-age", b"600")]
        if wanted and wanted.isascii() and b"\r" not in wanted and b"\n" not in wanted:
            said.append((b"access-control-allow-headers", wanted))
        return Reply(204, b"", said + self._allowed(exchange))

    def dress(self, exchange: Exchange) -> Dress | None:
        """Adds what the page's browser wants to see. None: it is no page's request, or not one of a page that may."""
        if b"origin" not in exchange.headers or not self._lets(exchange):
            return None
        added = [(b"access-control-expose-headers", EXPOSED), *self._allowed(exchange)]

        def dressed(reply: Reply | Stream) -> Reply | Stream:
            """Another one: a reply may be one that everybody gets."""
            return replace(reply, headers=[*reply.headers, *added])

        return dressed

    def _allowed(self, exchange: Exchange) -> Headers:
        if self._any:
            return [(b"access-control-allow-origin", b"*")]
        return [(b"access-control-allow-origin", exchange.headers[b"origin"]), (b"vary", b"origin")]

    def _lets(self, exchange: Exchange) -> bool:
        return self._any or exchange.headers.get(b"origin", b"") in self._origins
