"""An HTTP/1.1 client for one server that somebody else runs.

A call through toolyard pays for two exchanges, and the second one is made here; so this is asyncio's own transport with
httptools' parser, a fraction of what a general client costs (`docs/design/upstreams.md` has the figures). It does what
a gateway needs and no more: it follows no redirects, keeps no cookies, reads no proxies from the environment, and
decompresses nothing.

**A request is written once.** Which connection it goes to is decided before anything is written: one that was kept open
is looked at first, and where the server has closed it, or has said anything unasked, another takes its place. Once a
request is handed to a connection, nothing sends it again. The type of the error says how far it came: `Unsent` was
handed to none and may be sent again; after any other failure the server may have done what it was asked.

**What the server sends is bounded.** The head in bytes, headers and time; the interim replies before it; what stands
around the chunks of a body; and the body itself, of which no more than `READ_AHEAD` is read before somebody takes it.
"""

import asyncio
import os
import re
import select
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from functools import cache
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

from ..model.errors import ServerError, SetupError
from ..text.addresses import host_of

MOST_HEAD = 64 * 2**10
"""Bytes of a reply's head, and again of what stands around its chunks."""
MOST_HEADERS = 256
MOST_INTERIM = 16
"""Replies with a status of 1xx before the one that counts."""
MOST_FRAMING = 16
"""Bytes around chunks for each byte in them, beyond `MOST_HEAD`. A server that sends single bytes needs five."""
READ_AHEAD = 256 * 2**10
"""Bytes of a body that wait for a reader before the server is made to wait."""
PIECE = 64
"""Bytes of memory that a piece of a body takes beside its own."""
IDLE_S = 30.0
"""How long a connection is kept for the next request. What stands between here and there forgets idle connections
without a word, mostly after a minute or more, and a request that is written to such a one is never answered."""

_OURS = frozenset(
    b"accept-encoding connection content-length expect host keep-alive proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that say where a request ends, or what becomes of its connection."""
_WITH_BODY = {"POST", "PUT", "PATCH"}
_PORTS = {"http": 80, "https": 443}
_is_name = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_is_value = re.compile(rb"[\t\x20-\x7e\x80-\xff]*").fullmatch
_is_path = re.compile(r"/[!\"$-~]*").fullmatch
_white = re.compile(r"[\x00-\x20\x7f]").search
_is_method = re.compile(r"[A-Z]{1,20}").fullmatch


# --- what can go wrong ---------------------------------------------------------------------------


class HttpFailure(ServerError):
    """There is no reply, or not all of one. After any failure but `Unsent` the server may have done as it was asked."""


class Unsent(HttpFailure):
    """Nothing of the request was handed to a connection, so it may be sent again."""


class MaybeSent(HttpFailure):
    """The request was handed to a connection, and no reply came back. Whether the server has it, nobody knows."""


class LateReply(MaybeSent):
    """The request was handed to a connection, and the head of the reply was not there in time."""


class BrokenReply(HttpFailure):
    """The server has the request and began to reply, but the reply breaks off, or is not one that can be read."""


class OversizedReply(HttpFailure):
    """The body of the reply has more bytes than were asked for."""


_Failure = tuple[type[HttpFailure], str]
"""An error that somebody will raise, maybe more than once."""


class _Fault(Exception):
    """What is wrong with a reply, as the end of a sentence that begins with the server's address."""


# --- a reply -------------------------------------------------------------------------------------


class HttpReply:
    """A reply whose head has come. Its connection serves no other request until the body has come, too, or `close` is
    called; so a `with` statement is the place for a reply.

    The names in `headers` are in lower case. The values of several headers with the same name are joined by a comma, as
    HTTP has it: then two where there may be one look like neither of them, and a list is whole.
    """

    def __init__(self, exchange: "_Exchange") -> None:
        self.status, self.headers = exchange.status, exchange.headers
        self._exchange = exchange

    async def read(self, most: int) -> bytes:
        """The whole body. Raises OversizedReply, and BrokenReply. How long it may take is the caller's to say;
        cancelling closes the connection."""
        self._refuse_encoding()
        if self._exchange.length > most and not self._exchange.has_body:
            raise self._oversized(most)
        pieces, size = list[bytes](), 0
        while piece := await self._exchange.take():
            size += len(piece)
            if size > most:
                raise self._oversized(most)
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as it comes. The server is made to wait while nobody asks for more. Raises BrokenReply;
        cancelling closes the connection."""
        self._refuse_encoding()
        while piece := await self._exchange.take():
            yield piece

    def close(self) -> None:
        """Gives up what has not come of the body. The connection is used again only if all of it has."""
        self._exchange.give_up("was not read any further")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _oversized(self, most: int) -> OversizedReply:
        self.close()
        return OversizedReply(f"{self._exchange.where} sent more than {most} bytes, and is not listened to any further")

    def _refuse_encoding(self) -> None:
        """Also a reply that nobody can read has a status, so it is refused only when it is read."""
        encoding = self.headers.get(b"content-encoding", b"identity").lower()
        if encoding not in (b"identity", b""):
            self.close()
            named = encoding[:40].decode("latin-1")
            raise BrokenReply(f"{self._exchange.where} sent a body in the encoding {named}, which it was asked not to")


class _Exchange:
    """A request that was written, and what has come back: its connection puts it in, its reader takes it out."""

    def __init__(self, connection: "_Connection", method: str) -> None:
        self.where, self.method = connection.where, method
        self.status, self.headers = 0, dict[bytes, bytes]()
        self.length = 0
        """Of the body, where the head says it."""
        self.has_head = self.has_body = False
        self._connection: _Connection | None = connection
        self._failure: _Failure | None = None
        self._pieces, self._size = list[bytes](), 0
        self._change: asyncio.Future[None] | None = None

    # For the connection.

    def put(self, piece: bytes) -> bool:
        """Whether more may come now."""
        self._pieces.append(piece)
        self._size += len(piece) + PIECE
        return self._size < READ_AHEAD

    def end(self, failure: _Failure | None) -> None:
        """The connection has nothing more for this exchange."""
        self._connection, self._failure = None, failure
        self.wake()

    def wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    # For the reader.

    async def head(self, deadline: float) -> None:
        """Returns when the head is there. Raises MaybeSent, LateReply and BrokenReply."""
        timer = asyncio.get_running_loop().call_at(deadline, self._expire)
        try:
            while not self.has_head:
                await self._changed()
        finally:
            timer.cancel()

    async def take(self) -> bytes:
        """What has come of the body since the last time; nothing at its end. Raises BrokenReply."""
        while not self._pieces:
            if self.has_body:
                return b""
            await self._changed()
        taken = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if self._connection is not None:
            self._connection.resume()
        return taken

    def give_up(self, why: str) -> None:
        if self._connection is not None:
            self._pieces, self._size = [], 0
            self._connection.fail((BrokenReply, f"The reply of {self.where} {why}"))

    def _expire(self) -> None:
        if self._connection is not None and not self.has_head:
            why = f"{self.where} did not answer in time; whether it has the request is not known"
            self._connection.fail((LateReply, why))

    async def _changed(self) -> None:
        """Returns when more has come. Raises what has ended the exchange."""
        if self._failure is not None:
            kind, sentence = self._failure
            raise kind(sentence)
        if self._change is not None:
            raise RuntimeError("Two tasks read one reply")
        self._change = asyncio.get_running_loop().create_future()
        try:
            await self._change
        except asyncio.CancelledError:
            self.give_up("was not waited for any longer")
            raise
        finally:
            self._change = None


# --- a connection --------------------------------------------------------------------------------


class _Connection(asyncio.Protocol):
    """A connection to the server, with one exchange at a time. Between two of them it must be silent."""

    def __init__(self, where: str, pool: "_Pool") -> None:
        self.where, self._pool = where, pool
        self._transport: asyncio.Transport | None = None
        self._silence = select.poll()
        self._parser: HttpResponseParser | None = None
        self._exchange: _Exchange | None = None
        self._headers: dict[bytes, bytes] = {}
        self._came = self._in_head = self._in_body = self._count = self._interim = 0
        self._is_paused = self._is_kept = self._ends_at_eof = False

    # For the client.

    def begin(self, method: str, request: bytes) -> _Exchange:
        """Raises Unsent, if the server has closed the connection before."""
        transport = self._transport
        if transport is None or not self.is_open:
            raise Unsent(f"{self.where} closed the connection before anything was sent")
        self._exchange = exchange = _Exchange(self, method)
        self._came = self._in_body = self._interim = 0
        transport.write(request)
        return exchange

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def is_silent(self) -> bool:
        """Whether it is open, and the server has said nothing since the last reply: neither what the loop has seen, nor
        what still waits in the socket."""
        return self.is_open and not self._silence.poll(0)

    def resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def fail(self, failure: _Failure) -> None:
        """Ends the connection, and the exchange that it has."""
        self.abort()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(failure)
            self._pool.take_back(self, False)

    def cut(self, what: str) -> None:
        """Ends the connection, because of something that is not the server's reply."""
        if self._came > 0:
            self.fail((BrokenReply, f"{what} in the middle of the reply from {self.where}"))
        else:
            why = f"{what} without a reply from {self.where}; whether it has the request is not known"
            self.fail((MaybeSent, why))

    # For the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._parser = cast(asyncio.Transport, transport), HttpResponseParser(self)
        self._silence.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None or self._parser is None:
            self.abort()  # nobody asked
            return
        self._came += len(data)
        try:
            self._parser.feed_data(data)
            self._check_framing(exchange)
        except (HttpParserError, _Fault) as error:
            if exchange.has_body:  # it is whole; what follows it is not
                self._finish(exchange, False)
                return
            fault = error if isinstance(error, _Fault) else error.__context__
            why = fault if isinstance(fault, _Fault) else f"sent what is no HTTP reply ({error})"
            self.fail((BrokenReply, f"{self.where} {why}"))
            return
        if exchange.has_body:
            self._finish(exchange, self._is_kept)
        else:
            exchange.wake()

    def eof_received(self) -> None:
        exchange = self._exchange
        if exchange is not None and exchange.has_head and self._ends_at_eof:
            exchange.has_body = True
            self._finish(exchange, False)
        else:
            self.cut("The connection was closed")

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            self.eof_received()
        else:
            self.cut(f"The connection broke ({_reason(error)})")
        self._transport = self._parser = None
        self._pool.remove(self)

    def _finish(self, exchange: _Exchange, is_kept: bool) -> None:
        """The reply is whole. A request that was answered before all of it was written cannot be followed."""
        if self._transport is None or self._transport.is_closing() or self._transport.get_write_buffer_size() > 0:
            is_kept = False
        self._exchange = None
        exchange.end(None)
        if is_kept:
            self.resume()
        else:
            self.abort()
        self._pool.take_back(self, is_kept)

    def _check_framing(self, exchange: _Exchange) -> None:
        if not exchange.has_head:
            if self._came > MOST_HEAD:
                raise _Fault(f"sent a head of more than {MOST_HEAD} bytes")
        elif self._came - self._in_body > 2 * MOST_HEAD + MOST_FRAMING * self._in_body:
            raise _Fault("sent a body with too much between its bytes")

    # For the parser.

    def on_message_begin(self) -> None:
        if self._exchange is None or self._exchange.has_body:
            raise _Fault("sent a second reply to one request")
        self._headers, self._in_head, self._count = {}, 0, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is None or self._exchange.has_head:
            return  # what follows a chunked body has no meaning here
        self._count += 1
        self._in_head += len(name) + len(value)
        if self._count > MOST_HEADERS or self._in_head > MOST_HEAD:
            raise _Fault(f"sent a head of more than {MOST_HEADERS} headers or {MOST_HEAD} bytes")
        name, value = name.lower(), value.rstrip()
        before = self._headers.get(name)
        self._headers[name] = value if before is None else before + b", " + value

    def on_headers_complete(self) -> None:
        exchange, parser = self._exchange, self._parser
        if exchange is None or parser is None:
            return
        status = parser.get_status_code()
        if status < 200:
            self._interim += 1
            if status == 101 or self._interim > MOST_INTERIM:
                raise _Fault(f"sent the status {status} where a reply should be")
            return
        headers = self._headers
        encoding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if encoding is not None and encoding.lower() != b"chunked":
            raise _Fault("sent a body whose end cannot be known")
        exchange.status, exchange.headers, exchange.has_head = status, headers, True
        exchange.length = int(length) if length is not None else 0
        self._ends_at_eof = encoding is None and length is None
        self._is_kept = parser.should_keep_alive()
        if exchange.method == "HEAD":  # the parser does not know, and would wait for a body
            exchange.has_body, self._is_kept = True, False

    def on_body(self, piece: bytes) -> None:
        exchange = self._exchange
        if exchange is None or exchange.has_body:
            return
        self._in_body += len(piece)
        if not exchange.put(piece) and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._exchange is not None and self._exchange.has_head:
            self._exchange.has_body = True


# --- the client ----------------------------------------------------------------------------------


class _Pool:
    """The connections to a server. So many requests have one at a time; the others wait, and nobody overtakes."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._idle: dict[_Connection, float] = {}
        """Those that are free, and since when: the newest last."""
        self._open: set[_Connection] = set()
        self._lost = asyncio.Event()

    @property
    def has_room(self) -> bool:
        return self._room > 0

    async def enter(self) -> None:
        """Waits until this request may have a connection. Whoever has entered leaves."""
        if self._room > 0:
            self._room -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(turn, None)
            if not turn.cancelled():
                self.leave()  # its turn had come, and is the next one's
            raise

    def leave(self) -> None:
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():  # or it was cancelled a moment ago
                turn.set_result(None)
                return
        self._room += 1

    def kept(self) -> "_Connection | None":
        """The newest connection that is free, if one can be used."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection, since = self._idle.popitem()
            if now - since < IDLE_S and connection.is_silent():
                self._let_go(now)
                return connection
            connection.abort()
        return None

    def _let_go(self, now: float) -> None:
        """Closes the oldest connection that is free, if it has been for too long. One at a time will do: with each
        request there is at most one more."""
        for connection, since in self._idle.items():
            if now - since >= IDLE_S:
                del self._idle[connection]
                connection.abort()
            return

    async def close(self) -> None:
        for connection in list(self._open):
            connection.cut("The client was closed")
        while self._open:
            self._lost.clear()
            await self._lost.wait()

    # For connections.

    def add(self, connection: "_Connection") -> None:
        if connection.is_open:
            self._open.add(connection)

    def take_back(self, connection: "_Connection", is_kept: bool) -> None:
        """An exchange is over, and another may follow on its connection, or not."""
        if is_kept:
            self._idle[connection] = asyncio.get_running_loop().time()
        self.leave()

    def discard(self, connection: "_Connection") -> None:
        """One that nobody waits for any more. uvloop closes it without a word, where it was made at that moment."""
        connection.abort()
        self.remove(connection)

    def remove(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._lost.set()


class HttpClient:
    """Sends requests to one server, and keeps connections open between them. It belongs to one event loop."""

    def __init__(
        self, url: str, *, connect_s: float = 10.0, most_connections: int = 64, tls: ssl.SSLContext | None = None
    ) -> None:
        """`url` says scheme, host and port; its path is in `path`. `tls`: whom to trust, if not whom the system does.
        Raises SetupError."""
        self._origin = _Origin(url)
        self.path = self._origin.path
        """The path and the query of the URL, for requests to exactly there."""
        self._connect_s, self._tls = connect_s, tls
        self._pool = _Pool(most_connections)
        self._is_closed = False

    async def send(
        self, method: str, path: str, headers: Mapping[bytes, bytes], body: bytes = b"", *, head_s: float
    ) -> HttpReply:
        """Sends a request, and returns when the head of the reply is there: within `head_s` seconds, which waiting for
        a free connection and connecting are part of. Cancelling closes the connection. Raises Unsent, MaybeSent,
        LateReply and BrokenReply."""
        request = self._origin.request(method, path, headers, body)
        deadline = asyncio.get_running_loop().time() + head_s
        await (self._pool.enter() if self._pool.has_room else self._enter(deadline))
        try:
            self._refuse_closed()
            connection = self._pool.kept() or await self._connect(deadline)
            exchange = connection.begin(method, request)
        except BaseException:
            self._pool.leave()
            raise
        await exchange.head(deadline)
        return HttpReply(exchange)

    async def close(self) -> None:
        """Closes all connections, also those that are in use. Nothing can be sent any more."""
        self._is_closed = True
        await self._pool.close()

    async def _enter(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._pool.enter()
        except TimeoutError:
            raise Unsent(f"No connection to {self._origin.where} became free in time") from None

    async def _connect(self, deadline: float) -> _Connection:
        """Raises Unsent."""
        origin, loop = self._origin, asyncio.get_running_loop()
        connection = _Connection(origin.where, self._pool)
        tls = (self._tls or _trusted()) if origin.is_tls else None
        name = origin.host if origin.is_tls else None
        limit = asyncio.timeout_at(min(deadline, loop.time() + self._connect_s))
        try:
            async with limit:
                await loop.create_connection(
                    lambda: connection, origin.host, origin.port, ssl=tls, server_hostname=name
                )
        except (OSError, ValueError) as error:  # ValueError: a name that cannot be one
            self._pool.discard(connection)
            raise _unreached(origin.where, error, limit.expired()) from error
        except BaseException:
            self._pool.discard(connection)
            raise
        # Only now: uvloop tells of no end where connecting was cancelled.
        self._pool.add(connection)
        self._refuse_closed(connection)
        return connection

    def _refuse_closed(self, connection: _Connection | None = None) -> None:
        if self._is_closed:
            if connection is not None:
                connection.abort()
            raise Unsent(f"The client of {self._origin.where} was closed")


@cache
def _trusted() -> ssl.SSLContext:
    """Reading whom the system trusts takes as long as a hundred calls."""
    return ssl.create_default_context()


def _unreached(where: str, error: OSError | ValueError, is_late: bool) -> Unsent:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unsent(f"The certificate of {where} is not trusted ({error.verify_message}); nothing was sent")
    return Unsent(f"{where} cannot be reached: {'no connection in time' if is_late else _reason(error)}")


def _reason(error: Exception) -> str:
    """What the system says, without what the event loops make of it."""
    return os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else str(error)


class _Origin:
    """Scheme, host and port, and how a request to them is written."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            self.host = host if ":" in host else host.removesuffix(".").encode("idna").decode("ascii")
        except ValueError as error:  # UnicodeError is one, too
            raise SetupError(f"{url!r} is not the address of a server: {error}") from None
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        is_whole = parts.scheme in _PORTS and host_of(url) and _is_path(self.path) and not _white(url)
        if not is_whole or parts.username is not None or parts.fragment:
            raise SetupError(f"{url!r} is not the address of a server: it should look like https://host:port/path")
        self.is_tls = parts.scheme == "https"
        self.port = port or _PORTS[parts.scheme]
        named = f"[{self.host}]" if ":" in self.host else self.host
        self.where = f"{named}:{self.port}"
        in_header = named.partition("%")[0] + "]" if "%" in named else named
        if self.port != _PORTS[parts.scheme]:
            in_header = f"{in_header}:{self.port}"
        self._always = f" HTTP/1.1\r\nhost: {in_header}\r\naccept-encoding: identity\r\n".encode("ascii")

    def request(self, method: str, path: str, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
        """Raises Unsent, where any part would be read as something else than it is."""
        if not _is_method(method) or method == "CONNECT":
            raise Unsent(f"No request to {self.where} can have this method")
        if not _is_path(path):
            raise Unsent(f"No request to {self.where} can have this path")
        lines = [method.encode(), b" ", path.encode(), self._always]
        for name, value in headers.items():
            if not _is_name(name) or name.lower() in _OURS or not _is_value(value):
                raise Unsent(f"No request to {self.where} can have this header: {name[:40]!r}")
            lines += (name, b": ", value, b"\r\n")
        if body or method in _WITH_BODY:
            lines.append(b"content-length: %d\r\n" % len(body))
        lines += (b"\r\n", body)
        return b"".join(lines)
