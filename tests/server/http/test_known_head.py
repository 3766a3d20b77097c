"""A head that a connection has had before is not parsed again, and nobody can tell: the same requests arrive."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.server.http import uvicorn_protocol
from toolyard.server.http.known_head import KnownHead, known_head
from toolyard.server.http.uvicorn_protocol import Cycle

from .connection import connection

HEAD = b"POST /tools/call HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\nX-Last: 1\r\n\r\n"
SCOPE: dict[str, Any] = {
    "path": "/tools/call",
    "headers": [(b"host", b"a"), (b"content-length", b"2"), (b"x-last", b"1")],
}


def known() -> KnownHead:
    head = known_head(HEAD % b"2" + b"{}", SCOPE, keep_alive=True)
    assert head is not None
    return head


@pytest.mark.parametrize("body", [b"", b"{}", b"{}  ", b"x" * 1000, b"\r\n\r\n", HEAD % b"0"])
def test_another_body_has_the_same_head(body: bytes) -> None:
    assert known().body_in(HEAD % str(len(body)).encode() + body) == body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD % b"2",
        HEAD % b"2" + b"{",
        HEAD % b"2" + b"{} ",
        HEAD % b"2" + b"{}" + HEAD % b"0",
        HEAD % b"" + b"",
        HEAD % b"+2" + b"{}",
        HEAD % b"-0" + b"",
        HEAD % b"0_2" + b"{}",
        HEAD % b" 2" + b"{}",
        HEAD % b"2 " + b"{}",
        HEAD % b"2, 2" + b"{}",
        HEAD % b"0000000000000002" + b"{}",
        HEAD % (b"2" * 5000) + b"{}",
        (HEAD % b"2").replace(b"Host: a", b"Host: b") + b"{}",
        (HEAD % b"2").replace(b"X-Last: 1", b"X-Last: 2") + b"{}",
        (HEAD % b"2").replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n") + b"{}",
        (HEAD % b"2").replace(b"Content", b"content") + b"{}",
    ],
)
def test_anything_else_is_for_the_parser(data: bytes) -> None:
    assert known().body_in(data) is None


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (HEAD % b"2" + b"{", ()),
        (HEAD % b"2" + b"{}" + HEAD % b"0", ()),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ()),
        (HEAD % b"2" + b"{}", [(b"expect", b"100-continue")]),
        (HEAD % b"2" + b"{}", [(b"upgrade", b"h2c")]),
        (HEAD % b"2" + b"{}", [(b"transfer-encoding", b"chunked")]),
        (b"POST / HTTP/1.1\r\nHost: " + b"a" * 5000 + b"\r\nContent-Length: 0\r\n\r\n", ()),
        (b"\r\n\r\n" + HEAD % b"2" + b"{}", ()),
    ],
)
def test_a_head_whose_end_is_not_sure_is_not_kept(data: bytes, more: Any) -> None:
    assert known_head(data, {**SCOPE, "headers": [*SCOPE["headers"], *more]}, keep_alive=True) is None


def test_what_is_kept_says_nothing_of_a_length() -> None:
    assert known().scope == {"path": "/tools/call", "headers": [(b"host", b"a"), (b"x-last", b"1")]}


# -- the whole protocol, with and without ------------------------------------------------------------

HEADERS = [
    b"Host: a\r\n",
    b"Authorization: Bearer one\r\n",
    b"Authorization: Bearer two\r\n",
    b"X-Empty:\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
]
BODIES = [b"", b"{}", b'{"a":1}', b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", b"\r\n\r\n"]
LENGTHS = [b"Content-Length: %d\r\n", b"content-length:%d\r\n", b"CONTENT-LENGTH: 0%d \r\n"]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(st.sampled_from(HEADERS), max_size=3))
    body = draw(st.sampled_from(BODIES))
    if draw(st.integers(0, 5)):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(LENGTHS)) % len(body))
    else:
        lines.append(b"Transfer-Encoding: chunked\r\n")
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    line = draw(st.sampled_from([b"POST /tools/call", b"POST /mcp?a=1", b"GET /tools"]))
    return line + b" HTTP/1.1\r\n" + b"".join(lines) + b"\r\n" + body


async def arrived(pieces: list[bytes], *, hurried: bool = False) -> tuple[list[Any], bytes, bool]:
    """The requests that a protocol makes of what comes, what it writes, and whether it closes. `hurried`: nothing is
    answered before the next piece comes."""
    seen: list[Any] = []
    slowness = iter(range(6, -1, -1))  # a later one would overtake, if it could

    async def answer(cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
        while cycle.more_body and not cycle.disconnected:
            await asyncio.sleep(0)
        for _ in range(next(slowness) if hurried else 0):
            await asyncio.sleep(0)
        headers = [(name, value) for name, value in cycle.scope["headers"] if name != b"content-length"]
        seen.append((cycle.scope["method"], cycle.scope["path"], headers, bytes(cycle.body), cycle.keep_alive))
        cycle.transport.write(b"%d" % len(seen))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        tasks.discard(cycle.task)

    protocol, line = connection(answer)
    for piece in pieces:
        if not line.is_closing():
            protocol.data_received(piece)
        for _ in range(0 if hurried else 4):
            await asyncio.sleep(0)
    for _ in range(40):
        await asyncio.sleep(0)
    protocol.connection_lost(None)
    for _ in range(4):
        await asyncio.sleep(0)
    return seen, line.written, line.is_closing()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_same_requests_arrive_as_without(data: st.DataObject) -> None:
    few = data.draw(st.lists(requests(), min_size=1, max_size=3))
    sent = b"".join(whole := data.draw(st.lists(st.sampled_from(few), min_size=1, max_size=6)))
    if data.draw(st.booleans()):
        pieces = whole
    else:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=5)))
        pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True) if a < b]
    hurried = data.draw(st.booleans())
    with_known = asyncio.run(arrived(pieces, hurried=hurried))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn_protocol, "known_head", lambda *args: None)
        without = asyncio.run(arrived(pieces, hurried=hurried))
    assert with_known == without


def test_a_body_is_never_taken_for_a_head() -> None:
    """It may come by itself, and be written so that it looks like another request's."""
    own = b"POST /tools/call HTTP/1.1\r\nAuthorization: Bearer mine\r\nContent-Length: %d\r\n\r\n"
    looks_like = b"POST /tools/call HTTP/1.1\r\nAuthorization: Bearer theirs\r\nContent-Length: 2\r\n\r\n{}"
    seen, *_ = asyncio.run(arrived([own % len(looks_like), looks_like, looks_like]))
    assert [headers for _, _, headers, _, _ in seen] == [
        [(b"authorization", b"Bearer mine")],
        [(b"authorization", b"Bearer theirs")],
    ]


def test_a_repeated_head_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    complete = uvicorn_protocol.PoliteProtocol.on_headers_complete

    def counted(self: Any) -> None:
        parsed.append(self.url)
        complete(self)

    monkeypatch.setattr(uvicorn_protocol.PoliteProtocol, "on_headers_complete", counted)
    bodies = [b"{}", b"{}", b'{"a":1}']
    seen, *_ = asyncio.run(arrived([HEAD % str(len(body)).encode() + body for body in bodies]))
    assert [body for *_, body, _ in seen] == bodies
    assert len(parsed) == 1
