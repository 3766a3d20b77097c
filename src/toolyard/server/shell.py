"""The ASGI shell: finds the route, reads the request within limits, sends the reply.

Hot routes are found in one dictionary by (method, path). Everything that goes wrong becomes a JSON answer in the words
of the route's wire, and the connection stays usable.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from ..model.errors import InternalError, MethodNotAllowed, PathNotFound, ToolyardError
from ..wires.contract import Answers, Reply
from .exchange import BodyReader, Exchange, Gone
from .routes import Route
from .settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Lifespan = Callable[[Receive, Send], Awaitable[None]]

_log = logging.getLogger("toolyard.server")


class Shell:
    """An ASGI application."""

    def __init__(
        self,
        routes: Iterable[Route],
        reader: BodyReader,
        wires: Mapping[str, Answers],
        lifespan: Lifespan,
        ready: Callable[[], Awaitable[None]],
        settings: Settings,
    ) -> None:
        """`wires` maps a path prefix to the wire that speaks below it; `ready` is awaited before the first request."""
        self._exact: dict[tuple[str, str], Route] = {}
        self._patterns: list[tuple[str, str, Route]] = []
        self._methods: dict[str, list[str]] = {}
        self._reader, self._wires, self._lifespan, self._ready = reader, wires, lifespan, ready
        self._auth_failure_status = settings.auth_failure_status
        self.public_url = settings.public_url
        """The address in links; without one, the address the client used."""
        self._is_ready = False
        for route in routes:
            self._add(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        reply = await self.respond(scope, receive, None)
        if reply is not None:
            length = [(b"content-length", b"%d" % len(reply.body))] if reply.status != 304 else []
            headers = [*reply.headers, *length]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body})

    async def respond(self, scope: Scope, receive: Receive, body: bytes | None) -> Reply | None:
        """The reply to a request; None when the client left before it was complete. A server that has the whole
        body already hands it in."""
        if not self._is_ready:
            await self._ready()
            self._is_ready = True
        path, method = scope["path"], scope["method"]
        root = scope.get("root_path")
        if root and path.startswith(root):
            path = path[len(root) :] or "/"
        route = self._exact.get((method, path))
        exchange = Exchange(scope, path, dict(scope["headers"]), self.public_url)
        try:
            if route is None:
                route = self._find(method, exchange)
            if route.reads_json:
                if body is None:
                    body = await self._reader.read(exchange.headers, receive)
                self._reader.check(exchange.headers, body)
                exchange.body = body
            reply = await route.handler(exchange)
        except ToolyardError as error:
            reply = (route.wire if route else self._wire_of(path)).encode_error(error)
        except Gone:
            return None
        except Exception:
            _log.exception("%s %s", method, path)
            reply = self._wire_of(path).encode_error(InternalError("The server failed; this is a defect"))
        if reply.status == 401:
            reply.status = self._auth_failure_status
        return reply

    def _add(self, route: Route) -> None:
        methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]
        self._methods.setdefault(route.path, []).extend(methods)
        start, brace, rest = route.path.partition("{")
        for method in methods:
            if brace:
                self._patterns.append((start, rest.partition("}")[2], route))
            else:
                self._exact[method, route.path] = route

    def _find(self, method: str, exchange: Exchange) -> Route:
        """What is not found by its exact path: a route with a variable, or the reason why there is none."""
        path, allowed = exchange.path, list(self._methods.get(exchange.path, ()))
        for start, end, route in self._patterns:
            value = path[len(start) : len(path) - len(end)]
            if path.startswith(start) and path.endswith(end) and value and "/" not in value:
                if method in (route.method, "HEAD" if route.method == "GET" else ""):
                    exchange.parameter = value
                    return route
                allowed += self._methods[route.path]
        if allowed:
            methods = tuple(sorted(set(allowed)))
            raise MethodNotAllowed(f"{path} takes {' or '.join(methods)}, not {method}", methods)
        raise PathNotFound(f"Nothing is served at {path[:200]}")

    def _wire_of(self, path: str) -> Answers:
        for prefix, wire in self._wires.items():
            if path.startswith(prefix):
                return wire
        return self._wires[""]

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._is_ready = True
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000, "reason": "toolyard speaks HTTP"})
