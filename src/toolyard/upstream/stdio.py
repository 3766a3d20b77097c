"""MCP with a program over its standard input and output, in both eras: one connection, all requests side by side.

Here nothing says to which request a question of the older era belongs. It is put to the one call that waits, or to the
newest of those that all wait for the same caller; where several callers wait, nobody is asked, since it might be the
wrong one.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

from msgspec import UNSET, Raw

from ..wires.mcp.client_replies import MODERN_ERRORS
from ..wires.mcp.envelope import Incoming, encode_notification, encode_request, id_of
from ..wires.mcp.params import SERVER_INFO
from ..wires.mcp.revisions import R_2026_07_28, Revision
from .connection import (
    LISTENED,
    SHARED_ASKS,
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
from .faults import Lost, Misbehaved, NotSent, UpstreamRefusal, is_answer
from .messages import message_in
from .pending_request import DEAF, OpenRequests, PendingRequest, RequestListener, object_of, params_of
from .process import Process

SILENCE_S = 3.0
"""How long a program may say nothing to a request of the newer era, before that of the older one is sent as well."""
OPEN_S = 60.0
"""How long a program may take to answer the first request: some download themselves first."""
MOST_CHANGES = 2_000
"""Notifications about no request that nobody has taken yet, each of them once; more are not kept."""
NOBODY: frozenset[str] = frozenset()
LISTEN_AGAIN_S = 1.0
"""After the program has ended the request by which it is listened to."""
NOISE = 100
"""Lines that are no messages, as some programs print before they begin. One that prints more is ended."""


class StdioConnection:
    """A program that was started for one upstream, and what is under way with it."""

    def __init__(self, reach: UpstreamAccess) -> None:
        self._reach = reach
        self.revision: Revision = R_2026_07_28
        self.info = UpstreamInfo()
        self._ids = count(1)
        self._open = OpenRequests(reach.upstream.timeout_s)
        self._nobody = PendingRequest(0, DEAF, self._send)
        """Answers what nobody is asked."""
        self._changes: dict[UpstreamNotice, None] = {}
        """What nobody has taken yet, in order."""
        self._has_changed = asyncio.Event()
        self._followed: frozenset[str] = frozenset()
        self._listening: PendingRequest | None = None
        """The request of the newer era by which the program is listened to."""
        self._noise = 0
        self._ended: str | None = None
        self._process = Process(reach.upstream.name, reach.most_bytes, reach.scrubber, self._hear_line, self._hear_end)

    @classmethod
    async def opened(cls, reach: UpstreamAccess, last: Revision | None) -> "StdioConnection":
        """Starts the program and finds out its era; `last` is what it spoke when it was last heard. Raises
        UpstreamFault."""
        connection = cls(reach)
        try:
            async with asyncio.timeout(OPEN_S):
                await Process.start(reach.upstream, reach.env, connection._process)
                await connection._greet(last)
        except TimeoutError:
            await connection.close()
            raise NotSent(f"did not answer in {OPEN_S:g} seconds") from None
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._ended is None and not self._process.ended.is_set()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        listener: RequestListener = DEAF,
        headers: Mapping[bytes, bytes] = {},
        asks: frozenset[str] = frozenset(),
    ) -> Raw:
        """As `UpstreamConnection` says it."""
        if self.revision.is_modern:
            params = {**params, "_meta": {**params.get("_meta", {}), **modern_meta(self.revision, asks)}}
        exchange = await self._sent(method, params, listener)
        try:
            return await exchange.answer
        except BaseException as error:
            if not is_answer(error):  # cancelled, or the listener could not go on
                self._tell_cancelled(exchange)
                self._open.remove(exchange, is_answered=False)
            raise
        finally:
            self._forget(exchange)

    async def changes(self) -> UpstreamNotice:
        """As `UpstreamConnection` says it."""
        while not self._changes:
            self._has_changed.clear()
            if self._ended is not None:
                raise Lost(self._ended)
            if self._listening is not None and self._listening.answer.done():
                await self._end_listening(self._listening)
            if self.revision.is_modern and self._listening is None:
                await self._listen()
            await self._has_changed.wait()
        notice = next(iter(self._changes))
        del self._changes[notice]
        return notice

    async def follow(self, uris: frozenset[str]) -> None:
        """As `UpstreamConnection` says it."""
        if not self.revision.is_modern:
            self._followed = await subscribe(self, self._followed, uris)
        elif uris != self._followed:
            self._followed = uris
            await self._listen()

    async def _listen(self) -> None:
        """With another request than the one before, where that said something else: which ends once this is sent."""
        before, params = self._listening, {**listen_params(self._followed), "_meta": modern_meta(self.revision, NOBODY)}
        self._listening = await self._sent("subscriptions/listen", params, DEAF)
        self._listening.answer.add_done_callback(lambda _: self._has_changed.set())
        if before is not None:
            self._tell_cancelled(before)
            self._forget(before)

    async def _end_listening(self, ended: PendingRequest) -> None:
        """The program does not want to be listened to: now, or at all. Raises UpstreamRefusal."""
        self._listening = None
        self._forget(ended)
        if (error := ended.answer.exception()) is not None:
            raise error
        await asyncio.sleep(LISTEN_AGAIN_S)

    async def close(self) -> None:
        await self._process.close()

    # -- opening -------------------------------------------------------------------------------------

    async def _greet(self, last: Revision | None) -> None:
        """Sends the newer era's first request and, after a refusal or a while of silence, the older one's; whichever is
        answered says which era it is."""
        modern: PendingRequest | None = None
        if last is None or last.is_modern:
            modern = await self._sent("server/discover", {"_meta": modern_meta(R_2026_07_28, frozenset())}, DEAF)
            try:
                if await self._is_modern(modern, SILENCE_S):
                    return
                modern = None
            except TimeoutError:
                pass  # it may be slow, or not know what to say to that
        older = await self._sent("initialize", initialize_params(SHARED_ASKS), DEAF)
        waiting = [each.answer for each in (older, modern) if each is not None]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if modern is not None and modern.answer.done() and await self._is_modern(modern, None):
            self._forget(older)
            return
        try:
            result = object_of(await older.answer)
        finally:
            self._forget(older)
        self.revision, self.info = agreed(result)
        await self._send(encode_notification("notifications/initialized"))
        await set_log_level(self)

    async def _is_modern(self, discovery: PendingRequest, within_s: float | None) -> bool:
        """Whether the newer era's first request was understood. Raises TimeoutError where nothing is said."""
        try:
            async with asyncio.timeout(within_s):
                # A future that is shielded goes on when the time is over: the answer may still come.
                result = object_of(await asyncio.shield(discovery.answer))
        except UpstreamRefusal as refused:
            self._forget(discovery)
            if refused.code in MODERN_ERRORS:
                raise
            return False
        self._forget(discovery)
        if "resultType" not in result and "supportedVersions" not in result:
            return False
        meta = result.get("_meta")
        self.revision = R_2026_07_28
        self.info = info_of(result, meta.get(SERVER_INFO) if isinstance(meta, dict) else None)
        return True

    # -- sending -------------------------------------------------------------------------------------

    async def _sent(self, method: str, params: Mapping[str, Any], listener: RequestListener) -> PendingRequest:
        id = next(self._ids)
        exchange = PendingRequest(id, listener, self._send)
        self._open.add(exchange)
        meta = dict(params.get("_meta", {}))
        if listener is not DEAF:
            meta["progressToken"] = id
        sent = {**params, "_meta": meta} if meta else params
        try:
            await self._send(encode_request(id, method, sent))
        except BaseException:
            self._forget(exchange)
            raise
        return exchange

    async def _send(self, message: bytes) -> None:
        if self._ended is not None:
            raise NotSent(self._ended)
        await self._process.send(message)

    def _tell_cancelled(self, exchange: PendingRequest) -> None:
        """Without waiting: whoever is cancelled has no time for that."""
        notice = encode_notification("notifications/cancelled", {"requestId": exchange.id, "reason": "not wanted"})
        self._process.send_soon(notice)

    def _forget(self, exchange: PendingRequest) -> None:
        self._open.remove(exchange)
        exchange.end()

    # -- hearing -------------------------------------------------------------------------------------

    def _hear_line(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        try:
            message = message_in(line)
        except Misbehaved as fault:
            self._hear_noise(line, fault)
            return
        if message.method is UNSET:
            exchange = self._open.get(message.id)
            if exchange is not None:
                exchange.hear(message)
            else:
                self._open.end(message.id)
        elif message.id is UNSET:
            self._hear_notification(message)
        else:
            self._hear_request(message)

    def _hear_noise(self, line: bytes, fault: Misbehaved) -> None:
        """A line that is no message; some programs print a few. Whoever's answer it was meant to be is told."""
        exchange = self._open.get(id_of(line))
        if exchange is not None:
            exchange.fail(fault)
            return
        self._noise += 1
        if self._noise > NOISE:
            self._process.kill("writes what is no MCP, and was ended")

    def _hear_notification(self, message: Incoming) -> None:
        method, params = str(message.method), params_of(message)
        if method == "notifications/progress":
            token = params.get("progressToken")
            exchange = self._open.get(token)
            if exchange is not None:
                exchange.listener.notified(method, params)
        elif method in ("notifications/message", "notifications/elicitation/complete"):
            asked = self._open.whom_to_ask()
            if asked is not None:
                asked.listener.notified(method, params)
        elif method != LISTENED and len(self._changes) < MOST_CHANGES:
            self._changes[notice_of(method, params)] = None
            self._has_changed.set()

    def _hear_request(self, message: Incoming) -> None:
        """In the newer era a server asks nothing this way."""
        is_asked = message.method != "ping" and not self.revision.is_modern
        asked = self._open.whom_to_ask() if is_asked else None
        (asked or self._nobody).ask(message)

    def _hear_end(self, why: str) -> None:
        self._ended = why
        for exchange in self._open.all():
            exchange.fail(Lost(why))
        if self._listening is not None:
            self._forget(self._listening)
        self._has_changed.set()
