"""The ASGI shell: finds the route, asks who sent the request, reads it within limits, and gives back the handler's
reply; it also starts and stops the server with ASGI's lifespan.

Hot routes are found in one dictionary by (method, path). Everything that goes wrong becomes a JSON answer in the words
of the route's wire, and the connection stays usable. `respond` runs for every request, so it is one function: what it
calls, makes or awaits without need costs every call.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from ...model.caller import Caller
from ...model.errors import InternalError, NotAuthenticated, ToolyardError
from ...wires.contract import ErrorEncoder, Reply, Stream
from ..settings.table import Settings
from .admission import Admission
from .body import BodyReader
from .exchange import Exchange, Gone, peer_of, refuse_repeated
from .known_head import KnownHead
from .limits import ServerLimits
from .logs import current
from .origins import Cors
from .reply_budget import ReplyBudget
from .reply_line import AsgiLine, CallersLine, Receive, Scope, Send
from .routes import CheckedHead, LateRoutes, Route, RouteTable, sent_path
from .streams import StreamCount, Streams
from .turns import DENSE_BODY, Turns, takes_turns

Lifespan = Callable[[Receive, Send], Awaitable[None]]
"""Lives through an application's start and stop, as the ASGI server tells of them."""
__all__ = ["Lifespan", "Receive", "Scope", "Send", "Shell"]

PERCENT = ord("%")
"""As a number: Python finds a byte in bytes in half the time in which it finds bytes there."""
_log = logging.getLogger("toolyard.server")


class Shell:
    """The server as an ASGI application: everything between a connection and a route's handler."""

    def __init__(
        self,
        routes: Iterable[Route | LateRoutes],
        reader: BodyReader,
        admission: Admission,
        wires: Mapping[str, ErrorEncoder],
        lifespan: Lifespan,
        ready: Callable[[], Awaitable[None]],
        settings: Settings,
        public_url: str | None,
        limiting: ServerLimits | None = None,
        replies: ReplyBudget | None = None,
    ) -> None:
        """`wires` maps a path prefix to the wire that speaks below it; `ready` is awaited before the first request;
        `public_url` is the address in links: None for the one that the client used."""
        self._table = RouteTable(routes)
        self._exact = self._table.exact
        self._reader, self._wires, self._lifespan, self._ready = reader, wires, lifespan, ready
        self._guard, self._admit, self._done = admission.guard, admission.admit, admission.done
        self._admit_operator, self._turned_away = admission.admit_operator, admission.turned_away
        self._validity, self._refusal = admission.validity, admission.refusal
        self._auth_failure_status = settings.auth_failure_status
        self._public_url = public_url
        self.methods = self._table.methods
        self.allow_pages(settings.cors_origins)
        self.streams = Streams(admission.validity)
        self._stream_count = StreamCount() if limiting is None else limiting.streams
        self._find_address = peer_of if limiting is None else limiting.proxies.address
        self._turns = Turns()
        self.replies = replies or ReplyBudget()
        self._is_ready = False

    def allow_pages(self, origins: Sequence[str]) -> None:
        """Has pages of these origins be those that may call from a browser."""
        self._cors = Cors(origins, self.methods) if origins else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        line = AsgiLine(scope, receive, send, self.streams)
        try:
            await line.finish(await self.respond(scope, receive, None, line))
        finally:
            await line.hang_up()

    async def respond(
        self, scope: Scope, receive: Receive, body: bytes | None, line: CallersLine, known: KnownHead | None = None
    ) -> Reply | Stream | None:
        """What the handler returns, also after an early answer; None when the client left before its request was
        complete. A server that has the whole body already hands it in, and one that knows the head, that."""
        if not self._is_ready:
            await self._ready()
            self._is_ready = True
        checked = None if known is None else known.request
        path, headers, route = self._read_head(scope) if checked is None else checked.head
        method, is_late = scope["method"], False
        exchange = Exchange(scope, path, headers, self._public_url, line, self._find_address, self._validity)
        current.set(exchange)
        try:
            if checked is None and len(headers) < len(scope["headers"]):  # a name is there twice, which is rare
                refuse_repeated(scope["headers"])
            # Before the route: a preflight asks for any path, and a refusal must be dressed for the page to read it.
            if self._cors is not None:
                if self._cors.is_preflight(method, exchange):
                    return self._cors.preflight(exchange)
                exchange.dress = self._cors.dress(exchange)
            if checked is not None:
                route, exchange.parameters = checked.route, checked.parameters
            else:
                if route is None:
                    route, exchange.parameters = self._table.find(method, sent_path(scope, path))
                self._guard(headers, scope, route)
                if known is not None:
                    known.request = CheckedHead((path, headers, route), route, exchange.parameters)
            if route.who == "caller":
                caller = self._admit(scope, exchange)
                caller = caller if type(caller) is Caller else await caller  # type: ignore[misc]
                exchange.caller = line.caller = caller
                exchange.is_admitted = True
                if self.replies.full:
                    await self.replies.room(exchange)
                    is_late = True
            elif route.who == "operator":
                self._admit_operator(exchange.headers)
            # Only now: nobody who is not admitted has the server wait for a body.
            handler = route.handler
            if route.reads_json:
                if body is None:
                    body, is_late = await self._reader.read(exchange, receive), True
                exchange.body = body
                if len(body) > DENSE_BODY and takes_turns(body):
                    handler = partial(self._in_turn, route, scope)
                else:
                    self._reader.check(exchange.headers, body)
            elif route.reads_form:
                exchange.body = body if body is not None else await self._reader.read(exchange, receive)
                is_late = True
            if is_late:
                await self._admit_again(route, scope, exchange)
            reply = await handler(exchange)
            if exchange.is_expired:
                raise NotAuthenticated("The credentials have ended")
            if route.audit_as is not None:
                await self._done(route.audit_as, method, exchange)
            if type(reply) is Stream:
                await self.streams.refuse_endless(reply)
                reply = self._stream_count.counted(reply, exchange.caller)
        except ToolyardError as raised:
            reply = await self._refuse(raised, scope, receive, route, exchange, body)
        except Gone:
            return None
        except Exception:  # the outermost shell: a defect is one 500, and the server goes on
            _log.exception("%s %s", method, path)
            failed = InternalError("The server failed; this is a defect")
            reply = self._answering(route, exchange, body or b"").encode_error(failed)
        finally:
            exchange.end()
        if reply.status == 401:
            reply.status = self._auth_failure_status
        return reply if exchange.dress is None else exchange.dress(reply)

    async def _refuse(
        self,
        error: ToolyardError,
        scope: Scope,
        receive: Receive,
        route: Route | None,
        exchange: Exchange,
        body: bytes | None,
    ) -> Reply:
        """The answer to a request that was refused. Not in `respond` itself: there the error would hold the frame that
        it was raised through, and that frame the error, with the whole request, until Python looks for cycles."""
        if exchange.is_expired:
            error = await self._refusal(scope, exchange)
        if isinstance(error, NotAuthenticated):
            await self._turned_away(error, route, exchange)
        # Refused before the body was read, which would tell whose words the refusal should be in.
        if body is None and route is not None and route.guess is not None:
            body = exchange.body or await self._reader.peek(exchange.headers, receive)
        return self._answering(route, exchange, body or b"").encode_error(error)

    def _read_head(self, scope: Scope) -> "tuple[str, dict[bytes, bytes], Route | None]":
        """The path below where this application is mounted, the headers by name, and the route where it is a hot
        one."""
        path = scope["path"]
        # Mounted in another app: some frameworks leave their part in the path, as ASGI has it, some take it out.
        root = scope.get("root_path")
        if root and path.startswith(root):
            path = path[len(root) :] or "/"
        raw_path = scope.get("raw_path")
        # A path with escapes is no hot one; `find` decides what they may stand for.
        is_escaped = raw_path is not None and PERCENT in raw_path
        return path, dict(scope["headers"]), None if is_escaped else self._exact.get((scope["method"], path))

    async def _admit_again(self, route: Route, scope: Scope, exchange: Exchange) -> None:
        """Once more, for a request that was waited for: its body, or its turn, may come long after its head, and the
        credentials may have ended since. Raises what a new request would be refused with."""
        if route.who == "caller":
            caller = self._admit(scope, exchange)
            exchange.caller = caller if type(caller) is Caller else await caller  # type: ignore[misc]
        elif route.who == "operator":
            self._admit_operator(exchange.headers)

    async def _in_turn(self, route: Route, scope: Scope, exchange: Exchange) -> Reply | Stream:
        """What the handler returns, for a request with a large body: others have their turn before it."""
        await self._turns.wait(exchange)
        self._reader.budget.release(exchange)
        with self._turns.held():
            await self._admit_again(route, scope, exchange)
            self._reader.check(exchange.headers, exchange.body)
            return await route.handler(exchange)

    def _answering(self, route: Route | None, exchange: Exchange, body: bytes) -> ErrorEncoder:
        """In whose words an error is. Where several protocols share an address, the query and the body decide."""
        if route is None:
            return self._wire_of(exchange.path)
        return route.wire if route.guess is None else route.guess(exchange.query, body)

    def _wire_of(self, path: str) -> ErrorEncoder:
        """The wire of a path that nothing is served at: the first prefix that fits."""
        for prefix, wire in self._wires.items():
            if path.startswith(prefix):
                return wire
        return self._wires[""]

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is no HTTP request: the lifespan, and WebSockets, which are closed in order."""
        if scope["type"] == "lifespan":
            self._is_ready = True
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000, "reason": "toolyard speaks HTTP"})


def lifespan(start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]) -> Lifespan:
    """ASGI's lifespan protocol: starts and stops when the ASGI server says so, and tells it what came of it."""

    async def live(receive: Receive, send: Send) -> None:
        await receive()
        try:
            await start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await stop()
        await send({"type": "lifespan.shutdown.complete"})

    return live
