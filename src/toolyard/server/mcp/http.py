"""MCP over HTTP, at `/mcp`: both eras at one address, told apart by what a request carries."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

from msgspec import UNSET

from ...model.call import CallTool
from ...model.caller import Caller
from ...model.errors import (
    BodyTooLarge,
    Busy,
    MethodNotAllowed,
    NotAuthenticated,
    PathNotFound,
    RequestError,
    ToolyardError,
    UnsupportedMediaType,
)
from ...model.lifecycle import ENDED
from ...running.attempts import resumed
from ...store.contract import Store
from ...store.hints import Topic
from ...trust.authentication import Authenticate
from ...wires.contract import JSON, Headers, Reply, Stream
from ...wires.mcp.envelope import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Incoming,
    RpcError,
    decode_message,
    encode_error,
    encode_notification,
    encode_result,
    id_of,
    split_batch,
)
from ...wires.mcp.headers import NAMED, SESSION_HEADER, VERSION_HEADER, check_headers, check_parameters
from ...wires.mcp.params import (
    Call,
    Cancelled,
    Initialize,
    Params,
    Wanted,
    decode_params,
    raw_params,
)
from ...wires.mcp.revisions import HANDSHAKE, R_2025_03_26, negotiated
from ..exchange import Exchange
from ..routes import Route
from .answers import ClientAnswers
from .dispatcher import Dispatcher
from .eras import SETTINGS, change, modern_peer, params_of
from .outlet import EVENT_STREAM, Events, HttpOutlet, event, event_id, read_event_id
from .peer import Peer, owns
from .running import RunningRequests
from .safety import Guard
from .sessions import McpSessions, SessionState
from .subscriptions import Subscriber, Subscriptions
from .tasks import Tasks

LOOK_S = 1.0
ACCEPTED = Reply(202, b"", [])
HEADERS: Headers = [JSON]


class McpAnswers:
    """What is refused before it is a message."""

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        return refused(error, None)


MCP = McpAnswers()


def refused(error: ToolyardError, id: int | str | None) -> Reply:
    rpc = error if isinstance(error, RpcError) else _as_rpc(error)
    headers = [*HEADERS, (b"www-authenticate", b"Bearer")] if isinstance(error, NotAuthenticated) else HEADERS
    return Reply(rpc.status, encode_error(id, rpc), headers)


def _as_rpc(error: ToolyardError) -> RpcError:
    """Every error of the tree that is not a call's."""
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
    code = INVALID_REQUEST if status < 500 else INTERNAL_ERROR
    detail = f": {error.developer_message}" if error.developer_message and status < 500 else ""
    return RpcError(code, f"{error.message}{detail}", status=status)


_STATUSES: dict[type[ToolyardError], int] = {
    NotAuthenticated: 401,
    PathNotFound: 404,
    MethodNotAllowed: 405,
    BodyTooLarge: 413,
    UnsupportedMediaType: 415,
    RequestError: 400,
    Busy: 503,
}
"""The first that fits."""


class McpHttp:
    """Handlers."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        sessions: McpSessions,
        subscriptions: Subscriptions,
        tasks: Tasks,
        store: Store,
        authenticate: Authenticate,
        answers: ClientAnswers,
        guard: Guard,
        stream_s: float,
    ) -> None:
        self._dispatcher, self._sessions, self._subscriptions, self._tasks = dispatcher, sessions, subscriptions, tasks
        self._store, self._authenticate, self._stream_s = store, authenticate, stream_s
        self._running, self._answers, self._guard = RunningRequests(store), answers, guard

    def routes(self) -> list[Route]:
        return [
            Route(method, path, handler, MCP, reads_json=method == "POST")
            for path in ("/mcp", "/mcp/")
            for method, handler in (("POST", self.post), ("GET", self.get), ("DELETE", self.delete))
        ]

    # -- POST --------------------------------------------------------------------------------------

    def post(self, exchange: Exchange) -> Awaitable[Reply]:
        """No coroutine of its own around the others: it would cost as much as the decoding."""
        headers, body = exchange.headers, exchange.body
        self._guard.check(headers)
        caller = self._authenticate(headers)
        if body[:1] != b"{" and body.lstrip()[:1] == b"[":
            return self._batch(exchange, caller)
        try:
            message = decode_message(body)
            modern = self._modern_peer(message, headers, caller)
        except RpcError as error:
            return _given(refused(error, id_of(body)))
        if modern is not None:
            return self._request(message, modern, exchange)
        return self._older_or_refused(message, exchange, caller)

    async def _request(self, message: Incoming, peer: Peer, exchange: Exchange) -> Reply:
        """What ends with its first step has made no timer, and is not known to anybody."""
        if message.id is UNSET:
            return ACCEPTED
        stream_s = self._stream_s if peer.session is not None and message.method == "tools/call" else None
        outlet = HttpOutlet(exchange, peer.revision, message.id, self._store, stream_s)  # type: ignore[arg-type]
        try:
            steps = self._dispatcher.answer(message, peer, outlet, exchange.base_url)
            try:
                waiting_for = steps.send(None)
            except StopIteration as done:
                result: bytes = done.value
            else:
                with outlet.soon(), self._running.kept(peer, message.id, outlet):  # type: ignore[arg-type]
                    result = await resumed(steps, waiting_for)
        except RpcError as error:
            status = error.status if peer.revision.is_modern else 200
            return outlet.reply(status, encode_error(message.id, error), HEADERS)
        except NotAuthenticated:
            raise
        except RequestError as error:
            rpc = RpcError(INVALID_PARAMS, error.message)
            return outlet.reply(200, encode_error(message.id, rpc), HEADERS)
        except ToolyardError as error:
            rpc = _as_rpc(error)
            return outlet.reply(200, encode_error(message.id, rpc), HEADERS)
        return outlet.reply(200, encode_result(message.id, result), HEADERS)  # type: ignore[arg-type]

    def _modern_peer(self, message: Incoming, headers: Mapping[bytes, bytes], caller: Caller) -> Peer | None:
        """None for a request of the older era. Raises RpcError for one of the newer that is not as it must be."""
        version = headers.get(VERSION_HEADER, b"").decode("latin-1")
        if version in HANDSHAKE:
            return None
        params = params_of(message)
        said = version if params.meta is UNSET or params.meta.version is UNSET else params.meta.version
        if version and version != said:
            check_headers(headers, said, str(message.method), None)
        peer = modern_peer(message, params, caller, version)
        if peer is not None and message.id is not UNSET:
            self._check_headers(message, params, headers, said)
        return peer

    def _check_headers(self, message: Incoming, params: Params, headers: Mapping[bytes, bytes], version: str) -> None:
        if isinstance(params, Call):
            check_headers(headers, version, "tools/call", params.name)
            mirrored = self._dispatcher.mirrored(params)
            if mirrored:
                check_parameters(headers, mirrored, params.arguments)
        else:
            named = NAMED.get(str(message.method))
            check_headers(headers, version, str(message.method), raw_params(message).get(named) if named else None)

    # -- the older era -----------------------------------------------------------------------------

    async def _older_or_refused(self, message: Incoming, exchange: Exchange, caller: Caller) -> Reply:
        try:
            return await self._older(message, exchange, caller)
        except RpcError as error:
            return refused(error, id_of(exchange.body))

    async def _older(self, message: Incoming, exchange: Exchange, caller: Caller) -> Reply:
        if message.method == "initialize" and message.id is not UNSET:
            return await self._initialize(message, caller)
        peer, state = await self._older_peer(exchange, caller)
        if message.method is UNSET:
            await self._answers.take(message, caller)
            return ACCEPTED
        if message.id is UNSET:
            await self._notified(message, peer)
            return ACCEPTED
        if message.method in SETTINGS:
            change(message, state)
            if peer.session is not None:
                await self._sessions.save(peer.session, caller, state)
            return Reply(200, encode_result(message.id, b"{}"), HEADERS)  # type: ignore[arg-type]
        return await self._request(message, peer, exchange)

    async def _initialize(self, message: Incoming, caller: Caller) -> Reply:
        params = decode_params(message, Initialize)
        revision = negotiated(params.version)
        id = await self._sessions.open(caller, SessionState(revision.name, params.capabilities))
        body = encode_result(message.id, self._dispatcher.initialized(revision))  # type: ignore[arg-type]
        return Reply(200, body, [JSON, (SESSION_HEADER, id.encode())])

    async def _older_peer(self, exchange: Exchange, caller: Caller) -> tuple[Peer, SessionState]:
        """Raises RpcError."""
        headers = exchange.headers
        id = headers.get(SESSION_HEADER, b"").decode("latin-1")
        version = headers.get(VERSION_HEADER, b"").decode("latin-1")
        if not id:
            revision = HANDSHAKE.get(version, R_2025_03_26)
            return Peer(revision, caller, {}, "info"), SessionState(revision.name, {})
        state = await self._sessions.find(id, caller)
        revision = HANDSHAKE.get(state.version, R_2025_03_26)
        return Peer(revision, caller, state.capabilities, state.log_level, id), state

    async def _notified(self, message: Incoming, peer: Peer) -> None:
        if message.method == "notifications/cancelled":
            await self._running.cancel(peer, decode_params(message, Cancelled).id)

    async def _batch(self, exchange: Exchange, caller: Caller) -> Reply:
        """2025-03-26 alone: several at once, answered together."""
        try:
            bodies = split_batch(exchange.body)
            version = exchange.headers.get(VERSION_HEADER, b"").decode("latin-1")
            peer, _ = await self._older_peer(exchange, caller)
            if peer.revision is not R_2025_03_26 or version not in ("", peer.revision.name):
                raise RpcError(INVALID_REQUEST, "Invalid request: this revision has no batches")
        except RpcError as error:
            return refused(error, None)
        replies = []
        for body in bodies:
            try:
                reply = await self._older(decode_message(body), _Quiet(exchange), caller)  # type: ignore[arg-type]
            except RpcError as error:
                reply = refused(error, id_of(body))
            if reply.body:
                replies.append(reply.body)
        return Reply(200, b"[" + b",".join(replies) + b"]", HEADERS) if replies else ACCEPTED

    # -- GET and DELETE ----------------------------------------------------------------------------

    async def get(self, exchange: Exchange) -> Reply | Stream:
        """The older era: a stream of what changes, or the rest of a stream that broke off."""
        self._guard.check(exchange.headers)
        caller = self._authenticate(exchange.headers)
        try:
            if SESSION_HEADER not in exchange.headers:
                raise RpcError(INVALID_REQUEST, "A stream needs a session: send initialize first", status=405)
            peer, state = await self._older_peer(exchange, caller)
            last = exchange.headers.get(b"last-event-id")
            if last is not None and (place := read_event_id(last)) is not None:
                return Stream(200, EVENT_STREAM, self._rest(place, peer))
        except RpcError as error:
            return refused(error, None)
        return Stream(200, EVENT_STREAM, self._changes(state, caller))

    async def _changes(self, state: SessionState, caller: Caller) -> AsyncIterator[bytes]:
        events = Events()
        wanted = Wanted(tools=True, prompts=True, resources=True, uris=state.subscriptions)

        def tell(method: str, params: dict[str, Any]) -> None:
            events.put(event(encode_notification(method, params or None)))

        yield b": changes\n\n"
        with self._subscriptions.hearing(Subscriber(wanted, tell, caller)):
            async for chunk in events.chunks():
                yield chunk

    async def _rest(self, place: tuple[int, int, int | str], peer: Peer) -> AsyncIterator[bytes]:
        """What came after an event, and the response."""
        seq, number, id = place
        put: set[bytes] = set()
        with self._store.hints.waiting(Topic.ENDED, seq) as bell:
            while True:
                call = await self._store.row(seq)
                if call is None or not owns(peer.caller, call):
                    return
                for each, data in await self._store.call_events(seq, number):
                    number = each
                    yield event(data, event_id(seq, number, id))
                for question in await self._answers.unseen(call, peer.revision):
                    if question not in put:
                        put.add(question)
                        yield event(question)
                if call.state in ENDED:
                    yield event(encode_result(id, self._tasks.result_of(call, peer.revision)))
                    return
                if not await bell.wait(LOOK_S):
                    yield b": still here\n\n"

    async def delete(self, exchange: Exchange) -> Reply:
        self._guard.check(exchange.headers)
        caller = self._authenticate(exchange.headers)
        try:
            id = exchange.headers.get(SESSION_HEADER, b"").decode("latin-1")
            if not id:
                raise RpcError(INVALID_REQUEST, "There is no session to end", status=405)
            await self._sessions.end(id, caller)
        except RpcError as error:
            return refused(error, None)
        return Reply(204, b"", [])


async def _given(reply: Reply) -> Reply:
    return reply


class _Quiet:
    """An exchange of one in a batch: its reply is collected, so nothing can be said before."""

    def __init__(self, exchange: Exchange) -> None:
        self.headers = {**exchange.headers, b"accept": b"application/json"}
        self.base_url = exchange.base_url
        self.when_gone = exchange.when_gone

    def answer(self, reply: Reply | Stream) -> None:
        """Not alone."""
