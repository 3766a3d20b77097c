"""Local safety: a page in a browser must not reach a server on its visitor's machine, whatever name it found for it.

Pages of other origins, where the settings name them: what their browsers ask for before and want to see after.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from ...model.errors import ForeignPage, Misdirected
from ...text.addresses import host_in, is_loopback
from ...wires.contract import Headers, Reply, Stream
from .exchange import Dress, Exchange

MOST_KNOWN = 1000


class Guard:
    """Checks where a request thinks it goes, and which page sent it."""

    def __init__(
        self,
        host: str,
        public_url: str | None,
        allowed: Sequence[str],
        origins: Sequence[str],
        is_open: Callable[[], bool] = lambda: False,
    ) -> None:
        """`allowed`: other names of this server, and pages that may use it. `origins`: pages that may use it, with
        what they need for that; `*` is all of them. `is_open`: whether everybody is let in without credentials."""
        self._is_local, self._is_open, self._has_names = is_loopback(host), is_open, bool(allowed)
        given = (*allowed, *origins, *([public_url] if public_url else ()))
        self._names = frozenset(_written(urlsplit(each).hostname or each) for each in given)
        self._any_page = "*" in origins
        self._known: set[tuple[bytes, bytes, bool]] = set()
        self.knows_host = False
        """Whether the server listens by itself, at the host of the settings."""

    def check(self, headers: Mapping[bytes, bytes], scope: Mapping[str, Any]) -> None:
        """Raises Misdirected or ForeignPage."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin", b"")
        has_names = self._is_local if self.knows_host else self._has_names_at(scope)
        if (host, origin, has_names) in self._known:
            return
        if has_names and not self._is_ours(_name(host.decode("latin-1"))):
            raise Misdirected(f"Host {host.decode('latin-1')!r} is not a name of this server; add it to allowed_hosts")
        if origin and not self._may(origin.decode("latin-1"), host.decode("latin-1")):
            raise ForeignPage(f"Pages of {origin.decode('latin-1')!r} may not use this server; add it to cors_origins")
        if len(self._known) < MOST_KNOWN:
            self._known.add((host, origin, has_names))

    def _has_names_at(self, scope: Mapping[str, Any]) -> bool:
        """Mounted in another app, whether the name that a request uses must be one of this server's: where the settings
        have its names, and where a page that found this machine under a name of its own would be let in. (No page
        reaches a Unix socket, which has no address.)"""
        server = scope.get("server")
        if server is None or server[1] is None:
            return False
        return self._has_names or (is_loopback(str(server[0])) and self._is_open())

    def _may(self, origin: str, host: str) -> bool:
        name = _name(origin.partition("://")[2])
        return self._any_page or self._is_ours(name) or (not self._is_local and name != "" and name == _name(host))

    def _is_ours(self, name: str) -> bool:
        return name in self._names or is_loopback(name)


def _name(host: str) -> str:
    """Without the port; nothing where it is not a name, or an address, and perhaps a port."""
    return _written(host_in(host))


def _written(name: str) -> str:
    """As names are compared: without brackets and the dot of the root, in small letters."""
    return name.strip("[]").removesuffix(".").lower()


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
