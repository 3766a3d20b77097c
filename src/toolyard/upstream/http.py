"""MCP with a server at an address, in both eras.

In the newer era every request stands alone; in the older one a handshake opens a session, in which a stream may end
before its answer and be taken up again, and in which the server may ask things of its own. A question that comes on the
stream of a request belongs to that; one on the session's own stream is put as over a pipe.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from msgspec import UNSET, Raw

from ..wires.mcp.client_replies import MODERN_ERRORS
from ..wires.mcp.envelope import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Incoming,
    encode_notification,
    encode_request,
)
from ..wires.mcp.headers import METHOD_HEADER, NAME_HEADER, NAMED, SESSION_HEADER, VERSION_HEADER, encoded
from ..wires.mcp.params import SERVER_INFO
from ..wires.mcp.revisions import HANDSHAKE, R_2025_11_25, R_2026_07_28, Revision
from ..wires.mcp.sse import EventReader, EventTooLarge
from .connection import (
    LISTENED,
    UpstreamAccess,
    UpstreamInfo,
    UpstreamNotice,
    agreed,
    info_of,
    initialize_params,
    listen_params,
    modern_meta,
    notice_of,
    set_log_level,
    subscribe,
)
from .faults import Lost, Misbehaved, NotSent, RefusalDetails, UpstreamRefusal, is_answer
from .http_client import BrokenReply, HttpClient, HttpReply, MaybeSent, OversizedReply, Unsent
from .messages import messages_in
from .pace import Pace
from .pending_request import DEAF, OpenRequests, PendingRequest, RequestListener, object_of, params_of, refusal_in

OPEN_S = 30.0
"""How long a server may take to answer the first request."""
ERROR_BYTES = 64 * 2**10
"""Of the body of an answer that is no success."""
EVENT_BYTES_MORE = 2**16
"""By how much an event may be larger than the result in it."""
FIRST_RESUME_S, LONGEST_RESUME_S = 0.1, 30.0
MOST_RESUMES = 20
"""In a row, without an event in between."""
CANCEL_S = 5.0
BESIDE = 8
"""Connections beside those of calls: for streams, lists and answers."""
_JSON = (b"content-type", b"application/json")
_ACCEPT = (b"accept", b"application/json, text/event-stream")


class UpstreamEndpoint:
    """The address of an upstream, and what every request to it has: credentials and the settings' headers."""

    def __init__(self, reach: UpstreamAccess) -> None:
        self._headers, self.most_bytes, self.timeout_s = reach.headers, reach.most_bytes, reach.upstream.timeout_s
        self._pace = Pace()
        self._client = HttpClient(reach.upstream.mcp or "", most_connections=reach.upstream.concurrency + BESIDE)

    async def send(self, method: str, headers: Mapping[bytes, bytes], body: bytes = b"") -> HttpReply:
        """Raises NotSent, Lost and Misbehaved."""
        try:
            return await self._client.send(
                method, self._client.path, {**self._headers, **headers}, body, head_s=self.timeout_s + OPEN_S
            )
        except Unsent as error:
            raise NotSent(f"cannot be reached: {error}") from None
        except MaybeSent as error:
            raise Lost(f"was lost: {error}") from None
        except BrokenReply as error:  # its text names the address, which is not for callers
            raise Misbehaved("sent a reply that cannot be read") from error

    async def post(self, headers: Mapping[bytes, bytes], body: bytes) -> HttpReply:
        return await self.send("POST", {**dict([_JSON, _ACCEPT]), **headers}, body)

    async def messages(self, reply: HttpReply, resume: "ResumePoint | None" = None) -> AsyncIterator[Incoming]:
        """What comes in a reply, message by message. Raises UpstreamFault; a status that is no success is a refusal."""
        try:
            if reply.status not in (200, 202):
                raise await self._refusal(reply)
            if _media_type(reply) == b"text/event-stream":
                async for message in self._events(reply, resume):
                    yield message
            elif body := await reply.read(self.most_bytes + EVENT_BYTES_MORE):
                for message in messages_in(body):
                    yield message
        except OversizedReply:
            raise Misbehaved(f"answered with more than {self.most_bytes} bytes") from None
        except (MaybeSent, BrokenReply) as error:
            raise Lost(str(error)) from None
        finally:
            reply.close()

    async def _events(self, reply: HttpReply, resume: "ResumePoint | None") -> AsyncIterator[Incoming]:
        reader = EventReader(self.most_bytes + EVENT_BYTES_MORE)
        try:
            async for chunk in reply.chunks():
                began = asyncio.get_running_loop().time()
                events = reader.feed(chunk)
                if resume is not None:
                    resume.note(reader.last_id, reader.retry_ms)
                for event in events:
                    if event.data:  # the first is often empty: it has an id to go on from, and nothing else
                        for message in messages_in(event.data.encode()):
                            yield message
                if (pause_s := self._pace.pause_s(began)) > 0:
                    await asyncio.sleep(pause_s)
        except EventTooLarge:
            raise Misbehaved(f"sent an event of more than {self.most_bytes} bytes") from None

    async def _refusal(self, reply: HttpReply) -> UpstreamRefusal | Misbehaved:
        retry_after = reply.headers.get(b"retry-after", b"")
        retry_ms = int(retry_after) * 1000 if retry_after.isdigit() and len(retry_after) < 6 else None
        with suppress(OversizedReply, BrokenReply, MaybeSent, Misbehaved):
            for message in messages_in(await reply.read(ERROR_BYTES)):
                if message.error is not UNSET:
                    return refusal_in(message, reply.status, retry_ms)
        if 300 <= reply.status < 400:
            return UpstreamRefusal("is somewhere else: redirects are not followed", RefusalDetails(status=reply.status))
        return UpstreamRefusal(
            f"answered with status {reply.status}", RefusalDetails(None, reply.status, None, retry_ms)
        )

    async def close(self) -> None:
        await self._client.close()


class ResumePoint:
    """Where a stream can be taken up again that ended before its answer."""

    def __init__(self) -> None:
        self.last_event: str | None = None
        self.pause_s = FIRST_RESUME_S
        self.events = 0

    def note(self, id: str, retry_ms: int | None) -> None:
        self.events += 1
        self.last_event = id or self.last_event
        if retry_ms is not None:
            self.pause_s = min(max(retry_ms / 1000, FIRST_RESUME_S), LONGEST_RESUME_S)


async def opened(reach: UpstreamAccess, last: Revision | None, asks: frozenset[str]) -> "ModernHttp | OlderHttp":
    """Finds out which era a server is of, and makes the handshake where there is one. `last` is what it spoke when it
    was last heard. Raises UpstreamFault."""
    endpoint = UpstreamEndpoint(reach)
    try:
        async with asyncio.timeout(OPEN_S):
            first: UpstreamRefusal | Misbehaved | None = None
            if last is None or last.is_modern:
                modern = ModernHttp(endpoint)
                first = await modern.discover()
                if first is None:
                    return modern
            older = OlderHttp(endpoint)
            await older.greet(asks, first)
            return older
    except TimeoutError:
        await endpoint.close()
        raise NotSent(f"did not answer in {OPEN_S:g} seconds") from None
    except BaseException:
        await endpoint.close()
        raise


def is_older(refused: UpstreamRefusal) -> bool:
    """Whether this answer to a request of the newer era shows a server of the older one. A server that is busy, broken
    or wants credentials may be of either."""
    status = refused.details.status
    if refused.code == UNSUPPORTED_VERSION:
        data = refused.details.data
        named = data.get("supported") if isinstance(data, dict) else None
        return isinstance(named, list) and any(each in HANDSHAKE for each in named if isinstance(each, str))
    is_modern = refused.code in MODERN_ERRORS or (status == 404 and refused.code == METHOD_NOT_FOUND)
    return not is_modern and status not in (401, 403, 407, 413, 429) and status < 500 and not 300 <= status < 400


class ModernHttp:
    """A server of the newer era: every request says who asks, and its answer ends with its reply."""

    def __init__(self, endpoint: UpstreamEndpoint) -> None:
        self._endpoint = endpoint
        self.revision: Revision = R_2026_07_28
        self.info = UpstreamInfo()
        self.is_open = True
        self._ids = count(1)
        self._stream: AsyncIterator[Incoming] | None = None
        self._followed: frozenset[str] = frozenset()
        self._is_other = asyncio.Event()
        """What is followed is not what the stream tells of."""

    async def discover(self) -> UpstreamRefusal | Misbehaved | None:
        """What shows that the server is of the older era; None where it is of this one. Raises UpstreamFault."""
        try:
            result = object_of(await self.request("server/discover", {}))
        except UpstreamRefusal as refused:
            if not is_older(refused):
                raise
            return refused
        except Misbehaved as strange:  # it took the request for one of the older era, and answered that
            return strange
        if "resultType" not in result and "supportedVersions" not in result:
            return Misbehaved("answered as a server of the older era")
        meta = result.get("_meta")
        self.info = info_of(result, meta.get(SERVER_INFO) if isinstance(meta, dict) else None)
        return None

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        listener: RequestListener = DEAF,
        headers: Mapping[bytes, bytes] = {},
        asks: frozenset[str] = frozenset(),
    ) -> Raw:
        """As `UpstreamConnection` says it. Whoever is cancelled closes the stream: that is how the upstream hears of
        it."""
        exchange = PendingRequest(next(self._ids), listener, _unsendable)
        try:
            reply = await self._post(exchange, method, params, listener, headers, asks)
            async for message in self._endpoint.messages(reply):
                if message.method is UNSET or message.id is UNSET:  # a server asks nothing this way
                    exchange.hear(message)
                if exchange.answer.done():
                    break
            if not exchange.answer.done():
                raise Lost("ended its answer before it was complete")
            return await exchange.answer
        finally:
            exchange.end()

    async def changes(self) -> UpstreamNotice:
        """As `UpstreamConnection` says it. What is followed is said when a stream is opened: where it changes, another
        stream is opened before the one is closed, so that nothing is missed in between."""
        loop = asyncio.get_running_loop()
        if self._stream is None:
            self._stream = await self._listen()
        reading = loop.create_task(_next_change(self, self._stream))
        try:
            while True:
                other = loop.create_task(self._is_other.wait())
                await asyncio.wait((reading, other), return_when=asyncio.FIRST_COMPLETED)
                other.cancel()
                if reading.done():
                    return reading.result()
                stream = await self._listen()
                before, self._stream = reading, stream
                if before.done() and before.exception() is None:
                    return before.result()
                reading = loop.create_task(_next_change(self, stream))
                before.cancel()
        finally:
            reading.cancel()

    async def follow(self, uris: frozenset[str]) -> None:
        """As `UpstreamConnection` says it."""
        if uris != self._followed:
            self._followed = uris
            self._is_other.set()

    async def _listen(self) -> AsyncIterator[Incoming]:
        self._is_other.clear()
        exchange = PendingRequest(next(self._ids), DEAF, _unsendable)
        params = listen_params(self._followed)
        reply = await self._post(exchange, "subscriptions/listen", params, DEAF, {}, frozenset())
        return self._endpoint.messages(reply)

    def forget(self, stream: AsyncIterator[Incoming]) -> None:
        """A stream of changes that has ended."""
        self._stream = None if self._stream is stream else self._stream

    async def close(self) -> None:
        self.is_open = False
        await self._endpoint.close()

    async def _post(
        self,
        exchange: PendingRequest,
        method: str,
        params: Mapping[str, Any],
        listener: RequestListener,
        headers: Mapping[bytes, bytes],
        asks: frozenset[str],
    ) -> HttpReply:
        meta = {**params.get("_meta", {}), **modern_meta(self.revision, asks)}
        if listener is not DEAF:
            meta["progressToken"] = exchange.id
        own = {VERSION_HEADER: self.revision.name.encode(), METHOD_HEADER: method.encode()}
        if method in NAMED:
            own[NAME_HEADER] = encoded(str(params[NAMED[method]]))
        body = encode_request(exchange.id, method, {**params, "_meta": meta})
        return await self._endpoint.post({**headers, **own}, body)


class OlderHttp:
    """A session with a server of the older era."""

    def __init__(self, endpoint: UpstreamEndpoint) -> None:
        self._endpoint = endpoint
        self.revision: Revision = R_2025_11_25
        self.info = UpstreamInfo()
        self.is_open = True
        self._session: bytes | None = None
        self._ids = count(1)
        self._open = OpenRequests(endpoint.timeout_s)
        self.nobody = PendingRequest(0, DEAF, self._tell)
        """Answers what nobody is asked."""
        self._stream: AsyncIterator[Incoming] | None = None
        self._followed: frozenset[str] = frozenset()

    async def greet(self, asks: frozenset[str], first: UpstreamRefusal | Misbehaved | None) -> None:
        """The handshake. Where that fails as well, the refusal of the `first` request is raised, if it says anything.
        Raises UpstreamFault."""
        exchange = PendingRequest(next(self._ids), DEAF, _unsendable)
        body = encode_request(exchange.id, "initialize", initialize_params(asks))
        try:
            reply = await self._endpoint.post({}, body)
            session = reply.headers.get(SESSION_HEADER)
            async for message in self._endpoint.messages(reply):
                exchange.hear(message)
                if exchange.answer.done():
                    break
            if not exchange.answer.done():
                raise Misbehaved("did not answer the handshake")
            self.revision, self.info = agreed(object_of(await exchange.answer))
        except UpstreamRefusal as refused:
            raise (first if isinstance(first, UpstreamRefusal) and first.code is not None else refused) from None
        finally:
            exchange.end()
        self._session = session if session and len(session) <= 1024 else None
        await self._tell(encode_notification("notifications/initialized"))
        await set_log_level(self)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        listener: RequestListener = DEAF,
        headers: Mapping[bytes, bytes] = {},
        asks: frozenset[str] = frozenset(),
    ) -> Raw:
        """As `UpstreamConnection` says it."""
        exchange = PendingRequest(next(self._ids), listener, self._tell)
        meta = dict(params.get("_meta", {}))
        if listener is not DEAF:
            meta["progressToken"] = exchange.id
        body = encode_request(exchange.id, method, {**params, "_meta": meta} if meta else params)
        self._open.add(exchange)
        try:
            return await self._answered(exchange, headers, body)
        except BaseException as error:
            if not is_answer(error):  # cancelled, or the listener could not go on
                self._open.remove(exchange, is_answered=False)
                asyncio.get_running_loop().create_task(self._cancel(exchange))
            raise
        finally:
            self._open.remove(exchange)
            exchange.end()

    async def follow(self, uris: frozenset[str]) -> None:
        """As `UpstreamConnection` says it."""
        self._followed = await subscribe(self, self._followed, uris)

    async def changes(self) -> UpstreamNotice:
        """As `UpstreamConnection` says it."""
        if self._stream is None:
            reply = await self._endpoint.send("GET", {b"accept": b"text/event-stream", **self._agreed()})
            if reply.status == 200 and _media_type(reply) != b"text/event-stream":
                reply.close()
                raise Misbehaved("has no stream of changes")
            self._stream = self._endpoint.messages(reply)
        return await _next_change(self, self._stream)

    async def close(self) -> None:
        self.is_open = False
        if self._session is not None:
            with suppress(TimeoutError, Lost, NotSent, Misbehaved):
                async with asyncio.timeout(CANCEL_S):
                    (await self._endpoint.send("DELETE", self._agreed())).close()
        await self._endpoint.close()

    def whom_to_ask(self) -> PendingRequest | None:
        """The request that a question on the session's own stream must belong to, or that is the same caller's."""
        return self._open.whom_to_ask()

    def forget(self, stream: AsyncIterator[Incoming]) -> None:
        """A stream of changes that has ended."""
        self._stream = None if self._stream is stream else self._stream

    async def _answered(self, exchange: PendingRequest, headers: Mapping[bytes, bytes], body: bytes) -> Raw:
        reply = await self._endpoint.post({**headers, **self._agreed()}, body)
        if reply.status != 200 or _media_type(reply) != b"text/event-stream":
            async for message in self._endpoint.messages(reply):
                exchange.hear(message)
            if not exchange.answer.done():
                raise Misbehaved("answered with something that is no answer")
            return await exchange.answer
        # Beside whoever waits: what the stream asks may fail the request while nothing more comes.
        reading = asyncio.get_running_loop().create_task(self._read(exchange, reply))
        try:
            return await exchange.answer
        finally:
            reading.cancel()
            reply.close()

    async def _read(self, exchange: PendingRequest, reply: HttpReply) -> None:
        """Reads the stream of a request to its answer, and takes it up again where it ends before."""
        resume, tries = ResumePoint(), 0
        try:
            while not exchange.answer.done():
                before = resume.events
                with suppress(Lost):  # a stream that breaks is one that ended early
                    async for message in self._endpoint.messages(reply, resume):
                        exchange.hear(message)
                        if exchange.answer.done():
                            return
                tries = 0 if resume.events > before else tries + 1
                if resume.last_event is None or tries > MOST_RESUMES:
                    raise Lost("ended its answer before it was complete")
                await asyncio.sleep(resume.pause_s)
                again = {b"accept": b"text/event-stream", **self._agreed()}
                reply = await self._endpoint.send("GET", {**again, b"last-event-id": resume.last_event.encode()})
        except Exception as error:
            exchange.fail(error if not isinstance(error, NotSent) else Lost(str(error)))

    async def _tell(self, message: bytes) -> None:
        """Sends what gets no answer: a notification, or the answer to what the server asked. Raises UpstreamFault."""
        reply = await self._endpoint.post(self._agreed(), message)
        try:
            with suppress(OversizedReply, BrokenReply, MaybeSent):
                await reply.read(ERROR_BYTES)
        finally:
            reply.close()

    async def _cancel(self, exchange: PendingRequest) -> None:
        notice = encode_notification("notifications/cancelled", {"requestId": exchange.id, "reason": "not wanted"})
        with suppress(TimeoutError, Lost, NotSent, Misbehaved):
            async with asyncio.timeout(CANCEL_S):
                await self._tell(notice)

    def _agreed(self) -> dict[bytes, bytes]:
        headers = {VERSION_HEADER: self.revision.name.encode()}
        return headers if self._session is None else {**headers, SESSION_HEADER: self._session}


async def _next_change(connection: ModernHttp | OlderHttp, stream: AsyncIterator[Incoming]) -> UpstreamNotice:
    """The next notification on a connection's own stream. A question there is put to whom it may be for."""
    try:
        async for message in stream:
            if message.method is UNSET:
                if message.error is not UNSET:
                    raise refusal_in(message)
            elif message.id is UNSET:
                if message.method != LISTENED:
                    return notice_of(str(message.method), params_of(message))
            elif isinstance(connection, OlderHttp):
                asked = connection.whom_to_ask() if message.method != "ping" else None
                (asked or connection.nobody).ask(message)
    except BaseException:
        connection.forget(stream)
        raise
    connection.forget(stream)
    raise Lost("closed its stream of changes")


async def _unsendable(message: bytes) -> None:
    """In the newer era nothing is sent beside a request: the server asks nothing."""


def _media_type(reply: HttpReply) -> bytes:
    return reply.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
