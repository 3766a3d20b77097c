"""The older era over HTTP: a handshake, a session if the client keeps one, batches in its first revision, and streams
that the client opens by itself."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import UNSET, Raw

from ....model.caller import Caller
from ....model.channel import nothing
from ....model.errors import LimitReached, NotAuthenticated, ToolyardError
from ....wires.contract import JSON, Reply, Stream
from ....wires.mcp.envelope import (
    HEADERS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Id,
    RpcError,
    encode_result,
    id_of,
    split_batch,
)
from ....wires.mcp.headers import SESSION_HEADER, VERSION_HEADER
from ....wires.mcp.params import CallMessage, Cancelled, Initialize, Message, decode_incoming, decode_params
from ....wires.mcp.revisions import HANDSHAKE, R_2025_03_26, Revision, negotiated
from ...http.exchange import Exchange, Gone
from ..methods.client_answers import ClientAnswers
from ..protocol.eras import SETTINGS, change
from ..protocol.peer import Peer
from ..protocol.refusals import ACCEPTED, refused
from ..protocol.sessions import McpSessions, SessionState, kept, refuse_lesser
from .cancellation import RunningRequests
from .http_stream import EVENT_STREAM
from .resumed_streams import OlderStreams

MOST_AT_FIRST = 64 * 2**10
"""What a client may say of itself."""
MOST_TOLD_TOGETHER = 4 * 2**20
"""Bytes of a batch's answers: they are all in memory until the last one is there. From then on nothing of it begins."""
Answer = Callable[[Message, Peer, Exchange], Awaitable[Reply]]


class OlderEra:
    """The older era's messages: handshake, session, batch, notification, response. What is a request like any other
    goes to `answer`."""

    def __init__(
        self,
        sessions: McpSessions,
        answers: ClientAnswers,
        streams: OlderStreams,
        running: RunningRequests,
        initialized: Callable[[Revision], bytes],
        answer: Answer,
    ) -> None:
        self._sessions, self._answers, self._streams, self._running = sessions, answers, streams, running
        self._initialized, self._answer = initialized, answer

    def post(self, message: Message, exchange: Exchange, caller: Caller) -> Awaitable[Reply]:
        """A call goes on at once where nothing has to be read first."""
        if type(message) is CallMessage and (known := self._known(exchange, caller)) is not None:
            return self._answer(message, known[0], exchange)
        return self._post(message, exchange, caller)

    async def _post(self, message: Message, exchange: Exchange, caller: Caller) -> Reply:
        try:
            return await self._message(message, exchange, caller)
        except (RpcError, LimitReached) as error:
            return refused(error, id_of(exchange.body))

    async def batch(self, exchange: Exchange, caller: Caller) -> Reply:
        """2025-03-26 alone: several at once, one after the other, answered together. What has not begun when the client
        leaves, its credentials end or the answers are too large does not begin. Raises Gone, and NotAuthenticated."""
        try:
            bodies = split_batch(exchange.body)
            version = exchange.headers.get(VERSION_HEADER, b"").decode("latin-1")
            peer, _ = await self._peer(exchange, caller)
            if peer.revision is not R_2025_03_26 or version not in ("", peer.revision.name):
                raise RpcError(INVALID_REQUEST, "Invalid request: this revision has no batches")
        except RpcError as error:
            return refused(error, None)
        left = asyncio.Event()
        exchange.when_gone(left.set)
        replies, told = list[bytes](), 0
        for body in bodies:
            if left.is_set():
                raise Gone
            _refuse_ended(exchange)
            if told >= MOST_TOLD_TOGETHER and (id := id_of(body)) is not None:
                reply = _left_out(id)
            else:
                reply = await self._one_of_batch(exchange, body, caller)
            if reply.body:
                replies.append(b"".join((reply.body, *reply.more)))
                told += len(replies[-1])
        return Reply(200, b"[" + b",".join(replies) + b"]", HEADERS) if replies else ACCEPTED

    async def _one_of_batch(self, exchange: Exchange, body: bytes, caller: Caller) -> Reply:
        """Its own answer, whatever it is refused for: others of the batch have run, and their results must be told.
        Raises NotAuthenticated where it waited until the credentials ended: that refuses the batch."""
        part = exchange.part(body)
        try:
            reply = await self._message(decode_incoming(body), part, caller)
        except ToolyardError as error:
            reply = refused(error, id_of(body))
        finally:
            part.end()
        if part.is_expired:
            _refuse_ended(exchange)
        return reply

    async def get(self, exchange: Exchange, caller: Caller) -> Reply | Stream:
        """A stream of what changes, or the rest of a stream that broke off."""
        try:
            if not exchange.headers.get(SESSION_HEADER):
                raise RpcError(INVALID_REQUEST, "A stream needs a session: send initialize first", status=405)
            peer, state = await self._peer(exchange, caller)
            last = exchange.headers.get(b"last-event-id")
            place = self._streams.place(last, peer) if last else None
        except RpcError as error:
            return refused(error, None)
        if place is not None:
            return Stream(200, EVENT_STREAM, self._streams.rest(place, peer), has_an_end=True)
        return Stream(200, EVENT_STREAM, self._streams.changes(state, peer))

    async def delete(self, exchange: Exchange, caller: Caller) -> Reply:
        """The end of a session."""
        try:
            id = exchange.headers.get(SESSION_HEADER, b"").decode("latin-1")
            if not id:
                raise RpcError(INVALID_REQUEST, "There is no session to end", status=405)
            await self._sessions.end(id, caller)
        except RpcError as error:
            return refused(error, None)
        return Reply(204, b"", [])

    async def _message(self, message: Message, exchange: Exchange, caller: Caller) -> Reply:
        if message.method == "initialize" and message.id is not UNSET:
            return await self._initialize(message, caller)
        peer, state = await self._peer(exchange, caller)
        if type(message) is CallMessage:
            return await self._answer(message, peer, exchange)
        if message.method is UNSET:
            await self._answers.take(message, peer)
            return ACCEPTED
        if message.id is UNSET:
            if message.method == "notifications/cancelled":
                await self._running.cancel(peer, decode_params(message, Cancelled).id)
            return ACCEPTED
        if message.method in SETTINGS:
            if peer.session is not None:
                refuse_lesser(state, caller)
            change(message, state, self._sessions.most_followed)
            if peer.session is not None:
                await self._sessions.change(peer.session, caller, state)
            return Reply(200, encode_result(message.id, b"{}"), HEADERS)  # type: ignore[arg-type]
        return await self._answer(message, peer, exchange)

    async def _initialize(self, message: Message, caller: Caller) -> Reply:
        if isinstance(message.params, Raw) and len(bytes(message.params)) > MOST_AT_FIRST:
            raise RpcError(INVALID_PARAMS, f"Invalid params: initialize has at most {MOST_AT_FIRST} bytes")
        params = decode_params(message, Initialize)
        revision = negotiated(params.version)
        id = await self._sessions.open(
            caller, SessionState(revision.name, kept(params.capabilities), reach=caller.view.reach)
        )
        body = encode_result(message.id, self._initialized(revision))  # type: ignore[arg-type]
        return Reply(200, body, [JSON, (SESSION_HEADER, id.encode())])

    async def _peer(self, exchange: Exchange, caller: Caller) -> tuple[Peer, SessionState]:
        """Raises RpcError."""
        known = self._known(exchange, caller)
        if known is not None:
            return known
        id = exchange.headers[SESSION_HEADER].decode("latin-1")
        state = await self._sessions.find(id, caller)
        return _in_session(id, state, caller), state

    def _known(self, exchange: Exchange, caller: Caller) -> tuple[Peer, SessionState] | None:
        """None where the session has to be looked up."""
        headers = exchange.headers
        id = headers.get(SESSION_HEADER, b"").decode("latin-1")
        if not id:
            version = headers.get(VERSION_HEADER, b"").decode("latin-1")
            revision = HANDSHAKE.get(version, R_2025_03_26)
            return Peer(revision, caller, {}, "info"), SessionState(revision.name)
        state = self._sessions.known(id, caller)
        return None if state is None else (_in_session(id, state, caller), state)


def _in_session(id: str, state: SessionState, caller: Caller) -> Peer:
    return Peer(HANDSHAKE.get(state.version, R_2025_03_26), caller, state.stated(), state.log_level, id)


def _left_out(id: Id) -> Reply:
    """For a request of a batch whose answers are too large already."""
    why = f"Nothing was done: the answers before it in this batch have {MOST_TOLD_TOGETHER} bytes or more"
    return refused(RpcError(INVALID_REQUEST, f"{why}; send it by itself"), id)


def _refuse_ended(exchange: Exchange) -> None:
    """Raises NotAuthenticated where the caller's credentials have ended by now: the shell then refuses the request as
    it would a new one."""
    exchange.when_expired(nothing)()
    if exchange.is_expired:
        raise NotAuthenticated("The credentials have ended")
