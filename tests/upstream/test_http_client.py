"""The HTTP client for upstream servers, against real sockets: what it sends, what it makes of whatever comes back, and
what becomes of its connections."""

import asyncio
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.certificates import signed
from tests.upstream.peer import OK, Line, answering, once, serving
from toolyard.model.errors import SetupError
from toolyard.upstream import http_client
from toolyard.upstream.http_client import (
    BrokenReply,
    HttpClient,
    HttpFailure,
    HttpReply,
    LateReply,
    MaybeSent,
    OversizedReply,
    Unsent,
)

Run = Callable[[Awaitable[None]], None]
MB = 2**20
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test on one of the two event loops."""

    def on_loop(test: Awaitable[None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(30):
                await test

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())

    return on_loop


async def post(client: HttpClient, body: bytes = b"{}", *, head_s: float = 20.0, most: int = MB) -> bytes:
    with await client.send("POST", client.path, {}, body, head_s=head_s) as reply:
        return await reply.read(most)


async def get(client: HttpClient, path: str = "/", *, head_s: float = 20.0) -> HttpReply:
    return await client.send("GET", path, {}, head_s=head_s)


async def consume(reply: HttpReply, pieces: list[bytes]) -> None:
    async for piece in reply.chunks():
        pieces.append(piece)


async def turns(count: int = 20) -> None:
    """Lets the loop see what has happened meanwhile."""
    for _ in range(count):
        await asyncio.sleep(0)


# --- what is sent --------------------------------------------------------------------------------


def test_a_request_and_its_reply(run: Run) -> None:
    reply = b"HTTP/1.1 201 Made\r\nX-A: 1\r\nContent-Length: 3 \r\nx-a: 2\r\nEmpty:\r\nPadded: a b \t\r\n\r\nyes"

    async def test() -> None:
        async with serving(answering(reply)) as peer:
            client = HttpClient(peer.url + "?a=b")
            headers = {b"Content-Type": b"application/json", b"x-free": b"a\tb \xe9"}
            got = await client.send("POST", client.path, headers, b'{"a":1}', head_s=20)
            assert (got.status, await got.read(3)) == (201, b"yes")
            assert got.headers == {b"x-a": b"1, 2", b"content-length": b"3", b"empty": b"", b"padded": b"a b"}
            assert peer.requests == [
                b"POST /mcp?a=b HTTP/1.1\r\nhost: " + peer.url[7:-4].encode() + b"\r\naccept-encoding: identity\r\n"
                b'Content-Type: application/json\r\nx-free: a\tb \xe9\r\ncontent-length: 7\r\n\r\n{"a":1}'
            ]
            await client.close()

    run(test())


@pytest.mark.parametrize(
    ("method", "body", "is_said"),
    [("GET", b"", False), ("DELETE", b"", False), ("POST", b"", True), ("PUT", b"", True), ("DELETE", b"{}", True)],
)
def test_a_length_is_said_where_there_may_be_a_body(run: Run, method: str, body: bytes, is_said: bool) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url)
            await client.send(method, "/", {}, body, head_s=20)
            assert (b"\r\ncontent-length: %d\r\n" % len(body) in peer.requests[0]) == is_said
            await client.close()

    run(test())


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("http://example.com", "example.com", "/"),
        ("http://example.com:80/mcp", "example.com", "/mcp"),
        ("https://example.com:443/", "example.com", "/"),
        ("http://example.com:443/", "example.com:443", "/"),
        ("https://EXAMPLE.com:8443/a?b=c", "example.com:8443", "/a?b=c"),
        ("http://example.com./", "example.com", "/"),
        ("http://[::1]:8000/", "[::1]:8000", "/"),
        ("http://[::1]/", "[::1]", "/"),
        ("http://[fe80::1%1]:8000/", "[fe80::1]:8000", "/"),
        ("http://127.0.0.1:8000/", "127.0.0.1:8000", "/"),
        ("http://bücher.example/", "xn--bcher-kva.example", "/"),
    ],
)
def test_the_host_is_that_of_the_url(url: str, host: str, path: str) -> None:
    client = HttpClient(url)
    request = client._origin.request("GET", client.path, {}, b"")
    assert request == f"GET {path} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: identity\r\n\r\n".encode()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com",
        "http://",
        "http://:80/",
        "http://a:b@example.com/",
        "http://example.com:99999/",
        "http://example.com:x/",
        "http://[::1/",
        f"http://{'a' * 64}.example/",
        "http://a b/",
        "http://example.com/#part",
        "http://exa\nmple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nx: y",
        "http://example.com/é",
        "http://example.com\0/",
    ],
    ids=range(18),
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(SetupError, match="is not the address of a server"):
        HttpClient(url)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/", {b"a": b"b\r\nc: d"}),
        ("POST", "/", {b"a": b"b\nc: d"}),
        ("POST", "/", {b"a": b"b\rc"}),
        ("POST", "/", {b"a": b"b\0"}),
        ("POST", "/", {b"a": b"\x7f"}),
        ("POST", "/", {b"a: b\r\nc": b"d"}),
        ("POST", "/", {b"a b": b"c"}),
        ("POST", "/", {b"": b"c"}),
        ("POST", "/", {b"Content-Length": b"0"}),
        ("POST", "/", {b"transfer-encoding": b"chunked"}),
        ("POST", "/", {b"Host": b"elsewhere"}),
        ("POST", "/", {b"connection": b"close"}),
        ("POST", "/", {b"expect": b"100-continue"}),
        ("POST", "/", {b"accept-encoding": b"gzip"}),
        ("POST", "/a b", {}),
        ("POST", "/a\r\nb", {}),
        ("POST", "/é", {}),
        ("POST", "/#a", {}),
        ("POST", "", {}),
        ("POST", "http://elsewhere/", {}),
        ("POST /x", "/", {}),
        ("post", "/", {}),
        ("", "/", {}),
        ("CONNECT", "/", {}),
    ],
)
def test_what_would_be_read_as_something_else_is_not_sent(
    run: Run, method: str, path: str, headers: dict[bytes, bytes]
) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url)
            with pytest.raises(Unsent, match=r"No request to 127.0.0.1:\d+ can have this"):
                await client.send(method, path, headers, head_s=20)
            assert peer.lines == []

    run(test())


def test_a_refused_header_keeps_its_value_to_itself() -> None:
    with pytest.raises(Unsent) as refused:
        HttpClient("http://example.com")._origin.request("GET", "/", {b"authorization": b"secret\n"}, b"")
    assert "authorization" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_nothing_comes_from_the_environment_and_nothing_is_kept_of_a_reply(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    moved = b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"

    async def test() -> None:
        async with serving(answering(moved)) as peer:
            client = HttpClient(peer.url)
            for _ in range(2):
                assert (await get(client)).status == 302
            assert peer.requests[0] == peer.requests[1]
            assert len(peer.requests) == 2
            await client.close()

    run(test())


# --- replies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (HEAD + b"content-length: 2\r\n\r\n{}", b"{}"),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", b"{}"),
        (CHUNKED + b'1;a=b\r\n{\r\n1;c="d"\r\n}\r\n0;e\r\nlate: 1\r\n\r\n', b"{}"),
        (HEAD + b"\r\n{}", b"{}"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}"),
        (HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 204 None\r\n\r\n", b""),
        (b"HTTP/1.1 304 Same\r\ncontent-length: 5000000\r\n\r\n", b""),
        (b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 103 Hints\r\na: b\r\n\r\n" + OK, b"{}"),
        (HEAD + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\n{}", b"{}"),
        (HEAD + b"content-encoding: identity\r\ncontent-length: 2\r\n\r\n{}", b"{}"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_a_body_ends_in_many_ways_and_comes_in_any_pieces(run: Run, reply: bytes, body: bytes, size: int) -> None:
    async def script(line: Line) -> None:
        await line.request()
        for start in range(0, len(reply), size):
            await line.send(reply[start : start + size])
            await asyncio.sleep(0)

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            assert await post(client) == body
            await client.close()

    run(test())


WHOLE_HEAD = HEAD + b"content-length: 5\r\n\r\n"
BROKEN = {
    "no HTTP": (b"<html>", "sent what is no HTTP reply"),
    "another protocol": (b"\x15\x03\x03\x00\x02\x02\x16", "sent what is no HTTP reply"),
    "head cut off": (HEAD + b"content-le", "closed in the middle of the reply"),
    "body too short": (WHOLE_HEAD + b"{}", "closed in the middle of the reply"),
    "chunks cut off": (CHUNKED + b"2\r\n{}\r\n", "closed in the middle of the reply"),
    "chunk cut off": (CHUNKED + b"5\r\n{}", "closed in the middle of the reply"),
    "trailer cut off": (CHUNKED + b"2\r\n{}\r\n0\r\n", "closed in the middle of the reply"),
    "interim alone": (b"HTTP/1.1 100 Go on\r\n\r\n", "closed in the middle of the reply"),
    "line folded": (HEAD + b"a: b\r\n c\r\n\r\n", "sent what is no HTTP reply"),
    "bare line feed": (HEAD + b"a: b\nc: d\r\n\r\n", "sent what is no HTTP reply"),
    "null in a header": (HEAD + b"a: b\0c\r\n\r\n", "sent what is no HTTP reply"),
    "two lengths": (HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", "sent what is no HTTP reply"),
    "length and chunks": (
        HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        "sent what is no HTTP reply",
    ),
    "no length": (HEAD + b"content-length: x\r\n\r\n", "sent what is no HTTP reply"),
    "no chunk": (CHUNKED + b"x\r\n", "sent what is no HTTP reply"),
    "unknown encoding": (HEAD + b"transfer-encoding: gzip\r\n\r\n{}", "sent a body whose end cannot be known"),
    "chunked twice": (CHUNKED[:-2] + b"transfer-encoding: chunked\r\n\r\n", "sent a body whose end cannot be known"),
    "switching": (b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "sent the status 101"),
    "switching without saying": (b"HTTP/1.1 101 Switch\r\n\r\n", "sent the status 101"),
    "interim without end": (b"HTTP/1.1 103 Hints\r\n\r\n" * 17 + OK, "sent the status 103"),
    "many headers": (HEAD + b"a: b\r\n" * 257 + b"\r\n", "sent a head of more than 256 headers"),
    "large headers": (HEAD + (b"a: " + b"b" * 3000 + b"\r\n") * 25 + b"\r\n", "sent a head of more than"),
    "large header": (HEAD + b"a: " + b"b" * 2**17, "sent a head of more than"),
    "large name": (HEAD + b"a" * 2**17, "sent a head of more than"),
    "large reason": (b"HTTP/1.1 200 " + b"b" * 2**17, "sent a head of more than"),
    "blank lines": (b"\r\n" * 2**17, "sent a head of more than"),
    "large chunk extension": (CHUNKED + b"1;" + b"a" * 2**18, "sent a body with too much between its bytes"),
    "large chunk extensions": (
        CHUNKED + (b"1;" + b"a" * 2**12 + b"\r\nx\r\n") * 100,
        "sent a body with too much between its bytes",
    ),
    "large trailers": (CHUNKED + b"0\r\n" + b"a: b\r\n" * 2**16, "sent a body with too much between its bytes"),
    "large trailer": (CHUNKED + b"0\r\na: " + b"b" * 2**18, "sent a body with too much between its bytes"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("size", [5000, 10**6])
def test_a_reply_that_is_none_is_refused(run: Run, kind: str, size: int) -> None:
    reply, sentence = BROKEN[kind]

    async def script(line: Line) -> None:
        await line.request()
        for start in range(0, len(reply), size):
            await line.send(reply[start : start + size])
        if "closed" not in sentence:
            await line.gone()  # it is the client who closes

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            with pytest.raises(BrokenReply, match=sentence) as refused:
                await post(client)
            assert peer.url[7:-4] in str(refused.value)
            assert len(peer.requests) == 1
            await client.close()

    run(test())


PARTS = [HEAD, b"HTTP/1.1 103 Hints\r\n", b"HTTP/1.0 204 None\r\n", b"HTTP/1.1", b"\r\n", b"{}", OK]
PARTS += [b"content-length: 2\r\n", b"transfer-encoding: chunked\r\n", b"connection: close\r\n", b"a: b\r\n"]
PARTS += [
    b"content-encoding: gzip\r\n",
    b"2\r\n{}\r\n",
    b"0\r\n\r\n",
    b"2;a=b\r\n",
    b" ",
    b"\r",
    b"\n",
    b"\0",
    b":",
    b"\xff",
]
whatever = st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join)


@settings(deadline=None)
@given(whatever, st.integers(1, 60), st.booleans())
def test_whatever_a_server_sends_a_request_ends_and_the_next_one_is_not_hurt(
    reply: bytes, size: int, is_reset: bool
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        if line.number > 1:
            await line.send(OK)
            return
        for start in range(0, len(reply), size):
            await line.send(reply[start : start + size])
        if is_reset:
            line.reset()

    async def test() -> None:
        async with asyncio.timeout(20), serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            with suppress(HttpFailure):
                await post(client)
            while len(peer.tasks) == 1 and not all(task.done() for task in peer.tasks):
                await asyncio.sleep(0)
            assert await post(client) == b"{}"
            assert len(peer.lines) == len(peer.requests) == 2
            await client.close()

    uvloop.run(test())


def test_a_head_may_be_large(run: Run) -> None:
    reply = HEAD + (b"a: " + b"b" * 3000 + b"\r\n") * 20 + b"content-length: 2\r\n\r\n{}"

    async def test() -> None:
        async with serving(answering(reply)) as peer:
            client = HttpClient(peer.url)
            assert await post(client) == b"{}"
            await client.close()

    run(test())


def test_a_body_may_come_in_single_bytes(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")) as peer:
            client = HttpClient(peer.url)
            assert await post(client) == b"x" * 50_000
            await client.close()

    run(test())


@pytest.mark.parametrize("encoding", [b"gzip", b"identity, br", b"Zstd"])
def test_a_body_that_is_compressed_is_refused_but_its_status_is_there(run: Run, encoding: bytes) -> None:
    reply = b"HTTP/1.1 401 No\r\ncontent-encoding: " + encoding + b"\r\ncontent-length: 2\r\n\r\n\x1f\x8b"

    async def test() -> None:
        async with serving(answering(reply)) as peer:
            client = HttpClient(peer.url)
            for _ in range(2):
                got = await get(client)
                assert got.status == 401
                with pytest.raises(BrokenReply, match=r"in the encoding (gzip|identity, br|zstd), which it was asked"):
                    await got.read(MB)
                with pytest.raises(BrokenReply, match="in the encoding"):
                    [piece async for piece in got.chunks()]
            await client.close()

    run(test())


def test_a_reply_to_head_has_no_body(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(WHOLE_HEAD)) as peer:
            client = HttpClient(peer.url)
            for _ in range(2):
                got = await client.send("HEAD", "/", {}, head_s=20)
                assert (got.headers[b"content-length"], await got.read(0)) == (b"5", b"")
            assert len(peer.requests) == 2
            await client.close()

    run(test())


@pytest.mark.parametrize(
    "reply",
    [WHOLE_HEAD + b"12345", WHOLE_HEAD, CHUNKED + b"5\r\n12345\r\n", HEAD + b"\r\n12345"],
    ids=["length", "length alone", "chunks", "until closed"],
)
def test_a_body_with_more_than_was_asked_for_is_refused(run: Run, reply: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(reply)
        await line.gone()
        closed.set()

    closed = asyncio.Event()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            got = await get(client)
            with pytest.raises(OversizedReply, match=r"127.0.0.1:\d+ sent more than 4 bytes"):
                await got.read(4)
            if b"12345" not in reply or b"content-length" not in reply:
                await closed.wait()
            await client.close()

    run(test())


def test_chunks_come_as_they_are_sent(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(CHUNKED)
        for number in range(3):
            await asked.acquire()
            await line.send(b"2\r\n%d;\r\n" % number)
        await asked.acquire()
        await line.send(b"0\r\n\r\n")
        await line.request()
        await line.send(OK)

    asked = asyncio.Semaphore(0)

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            got = await get(client)
            asked.release()
            pieces = []
            async for piece in got.chunks():
                pieces.append(piece)
                asked.release()
            assert pieces == [b"0;", b"1;", b"2;"]
            assert await post(client) == b"{}"
            assert len(peer.lines) == 1
            await client.close()

    run(test())


def test_what_came_before_a_break_is_there_and_then_the_break(run: Run) -> None:
    async def test() -> None:
        async with serving(once(CHUNKED + b"2\r\n{}\r\n")) as peer:
            client = HttpClient(peer.url)
            pieces: list[bytes] = []
            with pytest.raises(BrokenReply, match="in the middle of the reply"):
                await consume(await get(client), pieces)
            assert pieces == [b"{}"]
            await client.close()

    run(test())


def test_a_reply_has_one_reader(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(CHUNKED)
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            got = await get(client)
            first = asyncio.create_task(got.read(MB))
            await turns()
            with pytest.raises(RuntimeError, match="Two tasks read one reply"):
                await got.read(MB)
            await client.close()
            with pytest.raises(BrokenReply, match="The client was closed in the middle"):
                await first

    run(test())


def test_a_body_that_nobody_reads_makes_the_server_wait(run: Run) -> None:
    size, piece = 100 * MB, bytes(64 * 1024)
    sent = 0

    async def script(line: Line) -> None:
        nonlocal sent
        await line.request()
        await line.send(HEAD + b"content-length: %d\r\n\r\n" % size)
        while sent < size:
            await line.send(piece)
            sent += len(piece)
        await line.request()
        await line.send(OK)

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            got = await get(client)
            last = -1
            while sent != last:  # until nothing moves any more
                last = sent
                await asyncio.sleep(0.1)
            assert 0 < sent < size / 4
            assert tracemalloc.get_traced_memory()[0] - before < 8 * MB
            assert sum([len(piece) async for piece in got.chunks()]) == size
            assert await post(client) == b"{}"
            assert len(peer.lines) == 1
            await client.close()

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run(test())
    finally:
        tracemalloc.stop()


def test_a_body_that_is_whole_and_unread_holds_nobody_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "READ_AHEAD", 1)

    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url, most_connections=1)
            unread = [await get(client, head_s=5) for _ in range(3)]
            assert len(peer.lines) == 1
            assert [await reply.read(MB) for reply in unread] == [b"{}"] * 3
            await client.close()

    run(test())


def test_interim_replies_are_counted_for_each_request(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(b"HTTP/1.1 103 Hints\r\n\r\n" * 10 + OK)) as peer:
            client = HttpClient(peer.url)
            assert [await post(client) for _ in range(3)] == [b"{}"] * 3
            assert len(peer.lines) == 1
            await client.close()

    run(test())


# --- a request is written once -------------------------------------------------------------------


def test_a_connection_is_used_again(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url)
            for _ in range(5):
                assert await post(client) == b"{}"
            assert len(peer.lines) == 1
            await client.close()

    run(test())


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        HEAD + b"Connection: close\r\ncontent-length: 2\r\n\r\n{}",
        OK + b"x",
        OK + OK,
        OK + b"HTTP/1.1 2",
        OK + b"x" * 10**6,
        CHUNKED + b"2\r\n{}\r\n0\r\n\r\nmore",
    ],
)
def test_a_connection_whose_reply_is_its_last_is_not_used_again(run: Run, reply: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(reply)
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            for _ in range(3):
                assert await post(client) == b"{}"
                await turns()
            assert len(peer.lines) == len(peer.requests) == 3
            await client.close()

    run(test())


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(run: Run) -> None:
    async def test() -> None:
        async with serving(once(OK)) as peer:
            client = HttpClient(peer.url)
            for _ in range(3):
                assert await post(client) == b"{}"
                await turns()
            assert len(peer.lines) == len(peer.requests) == 3
            await client.close()

    run(test())


class SlowLoop:
    """A server on threads, which acts while the client's event loop does nothing at all."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self.requests = 0
        self.last: socket.socket | None = None
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                line = self.socket.accept()[0]
            except OSError:
                return
            self.last = line
            if line.recv(2**16):
                self.requests += 1
                line.sendall(OK)

    def end(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        if self.last is not None:
            self.last.close()


@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Too late\r\ncontent-length: 0\r\n\r\n"])
def test_a_connection_is_replaced_also_where_the_loop_has_not_seen_its_end(run: Run, farewell: bytes) -> None:
    async def test() -> None:
        client = HttpClient(server.url)
        for number in range(3):
            assert await post(client) == b"{}"
            assert server.requests == number + 1
            assert server.last is not None
            server.last.sendall(farewell)
            server.last.shutdown(socket.SHUT_WR)
        await client.close()

    server = SlowLoop()
    try:
        run(test())
    finally:
        server.end()


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_request_that_was_written_is_never_sent_again(run: Run, is_reset: bool, is_first: bool) -> None:
    async def script(line: Line) -> None:
        if not is_first:
            await line.request()
            await line.send(OK)
        await line.request()
        if is_reset:
            line.reset()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            if not is_first:
                await post(client)
            with pytest.raises(MaybeSent, match=r"without a reply from 127.0.0.1:\d+; whether it has") as failed:
                await post(client)
            assert type(failed.value) is MaybeSent
            await turns()
            assert len(peer.lines) == 1
            assert len(peer.requests) == 2 - is_first
            await client.close()

    run(test())


def test_a_server_that_closes_at_once_is_tried_once(run: Run) -> None:
    async def script(line: Line) -> None:
        line.reset()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            with pytest.raises((Unsent, MaybeSent)):
                await post(client)
            assert len(peer.lines) == 1
            await client.close()

    run(test())


def test_a_connection_on_which_something_came_unasked_is_replaced(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(OK)
        await again.wait()
        await line.send(OK)
        await line.gone()

    again = asyncio.Event()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            assert await post(client) == b"{}"
            again.set()
            await asyncio.wait(peer.tasks)
            peer.script = answering(OK.replace(b"{}", b"[]"))
            assert await post(client) == b"[]"
            assert len(peer.requests) == len(peer.lines) == 2
            await client.close()

    run(test())


def test_a_request_that_was_answered_before_it_was_read_ends_its_connection(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.send(b"")
        await asyncio.sleep(0)
        await line._reader.readuntil(b"\r\n\r\n")
        await line.send(OK)
        await stop.wait()

    stop = asyncio.Event()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            assert await post(client, bytes(64 * MB)) == b"{}"
            assert await post(client) == b"{}"
            assert len(peer.lines) == 2
            await client.close()
            stop.set()

    run(test())


def test_the_newest_connection_is_used_first_and_old_ones_are_let_go(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(line: Line) -> None:
        while True:
            await line.request()
            await line.send(HEAD + b"content-length: 1\r\n\r\n%d" % line.number)

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url)
            first = await asyncio.gather(*(get(client) for _ in range(3)))
            used = [await reply.read(1) for reply in first]
            assert sorted(used) == [b"1", b"2", b"3"]
            newest = await post(client)
            assert {await post(client) for _ in range(5)} == {newest}
            assert len(client._pool._idle) == 3
            monkeypatch.setattr(http_client, "IDLE_S", 0.0)
            assert await post(client) == b"4"
            assert len(client._pool._idle) == 1
            await client.close()

    run(test())


def test_a_connection_that_is_not_needed_for_long_is_closed(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url)
            for reply in await asyncio.gather(*(get(client) for _ in range(3))):
                await reply.read(MB)
            oldest = next(iter(client._pool._idle))
            client._pool._idle[oldest] -= 2 * http_client.IDLE_S
            assert await post(client) == b"{}"
            assert len(client._pool._idle) == 2
            assert not oldest.is_open
            assert len(peer.lines) == 3
            await client.close()

    run(test())


# --- time, cancelling, waiting in line -----------------------------------------------------------


async def silent(line: Line) -> None:
    await line.request()
    await line.gone()


async def trickling(line: Line) -> None:
    await line.request()
    await line.send(HEAD + b"a: ")
    while True:
        await line.send(b"b")
        await asyncio.sleep(0.01)


async def hinting(line: Line) -> None:
    await line.request()
    for _ in range(10):
        await line.send(b"HTTP/1.1 103 Hints\r\n\r\n")
        await asyncio.sleep(0.01)
    await line.gone()


@pytest.mark.parametrize("script", [silent, trickling, hinting])
def test_the_whole_head_has_one_deadline(run: Run, script: Callable[[Line], Awaitable[None]]) -> None:
    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            for number in (1, 2):
                with pytest.raises(LateReply, match=r"127.0.0.1:\d+ did not answer in time; whether it has"):
                    await post(client, head_s=0.2)
                assert len(peer.lines) == number
            await asyncio.wait(peer.tasks)  # their connections are closed
            await client.close()

    run(test())


def test_a_body_has_no_deadline_but_its_readers(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(WHOLE_HEAD)
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            got = await get(client, head_s=0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await got.read(MB)
            await asyncio.wait(peer.tasks)
            with pytest.raises(BrokenReply, match="was not waited for any longer"):
                await got.read(MB)
            await client.close()

    run(test())


def test_cancelling_a_request_closes_its_connection(run: Run) -> None:
    async def test() -> None:
        async with serving(silent) as peer:
            client = HttpClient(peer.url, most_connections=1)
            sending = asyncio.create_task(post(client))
            while not peer.requests:
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await asyncio.wait(peer.tasks)
            peer.script = answering(OK)
            assert await post(client) == b"{}"
            await client.close()

    run(test())


def test_a_reply_that_is_given_up_closes_its_connection_and_one_that_is_whole_does_not(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(OK)
        await line.request()
        await line.send(WHOLE_HEAD)
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            whole = await get(client)
            whole.close()
            assert await whole.read(MB) == b"{}"
            with await get(client) as cut:
                assert len(peer.lines) == 1
            with pytest.raises(BrokenReply, match="was not read any further"):
                await cut.read(MB)
            await asyncio.wait(peer.tasks)
            assert await post(client) == b"{}"
            assert len(peer.lines) == 2
            await client.close()

    run(test())


def test_cancelling_after_the_end_of_a_reply_spares_whoever_has_its_connection_now(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url, most_connections=1)
            first = asyncio.create_task(client.send("GET", "/1", {}, head_s=20))
            second = asyncio.create_task(client.send("GET", "/2", {}, head_s=20))
            second.add_done_callback(lambda _: None)
            while not client._pool._waiting:
                await asyncio.sleep(0)
            # The reply is in, its reader has not run, and the connection is the second one's by then.
            pool = client._pool
            taken_back = pool.leave

            def leave() -> None:
                first.cancel()
                taken_back()

            pool.leave = leave  # type: ignore[method-assign]
            with pytest.raises(asyncio.CancelledError):
                await first
            pool.leave = taken_back  # type: ignore[method-assign]
            assert (await second).status == 200
            assert len(peer.lines) == 1
            await client.close()

    run(test())


def test_requests_wait_in_line_and_nobody_overtakes(run: Run) -> None:
    async def script(line: Line) -> None:
        while True:
            request = await line.request()
            order.append(int(request.split(b" ")[1][1:]))
            await asyncio.sleep(0)
            await line.send(OK)

    order: list[int] = []

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)

            async def one(number: int) -> None:
                with await get(client, f"/{number}") as reply:
                    await reply.read(MB)
                if number < 10:
                    await one(number + 100)  # and to the end of the line

            await asyncio.gather(*(one(number) for number in range(50)))
            assert order == [*range(50), *range(100, 110)]
            assert len(peer.lines) == 1
            await client.close()

    run(test())


def test_a_thousand_requests_over_few_connections_get_their_own_replies(run: Run) -> None:
    async def script(line: Line) -> None:
        while True:
            body = (await line.request()).rpartition(b"\r\n")[2]
            await line.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body))
            await asyncio.sleep(0)
            await line.send(b"0\r\n\r\n")

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=4)
            bodies = [b"%d" % number for number in range(1000)]
            assert await asyncio.gather(*(post(client, body) for body in bodies)) == bodies
            assert len(peer.lines) <= 4
            assert len(peer.requests) == 1000
            await client.close()

    run(test())


def test_who_waits_in_line_too_long_has_sent_nothing(run: Run) -> None:
    async def test() -> None:
        async with serving(silent) as peer:
            client = HttpClient(peer.url, most_connections=1)
            first = asyncio.create_task(post(client))
            while not peer.requests:
                await asyncio.sleep(0)
            with pytest.raises(Unsent, match=r"No connection to 127.0.0.1:\d+ became free in time"):
                await post(client, head_s=0.1)
            assert not client._pool._waiting
            waiting = [asyncio.create_task(post(client)) for _ in range(3)]
            await turns()
            waiting[0].cancel()
            waiting[2].cancel()
            peer.script = answering(OK)
            first.cancel()
            assert await waiting[1] == b"{}"
            assert len(peer.requests) == 2
            assert await post(client) == b"{}"
            await client.close()

    run(test())


def test_whoever_was_cancelled_just_now_is_passed_over(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url, most_connections=1)
            await client._pool.enter()
            waiting = [asyncio.create_task(post(client)) for _ in range(2)]
            await turns()
            waiting[0].cancel()
            client._pool.leave()
            assert await waiting[1] == b"{}"
            assert waiting[0].cancelled()
            assert client._pool.has_room
            await client.close()

    run(test())


def test_a_turn_that_came_together_with_a_cancellation_is_the_next_ones(run: Run) -> None:
    async def test() -> None:
        async with serving(silent) as peer:
            client = HttpClient(peer.url, most_connections=1)
            first, second, third = (asyncio.create_task(post(client)) for _ in range(3))
            while not peer.requests:
                await asyncio.sleep(0)
            peer.script = answering(OK)
            leave = client._pool.leave

            def leave_and_cancel() -> None:
                client._pool.leave = leave  # type: ignore[method-assign]
                leave()
                second.cancel()

            client._pool.leave = leave_and_cancel  # type: ignore[method-assign]
            first.cancel()
            assert await third == b"{}"
            assert second.cancelled()
            await client.close()

    run(test())


def test_a_turn_is_not_given_to_who_was_cancelled_a_moment_before(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.send(WHOLE_HEAD)
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=1)
            first = await get(client)
            second, third = (asyncio.create_task(get(client)) for _ in range(2))
            await turns()
            second.cancel()
            first.close()
            (await third).close()
            assert second.cancelled()
            assert len(peer.requests) == 2
            assert client._pool.has_room
            await client.close()

    run(test())


# --- connecting ----------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_named(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def test() -> None:
        client = HttpClient(f"http://127.0.0.1:{port}", most_connections=1)
        for _ in range(2):
            with pytest.raises(Unsent, match=rf"127\.0\.0\.1:{port} cannot be reached: Connection refused"):
                await post(client)
        await client.close()

    run(test())


def test_a_server_is_found_by_name_and_over_ipv6(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url.replace("127.0.0.1", "localhost"))
            assert await post(client) == b"{}"
            await client.close()
        async with serving(answering(OK), host="::1") as peer:
            client = HttpClient(peer.url)
            assert await post(client) == b"{}"
            assert b"host: [::1]:" in peer.requests[0]
            await client.close()

    run(test())


def test_a_connection_has_a_deadline(run: Run) -> None:
    async def script(line: Line) -> None:  # TLS is not its language
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            url = peer.url.replace("http:", "https:")
            for client, head_s in ((HttpClient(url, connect_s=0.1), 20.0), (HttpClient(url), 0.1)):
                with pytest.raises(Unsent, match=r"127.0.0.1:\d+ cannot be reached: no connection in time"):
                    await post(client, head_s=head_s)
                await client.close()
            await asyncio.wait(peer.tasks)

    run(test())


def test_cancelling_while_connecting_leaves_nothing(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url.replace("http:", "https:"), most_connections=1)
            sending = asyncio.create_task(post(client))
            while not peer.lines:
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await asyncio.wait(peer.tasks)
            assert client._pool.has_room
            await client.close()

    run(test())


def test_cancelling_at_any_moment_leaves_nothing(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            for count in range(25):
                client = HttpClient(peer.url, most_connections=1)
                sending = asyncio.create_task(post(client))
                await turns(count)
                sending.cancel()
                await asyncio.wait([sending])
                assert await post(client) == b"{}"
                await client.close()

    run(test())


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context, and the file of who vouches for it."""
    authority = signed(tmp_path, "authority", is_authority=True)
    server = signed(tmp_path, "server", authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert_file, server.key_file)
    return context, authority.cert_file


def test_tls(run: Run, certificate: tuple[ssl.SSLContext, Path]) -> None:
    async def script(line: Line) -> None:
        while True:
            body = (await line.request()).rpartition(b"\r\n")[2]
            await line.send(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)

    async def test() -> None:
        context, authority = certificate
        async with serving(script, tls=context) as peer:
            client = HttpClient(peer.url, tls=ssl.create_default_context(cafile=authority))
            for size in (1, 10, 5 * MB):
                assert await post(client, bytes(size), most=5 * MB) == bytes(size)
            assert len(peer.lines) == 1
            await client.close()

    run(test())


def test_a_connection_over_tls_that_was_closed_is_replaced(run: Run, certificate: tuple[ssl.SSLContext, Path]) -> None:
    async def test() -> None:
        context, authority = certificate
        async with serving(once(OK), tls=context) as peer:
            client = HttpClient(peer.url, tls=ssl.create_default_context(cafile=authority))
            for _ in range(3):
                assert await post(client) == b"{}"
                await asyncio.wait(peer.tasks)
            assert len(peer.requests) == 3
            await client.close()

    run(test())


def test_a_body_over_tls_makes_the_server_wait_and_ends_with_the_connection(
    run: Run, certificate: tuple[ssl.SSLContext, Path]
) -> None:
    size, piece, sent = 40 * MB, bytes(2**16), 0

    async def script(line: Line) -> None:
        nonlocal sent
        await line.request()
        await line.send(HEAD + b"\r\n")
        while sent < size:
            await line.send(piece)
            sent += len(piece)

    async def test() -> None:
        context, authority = certificate
        async with serving(script, tls=context) as peer:
            client = HttpClient(peer.url, tls=ssl.create_default_context(cafile=authority))
            got = await get(client)
            last = -1
            while sent != last:
                last = sent
                await asyncio.sleep(0.1)
            assert 0 < sent < size / 2
            assert sum([len(piece) async for piece in got.chunks()]) == size
            await client.close()

    run(test())


def test_a_server_that_nobody_vouches_for_is_sent_nothing(run: Run, certificate: tuple[ssl.SSLContext, Path]) -> None:
    async def test() -> None:
        context, _ = certificate
        async with serving(answering(OK), tls=context) as peer:
            client = HttpClient(peer.url)
            with pytest.raises(
                Unsent, match=r"The certificate of 127.0.0.1:\d+ is not trusted \(.*\); nothing was sent"
            ):
                await post(client)
            assert peer.requests == []
            await client.close()

    run(test())


def test_a_server_without_tls_is_sent_nothing_where_there_should_be_some(run: Run) -> None:
    async def script(line: Line) -> None:
        await line.send(b"HTTP/1.1 400 No\r\n\r\n")
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url.replace("http:", "https:"))
            with pytest.raises(Unsent, match=r"127.0.0.1:\d+ cannot be reached: .*SSL"):
                await post(client)
            await client.close()

    run(test())


def test_a_certificate_must_be_for_the_name_that_was_asked_for(
    run: Run, certificate: tuple[ssl.SSLContext, Path]
) -> None:
    names: list[str | None] = []

    async def test() -> None:
        context, authority = certificate
        context.sni_callback = lambda _, name, __: names.append(name)
        async with serving(answering(OK), tls=context) as peer:
            client = HttpClient(
                peer.url.replace("127.0.0.1", "localhost"), tls=ssl.create_default_context(cafile=authority)
            )
            with pytest.raises(Unsent, match=r"The certificate of localhost:\d+ is not trusted \(Hostname mismatch"):
                await post(client)
            assert (names, peer.requests) == (["localhost"], [])
            await client.close()

    run(test())


# --- closing -------------------------------------------------------------------------------------


def test_closing_ends_everything(run: Run) -> None:
    async def script(line: Line) -> None:
        request = await line.request()
        if b"/body" in request:
            await line.send(WHOLE_HEAD)
        await line.gone()

    async def test() -> None:
        async with serving(script) as peer:
            client = HttpClient(peer.url, most_connections=2)
            body = await get(client, "/body")
            reading = asyncio.create_task(body.read(MB))
            sending, waiting = asyncio.create_task(post(client)), asyncio.create_task(post(client))
            while len(peer.requests) < 2:
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises(MaybeSent, match="The client was closed without a reply from"):
                await sending
            with pytest.raises(BrokenReply, match="The client was closed in the middle of the reply from"):
                await reading
            for late in (waiting, post(client)):
                with pytest.raises(Unsent, match=r"The client of 127.0.0.1:\d+ was closed"):
                    await late
            await asyncio.wait(peer.tasks)
            await client.close()

    run(test())


def test_closing_while_connecting(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url)
            sending = asyncio.create_task(post(client))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(Unsent, match="was closed"):
                await sending
            assert peer.requests == []

    run(test())


def test_closing_closes_what_is_idle(run: Run) -> None:
    async def test() -> None:
        async with serving(answering(OK)) as peer:
            client = HttpClient(peer.url)
            replies = await asyncio.gather(*(get(client) for _ in range(3)))
            assert [await reply.read(MB) for reply in replies] == [b"{}"] * 3
            await client.close()
            await asyncio.wait(peer.tasks)

    run(test())


def test_a_connection_that_ended_before_anybody_had_it_is_not_waited_for(run: Run) -> None:
    async def test() -> None:
        pool = http_client._Pool(1)
        pool.add(http_client._Connection("127.0.0.1:1", pool))
        await pool.close()

    run(test())
