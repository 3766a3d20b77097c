"""A shorter way through uvicorn for whole requests and whole replies, and its own line to the client.

ASGI passes a reply in two messages, checked header by header; ours are made of checked parts, so they are written as
one piece. The state that uvicorn keeps of a request, its cycle, is left as uvicorn itself would leave it; that is why
uvicorn is pinned closely.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ...model.caller import LOCAL, Caller
from ...model.raised import named
from ...wires.contract import ALWAYS, LARGE, Headers, Reply, Stream
from ...wires.errors import encode
from ...wires.mcp.envelope import HEADERS as MCP_HEADERS
from ...wires.oxp import otc, otc_draft, oxp
from .outbox import Outbox
from .reply_budget import LARGE_REPLY
from .shell import Shell
from .streams import Streams, close
from .uvicorn_protocol import Cycle, PoliteProtocol

_log = logging.getLogger("toolyard.server")


class FastPath:
    """Answers requests of `PoliteProtocol` with the shell, without ASGI's messages in between."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.outbox = Outbox()

    async def answer(self, cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
        """Answers one request, in its own task, which is taken out of `tasks` in the end."""
        self.outbox.starting -= 1
        whole = not cycle.more_body and not cycle.waiting_for_100_continue
        scope, receive = cast("Any", cycle.scope), cast("Any", cycle.receive)
        line = CycleLine(cycle, self._shell.streams, self._shell.replies.hold)
        try:
            body = bytes(cycle.body) if whole else None
            reply = await self._shell.respond(scope, receive, body, line, cycle.known)
            # A client that reads slowly has the replies before this one to read first.
            if cycle.flow.write_paused and not cycle.response_started:
                await cycle.flow.drain()
            if line.carrying is not None:
                await line.carrying
            elif type(reply) is Stream:
                await line.carry(reply)
            elif reply is not None and not cycle.response_started and not cycle.disconnected:
                line.write(reply)
        except BaseException as error:  # the outermost shell of a connection
            # Cancelled after an early answer: the client has its reply, and what went on was left to others.
            if not (isinstance(error, asyncio.CancelledError) and cycle.response_complete):
                _broken(cycle, error)
        finally:
            cycle.on_response = _nothing
            tasks.discard(cycle.task)
            cycle.task = None  # or the two would keep each other, and the request, until Python looks for cycles


def _broken(cycle: Cycle, error: BaseException) -> None:
    """Answers where no reply came: the shell answers for what goes wrong in it, so what is left is that the request's
    task was stopped, or a defect in here. A reply that has begun cannot be taken back: the connection is closed."""
    cycle.keep_alive = False
    if isinstance(error, asyncio.CancelledError):
        reply = Reply(503, encode({"message": "The server stopped before this was done"}), oxp.FLAT.headers)
    else:
        if cycle.transport.is_closing() and isinstance(error, OSError | RuntimeError):
            _log.debug("a client left before its reply: %s", named(error))
        else:
            _log.error("a reply could not be sent", exc_info=error)
        reply = Reply(500, encode({"message": "The server failed; this is a defect"}), oxp.FLAT.headers)
    if cycle.response_started or cycle.transport.is_closing():
        cycle.outbox.flush()
        cycle.transport.close()
    else:
        write(cycle, reply)


def _nothing() -> None:
    """What a request that is over calls when it is told of a response."""


class CycleLine(Struct):
    """The line to the client whose request this cycle of uvicorn is."""

    cycle: Cycle
    streams: Streams
    hold: Callable[[Caller, int], Callable[[], None]]
    """Told of so many bytes that a caller's client has not read yet; what it returns, when it has."""
    caller: Caller = LOCAL
    carrying: asyncio.Task[None] | None = None

    def answer(self, reply: Reply | Stream) -> None:
        """Replies at once, also to a client that is slow to read: it is one reply, and the next one waits for its
        turn."""
        if self.is_over() or self.carrying is not None:
            return
        if isinstance(reply, Stream):
            self.carrying = asyncio.get_running_loop().create_task(self.carry(reply))
        else:
            self.write(reply)

    def write(self, reply: Reply) -> None:
        """Writes a whole reply. A large one counts until its client has read it."""
        cycle = self.cycle
        write(cycle, reply)
        if cycle.flow.write_paused:
            self._count_unread()

    def _count_unread(self) -> None:
        if (size := self.cycle.transport.get_write_buffer_size()) > LARGE_REPLY:
            self.protocol().when_read.append(self.hold(self.caller, size))

    def when_gone(self, callback: Callable[[], object]) -> None:
        cycle = self.cycle
        if not self.is_over() or (self.carrying is not None and not cycle.transport.is_closing()):
            self.protocol().when_gone.append(callback)
            cycle.flow.resume_reading()  # or nobody would notice the end: a socket says it only to those who read
        elif not cycle.response_started:
            asyncio.get_running_loop().call_soon(callback)

    async def carry(self, stream: Stream) -> None:
        """Carries a stream until it ends, or the client leaves."""
        if self.is_over():
            await close(stream.chunks)
            return
        cycle = self.cycle
        is_chunked = begin(cycle, stream)

        async def write_chunk(chunk: bytes) -> None:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
            if cycle.flow.write_paused:
                self._count_unread()
                await cycle.flow.drain()

        if cycle.scope["method"] == "HEAD":
            await close(stream.chunks)
        else:
            carrying = self.streams.open(stream, write_chunk, cycle.scope)
            self.protocol().when_gone.append(carrying.cancel)
            cycle.flow.resume_reading()
            # Closed without the last chunk: the client can tell that this was not all.
            if not await self.streams.is_whole(carrying, stream) or cycle.transport.is_closing():
                cycle.disconnected = True
                cycle.transport.close()
                return
        if is_chunked:
            cycle.transport.write(b"0\r\n\r\n")
        finish(cycle)

    def is_over(self) -> bool:
        """Whether there is a reply, or nobody to read one."""
        return self.cycle.response_started or self.cycle.transport.is_closing()

    def protocol(self) -> PoliteProtocol:
        protocol: Any = self.cycle.transport.get_protocol()
        return protocol  # type: ignore[no-any-return]


def write(cycle: Cycle, reply: Reply) -> None:
    """Writes a whole reply, head and body at once. A large body is not copied to be one piece with its head."""
    body, headers, more = reply.body, reply.headers, reply.more
    head = STATUS_LINE[reply.status] + (_RENDERED.get(id(headers)) or _rendered(headers))
    if cycle.waiting_for_100_continue or not cycle.keep_alive:
        head += _last(cycle)
    size = len(body) if not more else len(body) + sum(map(len, more))
    length = b"content-length: %d\r\n\r\n" % size if reply.status != 304 else b"\r\n"
    is_head = cycle.scope["method"] == "HEAD"
    if cycle.keep_alive and not more and (size <= LARGE or is_head):
        cycle.outbox.put(cycle.transport, head + length if is_head else head + length + body)
    else:
        cycle.outbox.flush()
        # Not by `writelines`: in some releases of Python 3.12 and 3.13 it tells nobody that its client does not read.
        for part in (head + length, *(() if is_head else (body, *more))):
            cycle.transport.write(part)
    cycle.response_started = True
    finish(cycle)


def begin(cycle: Cycle, stream: Stream) -> bool:
    """Writes the head of a stream; whether its body comes in chunks. HTTP/1.0 knows none: there, the connection's end
    is the body's."""
    head = STATUS_LINE[stream.status] + _rendered(stream.headers)
    if cycle.waiting_for_100_continue or not cycle.keep_alive:
        head += _last(cycle)
    is_chunked = cycle.scope["method"] != "HEAD" and cycle.scope["http_version"] != "1.0"
    cycle.outbox.flush()
    cycle.transport.write(head + (b"transfer-encoding: chunked\r\n\r\n" if is_chunked else b"\r\n"))
    cycle.response_started = True
    return is_chunked


def finish(cycle: Cycle) -> None:
    """Does to a cycle what uvicorn does after a reply."""
    cycle.response_complete = True
    cycle.wake()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


def _last(cycle: Cycle) -> bytes:
    """The header that says that no other reply comes. A client that was not told to send its body may send it all the
    same, so the next bytes could be that or another request."""
    cycle.keep_alive = False
    return b"connection: close\r\n"


def _rendered(headers: Headers) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in (*headers, *ALWAYS))


_RENDERED = {
    id(headers): _rendered(headers)
    for headers in (oxp.FLAT.headers, otc.OTC.headers, otc.OTC_FOR_OXP.headers, otc_draft.DRAFT.headers, MCP_HEADERS)
}
"""The headers that almost every reply has, written once. They live as long as the program, so their identity is their
name: to look up a list by what is in it would cost more than to write it."""
