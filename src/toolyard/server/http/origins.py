"""Which pages may use this server from a browser: the guard that refuses all others, and CORS for those that may.

A page in a browser can send requests to whatever its visitor's machine can reach. The guard looks at `Origin`, which
says whose page it is, and at `Host`: a foreign name that was made to resolve to this machine (DNS rebinding) would make
any page one of the same origin. CORS then tells the browser of a page that the settings name what the page may read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from ...model.errors import ForeignPage, Misdirected
from ...text.addresses import host_in, is_loopback
from ...wires.contract import Headers, Reply, Stream
from .exchange import Dress, Exchange
from .routes import Route

MOST_KNOWN = 1000
"""Pairs of host and origin that were found good, which are almost always the same few."""
MCP = ("/mcp", "/mcp/")
PORTS = {"http": 80, "https": 443}
"""Where an address does not say one."""
LONGEST_ORIGIN = 512
"""Bytes of a `Host` or an `Origin`: a name has 253 at most. What is longer is refused unread, and is not repeated."""
LONGEST = 1024
"""Bytes of what a preflight asks for that are repeated in its answer."""
EXPOSED = b"etag, mcp-session-id, retry-after, retry-after-ms, traceparent, www-authenticate, x-should-retry"
"""Headers of replies that pages may read, besides those that browsers always show them."""


class Guard:
    """Checks the name by which a request reached this server, and which page sent it."""

    def __init__(
        self,
        host: str,
        public_url: str | None,
        allowed: Sequence[str],
        origins: Sequence[str],
        is_open: Callable[[], bool] = lambda: False,
        *,
        knows_host: bool,
    ) -> None:
        """`allowed`: other names of this server, and pages that may use it. `origins`: pages that may use it, with
        what they need for that; `*` is all of them. `is_open`: whether everybody is let in without credentials.
        `knows_host`: whether the server listens by itself, at `host`; mounted, another application decides that."""
        self._is_local, self._is_open, self._knows_host = is_loopback(host), is_open, knows_host
        self._public_url = public_url
        self._public = None if public_url is None else origin_of(public_url)
        self.adopt(allowed, origins)

    def adopt(self, allowed: Sequence[str], origins: Sequence[str]) -> None:
        """Has these be the other names, and the pages, from now on."""
        self._has_names = bool(allowed)
        ours = (*allowed, *([self._public_url] if self._public_url else ()))
        self._names = frozenset(_written(urlsplit(each).hostname or each) for each in ours)
        self._pages = frozenset(map(origin_of, (*ours, *origins))) - {None}
        self._any_page = "*" in origins
        self._known: set[tuple[bytes, bytes, bool, bool]] = set()

    def check(self, headers: Mapping[bytes, bytes], scope: Mapping[str, Any], route: Route) -> None:
        """Raises Misdirected for a name that is not this server's, and ForeignPage for a page that may not use it."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin", b"")
        has_names = self._is_local if self._knows_host else self._has_names_at(scope)
        is_https = scope.get("scheme") == "https"
        if (host, origin, has_names, is_https) in self._known:
            return
        if len(host) > LONGEST_ORIGIN:
            raise Misdirected("Host is longer than a name of a server can be")
        if len(origin) > LONGEST_ORIGIN:
            raise ForeignPage("Origin is longer than that of a page can be")
        called, page = host.decode("latin-1"), origin.decode("latin-1")
        if has_names and not self._is_ours(_name(called)):
            raise Misdirected(f"Host {called!r} is not a name of this server; add it to allowed_hosts")
        if origin and not self._may(page, called, is_https=is_https):
            if is_loopback(_name(_authority(page))) and _admits_neighbours(route, headers):
                return
            raise ForeignPage(f"Pages of {page!r} may not use this server; add it to cors_origins")
        if len(self._known) < MOST_KNOWN:
            self._known.add((host, origin, has_names, is_https))

    def _has_names_at(self, scope: Mapping[str, Any]) -> bool:
        """Mounted in another app, whether the name that a request uses must be one of this server's: where the settings
        have its names, and where a page that found this machine under a name of its own would be let in. (No page
        reaches a Unix socket, which has no address.)"""
        server = scope.get("server")
        if server is None or server[1] is None:
            return False
        return self._has_names or (is_loopback(str(server[0])) and self._is_open())

    def _may(self, origin: str, host: str, *, is_https: bool) -> bool:
        """Whether pages of an origin may use this server: those that the settings name, and the server's own."""
        if self._any_page:
            return True
        page = origin_of(origin)
        return page is not None and (page in self._pages or self._is_own(page, host, is_https=is_https))

    def _is_own(self, page: "PageOrigin", host: str, *, is_https: bool) -> bool:
        """Whether pages are of the very origin that was called. Its name and port are in `Host`. By which scheme the
        client came, a proxy may have hidden: `public_url` says it, and whoever came by https here has. All names of
        this machine are one, but each port there is somebody else's."""
        name = _name(host)
        if is_loopback(page.name):
            is_same = is_loopback(name)
        else:
            is_same = page.name == name and (name in self._names or not self._is_local)
        if self._public is not None and self._public.name == page.name:
            is_scheme = page.scheme == self._public.scheme
        else:
            is_scheme = page.scheme == "https" or not is_https
        return is_same and is_scheme and page.port == _port(host, page.scheme)

    def _is_ours(self, name: str) -> bool:
        return name in self._names or is_loopback(name)


def _admits_neighbours(route: Route, headers: Mapping[bytes, bytes]) -> bool:
    """Whether pages of other ports of this machine may send a request. One that does nothing, whose reply no page can
    read without CORS. A form, which looks at its origin itself. And one of MCP, where clients in development say where
    they run: it has to be JSON and to say so, and no browser sends that to another origin unless CORS allows it."""
    if route.path in MCP:
        return route.method != "POST" or b"content-type" in headers
    return route.method in ("GET", "HEAD") or route.reads_form


def _name(host: str) -> str:
    """The host of a `Host` header, without its port; nothing where that is not a name, or an address, and perhaps a
    port."""
    return _written(host_in(host))


def _authority(origin: str) -> str:
    """An origin without its scheme."""
    return origin.partition("://")[2]


def _port(authority: str, scheme: str) -> int | None:
    """The port of a `Host` header or an origin; where it does not say one, the scheme's. None: it is none."""
    said = authority.rpartition("]")[2].partition(":")[2]
    if not said:
        return PORTS.get(scheme)
    return int(said) if said.isascii() and said.isdigit() and len(said) <= 5 else None


class PageOrigin(NamedTuple):
    """Whose page it is. Another scheme or another port is another's."""

    scheme: str
    name: str
    port: int


def origin_of(url: str) -> PageOrigin | None:
    """The origin of an address, however it is written; None where it has none."""
    scheme, _, rest = url.lower().partition("://")
    authority = rest.partition("/")[0]
    name, port = _name(authority), _port(authority, scheme)
    return PageOrigin(scheme, name, port) if name and port is not None else None


def _written(name: str) -> str:
    """A host as hosts are compared: without brackets and the dot of the root, in small letters."""
    return name.strip("[]").removesuffix(".").lower()


class Cors:
    """CORS for the pages that the settings name. It never allows a browser's own credentials, its cookies: whoever
    calls sends a key or a token of its own."""

    def __init__(self, origins: Sequence[str], methods: Sequence[str]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(map(origin_of, origins)) - {None}
        self._methods = ", ".join(methods).encode()

    def is_preflight(self, method: str, exchange: Exchange) -> bool:
        """Whether a browser asks, for a page that may, whether it may send the real request."""
        asks = method == "OPTIONS" and b"access-control-request-method" in exchange.headers
        return asks and self._lets(exchange)

    def preflight(self, exchange: Exchange) -> Reply:
        """The answer to a preflight: whichever headers the page wants to send, it may."""
        wanted = exchange.headers.get(b"access-control-request-headers", b"")[:LONGEST]
        said = [(b"access-control-allow-methods", self._methods), (b"access-control-max-age", b"600")]
        # What a client wrote goes into our header: it must not be able to begin another one.
        if wanted and wanted.isascii() and b"\r" not in wanted and b"\n" not in wanted:
            said.append((b"access-control-allow-headers", wanted))
        return Reply(204, b"", said + self._allowed(exchange))

    def dress(self, exchange: Exchange) -> Dress | None:
        """What adds the headers that a page's browser wants to see in each reply. None: the request is no page's, or
        not of a page that may."""
        if b"origin" not in exchange.headers or not self._lets(exchange):
            return None
        added = [(b"access-control-expose-headers", EXPOSED), *self._allowed(exchange)]

        def dressed(reply: Reply | Stream) -> Reply | Stream:
            """A reply with more headers, and not the same one changed: some are made once and given to everybody."""
            return replace(reply, headers=[*reply.headers, *added])

        return dressed

    def _allowed(self, exchange: Exchange) -> Headers:
        """Whose pages may see the reply. With `vary`, or a cache would show one page's answer to another's browser."""
        if self._any:
            return [(b"access-control-allow-origin", b"*")]
        return [(b"access-control-allow-origin", exchange.headers[b"origin"]), (b"vary", b"origin")]

    def _lets(self, exchange: Exchange) -> bool:
        origin = exchange.headers.get(b"origin", b"")
        if len(origin) > LONGEST_ORIGIN:
            return False
        return self._any or origin_of(origin.decode("latin-1")) in self._origins
