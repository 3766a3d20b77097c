"""The line to a client: what can be said to it before its handler is done, and whether it still listens.

Here is what an exchange needs of a line, and the line through any ASGI server, for a yard that is mounted in another
app. What uvicorn serves has a shorter one, in `fast_path`. ASGI tells that a client left only to somebody who waits for
that, so waiting begins when it is first asked for: most handlers are done before it would be of any use.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from ...model.caller import LOCAL, Caller
from ...wires.contract import ALWAYS, Reply, Stream
from .streams import BrokenOff, Streams, close

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ReplyLine(Protocol):
    """The way to one client, as its exchange needs it."""

    def answer(self, reply: Reply | Stream) -> None:
        """Replies now, as `Exchange.answer` says it."""
        ...

    def when_gone(self, callback: Callable[[], object]) -> None:
        """Has `callback` called if the client leaves, as `Exchange.when_gone` says it."""
        ...


class CallersLine(ReplyLine, Protocol):
    """The way to one client, as the shell needs it."""

    caller: Caller
    """Whose request it is, as soon as that is known: what waits to be read is counted as theirs, whichever task
    replies."""


class PartLine:
    """The line of one message of several that came in one request and are answered together: nothing can be said
    before the others are done, and once it has its answer, it does not hear who leaves."""

    def __init__(self, whole: ReplyLine) -> None:
        self._whole, self._is_over = whole, False

    def answer(self, reply: Reply | Stream) -> None:
        """Not alone."""

    def when_gone(self, callback: Callable[[], object]) -> None:
        # The messages are answered in one task: who stops that task for its own sake must not do so for the next one.
        self._whole.when_gone(lambda: None if self._is_over else callback())

    def end(self) -> None:
        """The message has its answer."""
        self._is_over = True


class AsgiLine:
    """The line to a client through any ASGI server."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, streams: Streams) -> None:
        self._scope, self._receive, self._send, self._streams = scope, receive, send, streams
        self.caller = LOCAL
        self._is_answered = self._is_gone = self._is_streaming = False
        self._when_gone: list[Callable[[], object]] = []
        self._answering: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    def answer(self, reply: Reply | Stream) -> None:
        if self._is_answered or self._is_gone:
            return
        if isinstance(reply, Stream):
            self._is_answered = self._is_streaming = True
            self._answering = asyncio.create_task(self._carry(reply))
        else:
            self._settle()
            self._answering = asyncio.create_task(self._write(reply))

    def when_gone(self, callback: Callable[[], object]) -> None:
        if self._is_answered and not self._is_streaming:
            return
        if self._is_gone:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._listen(callback)

    async def finish(self, reply: Reply | Stream | None) -> None:
        """Replies with what the handler returned, unless the client has been answered before."""
        if isinstance(reply, Stream):
            if self._is_answered or self._is_gone:
                await close(reply.chunks)
            else:
                self._settle()
                await self._carry(reply)
        elif reply is not None and not self._is_answered:
            self._settle()
            await self._write(reply)

    async def hang_up(self) -> None:
        """Ends the line: nothing is said or heard after this. A stream that the handler began is carried to its end."""
        # A stream still has to hear that its client leaves, so this comes before nobody listens any more.
        if self._answering is not None and self._is_streaming:
            await self._answering
        self._settle()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        if self._answering is not None:
            await self._answering

    def _settle(self) -> None:
        """From now on there is a reply, and nothing else to tell the handler."""
        self._is_answered = True
        self._when_gone.clear()

    async def _write(self, reply: Reply) -> None:
        body = b"".join((reply.body, *reply.more)) if reply.more else reply.body
        # A 304 has no body, and a length would be that of the 200 in its place (RFC 9110, section 8.6).
        length = [(b"content-length", b"%d" % len(body))] if reply.status != 304 else []
        await self._start(reply.status, [*reply.headers, *length])
        await self._say({"type": "http.response.body", "body": body})

    async def _carry(self, stream: Stream) -> None:
        await self._start(stream.status, stream.headers)
        if self._scope["method"] == "HEAD":
            await close(stream.chunks)
        else:
            carrying = self._streams.open(stream, self._write_chunk, self._scope)
            self._listen(carrying.cancel)
            if not await self._streams.is_whole(carrying, stream):
                raise BrokenOff
        self._when_gone.clear()  # there is a whole reply now, also where its handler goes on
        await self._say({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write_chunk(self, chunk: bytes) -> None:
        await self._say({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._say({"type": "http.response.start", "status": status, "headers": [*headers, *ALWAYS]})

    async def _say(self, message: Message) -> None:
        """Sends a message of ASGI, unless nobody is there; some servers raise OSError where the client has left."""
        if self._is_gone:
            return
        try:
            await self._send(message)
        except OSError:
            self._lose()

    def _listen(self, callback: Callable[[], object]) -> None:
        self._when_gone.append(callback)
        # One task waits for all callbacks: ASGI's `receive` must not be awaited twice at once.
        if self._listening is None:
            self._listening = asyncio.create_task(self._wait_until_gone())

    async def _wait_until_gone(self) -> None:
        """Waits for ASGI's `http.disconnect`, which comes after the rest of the request's body. A server that sends
        another message there cannot tell when the client leaves."""
        message = await self._receive()
        while message.get("more_body"):
            message = await self._receive()
        if message["type"] == "http.request":
            message = await self._receive()
        if message["type"] == "http.disconnect":
            self._lose()

    def _lose(self) -> None:
        """The client is gone: everybody who asked for that is told, on the loop's next turn and not in here."""
        self._is_gone = True
        loop = asyncio.get_running_loop()
        for callback in self._when_gone:
            loop.call_soon(callback)
        self._when_gone.clear()
