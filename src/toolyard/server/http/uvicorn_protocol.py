"""uvicorn's HTTP protocol with what it lacks: limits on slow and oversized requests, refusals in JSON, and notice of
clients that leave.

A timer for every request would cost more than it is worth, so one sweep looks at all connections, five times a second.
This module reaches into uvicorn, and `fast_path` does, which is why uvicorn is pinned closely.
"""

import asyncio
import logging
import select
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from enum import IntEnum
from typing import Any, Protocol

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ...text.percent import unescaped
from ...wires.errors import encode
from .connection_limits import ConnectionLimits, ReadTimeouts
from .known_head import KnownHead, known_head
from .outbox import Outbox

SWEEP_S = 0.2
SWEPT_AT_ONCE = 100
"""Connections that are looked at before whoever waits for the loop has its turn."""
MOST_WAITING = 100
"""Requests of one connection. Each is some kilobytes of objects, and thousands fit into what is read at once. What
comes after them is not read, and the connection ends with the last of them."""
LONGEST_URL = 8 * 2**10
MOST_HEADERS = 256
"""Header lines of a request. Each is a few objects, so that 60 KB of the shortest would be a megabyte."""
FREE_CHUNKS, LEAST_CHUNK = 1000, 256
"""How many chunks a body may come in, and how many bytes those after them have on the average: each takes the time of a
kilobyte."""
ASGI: Any = {"version": "3.0", "spec_version": "2.3"}
MOST_PATHS, LONGEST_PATH = 1000, 200
_PATHS: dict[bytes, tuple[str, bytes, bytes]] = {}
"""What the first addresses that came were parsed as. It is bounded and never emptied: hot addresses come early."""
_METHODS = {b"GET": "GET", b"POST": "POST"}
"""The usual methods, decoded once."""


class Phase(IntEnum):
    """What a connection waits for, which decides how long it may."""

    IDLE = 0
    HEADER = 1
    BODY = 2
    TRAILER = 3
    """After a chunk's first line, until its data comes. After the last one's come trailers instead."""


IDLE, HEADER, BODY, TRAILER = Phase


class Ticks:
    """The time as of the last sweep, for all connections: to look at the clock for every request would cost more than
    it tells."""

    now = time.monotonic()


class PipelineFull(Exception):
    """A client has sent more requests than `MOST_WAITING` before it was answered; raised through the parser."""


class HeaderTooLarge(Exception):
    """A request's header has more than `max_header_bytes`, or than `MOST_HEADERS` lines; raised through the parser,
    which stops at it."""


class UrlTooLong(Exception):
    """A request's address has more than `LONGEST_URL` bytes; raised through the parser."""


class TooManyChunks(Exception):
    """A request's body comes in pieces that are too small; raised through the parser."""


class Cycle(RequestResponseCycle):
    """uvicorn's state of one request. What is the same for all requests stands on the class, where uvicorn sets it on
    each object."""

    logger = access_logger = logging.getLogger("uvicorn.error")
    access_log = False
    default_headers = []
    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding = None
    expected_content_length = 0
    known: KnownHead | None = None
    """The request's head, where it is one that this connection has had before."""
    task: "asyncio.Task[None] | None" = None
    """In which it is answered."""
    _event: asyncio.Event | None = None

    def __init__(self, protocol: "PoliteProtocol", keep_alive: bool, body: bytearray | bytes) -> None:
        self.scope, self.transport, self.flow = protocol.scope, protocol.transport, protocol.flow
        self.on_response, self.outbox = protocol.on_response_complete, protocol.outbox
        self.keep_alive, self.waiting_for_100_continue = keep_alive, protocol.expect_100_continue
        self.body = body  # type: ignore[assignment]

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]
        """Set when there is something to receive. It is made when somebody first waits for that: a body that came with
        its head is handed over without."""
        if self._event is None:
            self._event = asyncio.Event()
            if self.body or not self.more_body or self.response_complete or self.disconnected:
                self._event.set()
        return self._event

    def wake(self) -> None:
        """There is something to receive."""
        if self._event is not None:
            self._event.set()


class Answering(Protocol):
    """Answers the requests of connections."""

    outbox: Outbox
    """Which the replies go through."""

    async def answer(self, cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
        """Answers a request, in a task that it takes out of the set in the end. As its first step it takes itself from
        those that are starting."""
        ...


class PoliteProtocol(HttpToolsProtocol):
    """One connection: reads requests within limits and has them answered, one after the other. `polite` makes a
    subclass with a server's limits, because uvicorn makes the objects."""

    timeouts = ReadTimeouts()
    max_header_bytes = 65536
    allow = b""
    counted = ConnectionLimits()
    is_counted = False
    """Whether the connection was counted when it was accepted, before TLS's handshake."""
    keeps_alive = True
    """Whether connections outlive a reply, where their clients want that. A server that leaves has every reply be its
    connection's last one, and say so."""
    outbox = Outbox()
    answer: Callable[[Cycle, set["asyncio.Task[None]"]], Coroutine[Any, Any, None]]
    """As `Answering` has it."""
    cycle: Cycle
    scope: Any
    pipeline: Any

    # -- what asyncio calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._phase, self._since, self._header_bytes = HEADER, Ticks.now, 0
        self._answered = Ticks.now
        self._known_head: KnownHead | None = None
        self.when_gone: list[Callable[[], object]] = []
        """Callbacks for when the client leaves before the request that is being answered has its reply."""
        self.when_read: list[Callable[[], object]] = []
        """Callbacks for when what was written has been read, or never will be."""
        self._unread, self._read_at, self._is_held = 0, Ticks.now, False
        self._chunks = self._chunk_bytes = self._line_bytes = 0
        self._address = self.client[0] if self.client else ""
        if not self.is_counted and not self.counted.enter(self._address):
            self._refuse(503, "There are too many connections", b"retry-after: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.counted.leave(self._address)
        for callback in self.when_gone:
            self.loop.call_soon(callback)
        self.when_gone = []
        self._all_read()

    def eof_received(self) -> None:
        self.outbox.flush()  # the transport is closed when this returns

    def resume_writing(self) -> None:
        super().resume_writing()
        self._all_read()
        if self._is_held and not self.transport.is_closing():
            self._is_held = False
            self._go_on()

    def _all_read(self) -> None:
        callbacks, self.when_read = self.when_read, []
        for callback in callbacks:
            callback()

    def data_received(self, data: bytes) -> None:
        known = self._known_head
        if self._phase is IDLE:
            if known is not None and self.cycle.response_complete and (body := known.body_in(data)) is not None:
                self.scope, self.expect_100_continue = known.scope, False
                self.cycle = cycle = Cycle(self, known.keep_alive, body)
                cycle.more_body, cycle.known = False, known
                self._start_asgi_task(cycle, self.app)
                return
            self._phase, self._since, self._header_bytes = HEADER, Ticks.now, 0
        is_start = self._phase is HEADER and self._header_bytes == 0
        # Counted by what came in: exact numbers are found out only where this is above the limit.
        if self._phase is not BODY:
            self._header_bytes += len(data)
        seen = self._chunks, self._chunk_bytes
        # What follows is uvicorn's own, but for its timers and other protocols, which are not used here.
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse_unreadable(error)
        except httptools.HttpParserUpgrade:
            self._go_without_upgrade()
        # A chunk's first line that has no end, because of its extensions or of zeros, is nothing that the parser tells.
        is_in_line = self._phase is BODY and seen == (self._chunks, self._chunk_bytes)
        self._line_bytes = self._line_bytes + len(data) if is_in_line else 0
        if self._header_bytes > self.max_header_bytes and self._phase in (HEADER, TRAILER):
            self._refuse_large_header()
        elif self._line_bytes > self.max_header_bytes:
            self._refuse(400, "The first line of a chunk is too long")
        elif (
            self._phase is IDLE and is_start
        ):  # what came is a whole request, and not the rest of one: that may be a body
            self._known_head = known_head(data, self.scope, self.cycle.keep_alive)

    def _start_asgi_task(self, cycle: Cycle, app: Any) -> None:  # type: ignore[override]
        self.outbox.starting += 1
        cycle.task = self.loop.create_task(self.answer(cycle, self.tasks))
        self.tasks.add(cycle.task)

    # -- what the parser calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > LONGEST_URL:
            raise UrlTooLong

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's own, written out: it is called for every line."""
        name, headers = name.lower(), self.headers
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers.append((name, value))
        if len(headers) > MOST_HEADERS:
            raise HeaderTooLarge

    def on_headers_complete(self) -> None:
        """A request's header is complete, and its task starts. As uvicorn's own, without what is not used here, and
        without parsing a known address again."""
        if len(self.pipeline) >= MOST_WAITING:
            raise PipelineFull
        if self._header_bytes > self.max_header_bytes:
            self._measure_header()
        parser, url = self.parser, self.url
        method, version = parser.get_method(), parser.get_http_version()
        path, raw_path, query = _PATHS.get(url) or _parsed(url)
        self.scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": version,
            "method": _METHODS.get(method) or method.decode("ascii"),
            "scheme": self.scheme or "http",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "client": self.client,
            "server": self.server,
        }
        self._phase, self._chunks, self._chunk_bytes, self._line_bytes = BODY, 0, 0, 0
        self.headers = []  # trailers go here, and are not to be taken for headers
        before = self.cycle
        keep_alive = self.keeps_alive and version != "1.0" and parser.should_keep_alive()
        self.cycle = cycle = Cycle(self, keep_alive, bytearray())
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            # Pipelined: the answers must come in the order of the requests (RFC 9112, section 9.3.2).
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_chunk_header(self) -> None:
        self._phase, self._header_bytes = TRAILER, 0
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + self._chunk_bytes // LEAST_CHUNK:
            raise TooManyChunks

    def on_body(self, body: bytes) -> None:
        self._phase, cycle = BODY, self.cycle
        self._chunk_bytes += len(body)
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.wake()

    def on_message_complete(self) -> None:
        self._phase = IDLE
        self.cycle.more_body = False
        self.cycle.wake()

    def on_response_complete(self) -> None:
        """A request has its reply. As uvicorn's own, but for its timer: the sweep ends a connection that waits too long
        for another request."""
        self.server_state.total_requests += 1
        if self.when_gone:
            self.when_gone = []
        if self.transport.is_closing():
            return
        self._answered = Ticks.now
        if self.flow.write_paused:
            # Its client does not read: what it asked for besides would be one more reply in memory.
            self._is_held = True
            self.flow.pause_reading()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """The next request's turn."""
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    # -- what a server that leaves calls -----------------------------------------------------------

    def forget_head(self) -> None:
        """Has the next request's head be looked at anew: what may be here has changed."""
        self._known_head = None

    def end_after_reply(self) -> None:
        """Has the next reply be the last one, and say so. A connection that is idle is left open for a request: its
        client may be sending one just now, and would never know whether it was read. A reply that has begun said
        nothing of an end, so its connection waits for one more."""
        self._known_head = None
        if self.cycle is not None and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def close_idle(self) -> None:
        """Closes a connection that had its reply. One that nothing has come by yet is new, and left to say what it
        wants."""
        if self._phase is IDLE and self.cycle.response_complete:
            self.outbox.flush()
            self.transport.close()

    def shutdown(self) -> None:
        """Closes an idle connection, and the others once what came has its reply."""
        self.outbox.flush()
        if self._is_reading():
            return  # `keeps_alive` is not set any more, so it ends with the reply
        super().shutdown()

    def _is_reading(self) -> bool:
        """Whether a part of a request has come, and no more of it yet."""
        return self._is_in_body() or (self._phase is HEADER and self._header_bytes > 0)

    # -- what the sweep calls, and refusals --------------------------------------------------------

    def look(self) -> None:
        """Ends a wait that has been too long, or that is for nobody. Called by the sweep."""
        if (self.when_gone and self.flow.read_paused and self._has_left()) or self._does_not_read():
            self.transport.abort()
        elif self._phase is IDLE:
            if self.cycle.response_complete and self._is_over(self._answered, self.timeout_keep_alive):
                self.transport.close()
        elif self._is_over(self._since, self.timeouts.header_s if self._phase is HEADER else self.timeouts.body_s):
            self._refuse_late()

    def _has_left(self) -> bool:
        """Whether the client has closed its side. While reading is paused nobody else would notice. Only Linux can tell
        before all that came has been read."""
        if sys.platform != "linux" or self.transport.is_closing():
            return False
        asked = select.poll()
        asked.register(self.transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        return bool(asked.poll(0))

    def _does_not_read(self) -> bool:
        """Whether nothing of what was written to the client has gone out for too long: a client that never reads would
        hold its replies in our memory."""
        unread: int = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._read_at = Ticks.now
        self._unread = unread
        return unread > 0 and self._is_over(self._read_at, self.timeouts.write_s)

    def _is_over(self, since: float, limit_s: float) -> bool:
        """Whether a wait has been longer than its limit. `since` may be older than it says, by one sweep."""
        return Ticks.now - since > limit_s + SWEEP_S

    def _refuse_unreadable(self, error: Exception) -> None:
        """Refuses what the parser could not read. An exception of ours comes back as the context of the parser's."""
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            self._refuse(405, "This method is not known", b"allow: %b\r\n" % self.allow)
        elif isinstance(error.__context__, HeaderTooLarge):
            self._refuse_large_header()
        elif isinstance(error.__context__, UrlTooLong):
            self._refuse(414, f"The address is longer than {LONGEST_URL} bytes")
        elif isinstance(error.__context__, TooManyChunks):
            self._refuse(400, f"The body comes in chunks of less than {LEAST_CHUNK} bytes")
        else:
            self._refuse(400, "This is not an HTTP request that can be read")

    def _go_without_upgrade(self) -> None:
        """Goes on after a request for another protocol (`Upgrade`), which may be ignored (RFC 9110, section 7.8). The
        parser reads nothing after it, so this request is the connection's last one."""
        self.cycle.keep_alive = False
        if self.cycle.response_complete:
            self.outbox.flush()
            self.transport.close()

    def _refuse_late(self) -> None:
        """Refuses a request that does not arrive in time."""
        if self._is_answering_another():
            self._since = Ticks.now  # reading may be paused until that answer: it is not the client's fault
        elif self._phase is HEADER and self._header_bytes == 0:
            self.transport.close()  # nothing was asked, so there is nothing to answer
        else:
            self._refuse(408, "The request took too long to arrive")

    def _refuse_large_header(self) -> None:
        most = f"{self.max_header_bytes} bytes, or has more than {MOST_HEADERS} lines"
        self._refuse(431, f"The request's header is larger than {most}")

    def _measure_header(self) -> None:
        """Raises HeaderTooLarge where the header really is: what was counted may have a body in it, or another
        request."""
        lines = sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        if len(self.url) + lines > self.max_header_bytes:
            raise HeaderTooLarge

    def _refuse(self, status: int, message: str, header: bytes = b"") -> None:
        """Ends the connection, with an answer to the request that is being read unless it has one."""
        self.outbox.flush()
        if self._is_answering_another():  # a refusal now would be taken for that answer, which becomes the last one
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing() and not (self._is_in_body() and self.cycle.response_started):
            body = encode({"message": message})
            common = b"content-type: application/json\r\noxp-version: 1.0\r\nconnection: close\r\n"
            length = b"content-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + header + common + length + body)
        self.transport.close()

    def _is_in_body(self) -> bool:
        """Whether the request that is being read has its header, and so a state, which is `cycle`."""
        return self._phase in (BODY, TRAILER)

    def _is_answering_another(self) -> bool:
        """Whether a request before the one that is being read has no answer yet."""
        if self._is_in_body():
            return bool(self.pipeline)
        return self.cycle is not None and not self.cycle.response_complete


def _parsed(url: bytes) -> tuple[str, bytes, bytes]:
    """An address in its parts: the path as text and as it came, and the query."""
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    found = (unescaped(path), parsed.path, parsed.query or b"")
    if len(_PATHS) < MOST_PATHS and len(url) < LONGEST_PATH:
        _PATHS[url] = found
    return found


def polite(
    answering: Answering,
    timeouts: ReadTimeouts,
    max_header_bytes: int,
    methods: Iterable[str],
    counted: ConnectionLimits,
) -> type[PoliteProtocol]:
    """The protocol class with these limits. `methods` are those that something is served for, for `Allow`."""
    limits: dict[str, Any] = {
        "timeouts": timeouts,
        "max_header_bytes": max_header_bytes,
        "allow": ", ".join(methods).encode(),
        "counted": counted,
        "outbox": answering.outbox,
        "answer": staticmethod(answering.answer),
    }
    return type("PoliteProtocol", (PoliteProtocol,), limits)


async def sweep(connections: set[Any]) -> None:
    """Looks at all connections now and then, so that those end whose time is up. Runs until cancelled."""
    while True:
        Ticks.now = time.monotonic()
        for number, connection in enumerate(list(connections), 1):
            if isinstance(connection, PoliteProtocol):
                connection.look()
            if number % SWEPT_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(SWEEP_S)
