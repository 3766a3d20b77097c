"""The route table: its rows, and how the one for a request is found. Each feature gives its own rows to the composition
root, and the OpenAPI document is written from them, too.

Paths are matched as the client wrote them, without taking escapes out first: a proxy that has rules for paths and this
server must not disagree on which path a request has.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

from ...model.errors import MethodNotAllowed, PathNotFound
from ...text.percent import unescaped
from ...trust.audit.entry import AuditKind
from ...wires.contract import ErrorEncoder, Reply, Stream
from .exchange import Exchange

DOTS = frozenset({".", "..", "%2e", "%2e.", ".%2e", "%2e%2e"})
"""Segments that mean another place, as they may be written."""
MOST_SEGMENTS = 16
"""No route has so many. A path with more is not looked at: it would cost its segments, whoever sends it."""
SHOWN = 200
"""Characters of a path that a refusal repeats."""
Handler = Callable[[Exchange], Awaitable[Reply | Stream]]


class Route(Struct, frozen=True):
    """One row: which handler serves a method and a path, and what the shell does before it. A segment of `path` may be
    a variable, `{name}`, which matches any segment that is not empty. `wire` answers the route's errors, unless `guess`
    finds a better one in the query or the body."""

    method: str
    path: str
    handler: Handler
    wire: ErrorEncoder
    reads_json: bool = False
    reads_form: bool = False
    """Whether the body is a form that a person filled in on a page; `pages.forms` checks it."""
    who: Literal["caller", "anyone", "operator"] = "caller"
    """Who may ask: whoever is authenticated, everybody, or whoever has the token beside the ledger."""
    guess: Callable[[bytes, bytes], ErrorEncoder] | None = None
    audit_as: AuditKind | None = None
    """The kind of the audit entry that is written once the handler is done. None where the request does not belong into
    the log, or the handler writes an entry of its own that says more."""


class LateRoutes(Struct, frozen=True):
    """All routes at a path and below it, which are made, and whose modules are loaded, with the first request for one
    of them. Most servers are never asked for some of what they can do, and every server pays for what it loads: with
    the time that a start takes, and with memory for as long as it runs."""

    at: str
    """A path without variables."""
    methods: frozenset[str]
    """The methods that some of the routes take: what a server allows at all is known before they are made."""
    make: Callable[[], Iterable[Route]]

    def has(self, sent: str) -> bool:
        return sent == self.at or sent.startswith(f"{self.at}/")


class CheckedHead(Struct, frozen=True):
    """A request's head whose route is found, and with which a request may be here, whoever sends it."""

    head: tuple[str, dict[bytes, bytes], Route]
    """The path below where this application is mounted, the headers by name, and the route."""
    route: Route
    parameters: dict[str, str]
    """What stands for the route's variables."""


class RouteTable:
    """Finds the route of a request. Routes without variables are looked up in a dictionary; those with variables are
    grouped by how many segments they have, which leaves few to look at."""

    def __init__(self, routes: Iterable[Route | LateRoutes]) -> None:
        self.exact: dict[tuple[str, str], Route] = {}
        """The routes without variables, by method and path, for the shell to look in first."""
        self._by_path: dict[str, dict[str, Route]] = {}
        self._patterns: dict[int, list[tuple[list[str], dict[str, Route]]]] = {}
        self._late: list[LateRoutes] = []
        for each in routes:
            if isinstance(each, LateRoutes):
                self._late.append(each)
            else:
                self._add(each)

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method that some route takes."""
        taken = {method for routes in self._by_path.values() for method in routes}
        return tuple(sorted(taken.union(*(late.methods for late in self._late))))

    def all(self) -> list[Route]:
        """Every route, with those that are made late."""
        self._make(self._late)
        found = (each for routes in self._by_path.values() for each in routes.items())
        return [route for method, route in found if method == route.method]

    def _make(self, wanted: Iterable[LateRoutes]) -> None:
        for late in list(wanted):
            self._late.remove(late)
            for route in late.make():
                self._add(route)

    def find(self, method: str, sent: str) -> tuple[Route, dict[str, str]]:
        """A route, and the values of its variables. `sent` is the path as the client wrote it: only what stands for a
        variable may have escapes. Raises MethodNotAllowed or PathNotFound where there is no route."""
        if sent.count("/") > MOST_SEGMENTS:
            raise PathNotFound("Nothing is served at so deep a path")
        if self._late:
            self._make(late for late in self._late if late.has(sent))
        there = {} if "{" in sent else self._by_path.get(sent, {})  # "/v1/calls/{call_id}" itself is no path
        if method in there:
            return there[method], {}
        allowed, segments = set(there), sent.split("/")
        # A proxy may resolve these, and then the path that it allowed is another than the one that is asked for.
        if not DOTS.isdisjoint(sent.lower().split("/")):
            raise PathNotFound("A path here has no '.' or '..' in it")
        for pattern, routes in self._patterns.get(len(segments), ()):
            values = _values(pattern, segments)
            if values is not None and method in routes:
                return routes[method], values
            if values is not None:
                allowed |= routes.keys()
        if allowed:
            methods = tuple(sorted(allowed))
            raise MethodNotAllowed(f"{unescaped(sent)[:SHOWN]} takes {' or '.join(methods)}, not {method}", methods)
        raise PathNotFound(f"Nothing is served at {unescaped(sent)[:SHOWN]}{_as_escaped(sent)}")

    def _add(self, route: Route) -> None:
        # HEAD is answered like GET, without the body (RFC 9110, section 9.3.2).
        methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]
        # The same dictionary is in both tables: a second method of the path, added below, is then in the pattern, too.
        if route.path not in self._by_path and "{" in route.path:
            pattern = route.path.split("/")
            self._patterns.setdefault(len(pattern), []).append((pattern, self._by_path.setdefault(route.path, {})))
        for method in methods:
            self._by_path.setdefault(route.path, {})[method] = route
            if "{" not in route.path:
                self.exact[method, route.path] = route


def variables_of(path: str) -> list[str]:
    """The names of a path's variables, in their order."""
    return [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]


def sent_path(scope: Mapping[str, Any], path: str) -> str:
    """`path`, which begins below where this application is mounted, as the client wrote it: there, an escaped slash
    does not part segments. ASGI's `raw_path` has it, but not every server gives that, and not everything in between
    keeps it right; where the two do not agree, `path` is escaped again."""
    sent = (scope.get("raw_path") or b"").decode("latin-1")
    if scope["path"] != path:
        mounted = scope["root_path"].count("/")
        sent = "/" + "".join(sent.split("/", mounted + 1)[mounted + 1 :])
    return sent if unescaped(sent) == path else quote(path, errors="replace")


def _as_escaped(sent: str) -> str:
    """A hint for a path that is not found because of its escapes."""
    return f", written as {sent[:SHOWN]}; write it without escapes" if "%" in sent else ""


def _values(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """What stands for each variable of a pattern; None where the path does not fit it."""
    values = {}
    for part, segment in zip(pattern, segments, strict=True):
        if part.startswith("{") and segment:
            values[part[1:-1]] = unescaped(segment)
        elif part != segment:
            return None
    return values
