"""Bytes that are no HTTP, or HTTP that few clients would send."""

import json

import pytest

from toolyard.server.http.uvicorn_protocol import FREE_CHUNKS, LEAST_CHUNK, LONGEST_URL

from .raw import ask, assert_refused, assert_serves, call, connected, refusal, request

MAX_BODY_BYTES = 4 * 2**20
MAX_HEADER_BYTES = 64 * 2**10
GOOD = call("Kit.Echo", value="hi")
CHUNKED = request("POST", "/tools/call", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def value_of(body: bytes) -> object:
    return json.loads(body)["value"]


@pytest.mark.parametrize(
    "line",
    [
        b"GET",
        b"GET ",
        b"GET  HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET /health HTTP/9.9",
        b"GET /health HTTP/1.1 and more",
        b"GET /health FTP/1.1",
        b"GET health HTTP/1.1",
        b"GET ?health HTTP/1.1",
        b"GET /\x00 HTTP/1.1",
        "GET /größe HTTP/1.1".encode(),
        b"GET http:// HTTP/1.1",
        b"CONNECT example.com:80 HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 100,
        b"{}",
    ],
)
def test_a_broken_request_line_is_refused(server: str, line: bytes) -> None:
    refusal(server, line + b"\r\nHost: test\r\n\r\n", 400, 405)


@pytest.mark.parametrize(
    "header",
    [
        b"no colon",
        b": no name",
        b"space before : colon",
        b"Host: test\r\n folded",
        b"null: \x00",
        b"bare: carriage\rreturn",
        b"na(me: value",
        "größe: 1".encode(),
        b"Content-Length: -1",
        b"Content-Length: +2",
        b"Content-Length: 0x2",
        b"Content-Length: two",
        b"Content-Length: 2\r\nContent-Length: 2",
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: 2, 2",
        b"Content-Length: " + b"9" * 30,
        b"Content-Length: " + b"9" * 5000,
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: chunked, gzip",
    ],
)
def test_a_broken_header_is_refused(server: str, header: bytes) -> None:
    refusal(server, b"POST /tools/call HTTP/1.1\r\n" + header + b"\r\n\r\n{}", 400)


def test_line_feeds_alone_do_not_end_lines(server: str) -> None:
    refusal(server, b"GET /health HTTP/1.1\nHost: test\n\n", 400)


@pytest.mark.parametrize("method", ["FOO", "get", "G€T".encode().decode("latin-1"), "POSTPOST"])
def test_a_method_nobody_knows_is_405_with_allow(server: str, method: str) -> None:
    reply = refusal(server, request(method), 405)
    assert reply.headers["allow"] == "DELETE, GET, HEAD, POST, PUT"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PURGE", "PROPFIND", "POST"])
def test_a_method_that_is_not_for_this_path_is_405_with_allow(server: str, method: str) -> None:
    reply = refusal(server, request(method, "/tools"), 405)
    assert reply.headers["allow"] == "GET, HEAD"
    assert not reply.is_last


@pytest.mark.parametrize("path", [
    "//health", "/health/", "/Health", "/tools//call", "/%2e%2e/health", "/%00", "/%ff",
    "/v1%2fcalls", "/v1%2Fcalls", "/v1/calls/..", "/v1/calls/%2e%2e", "/v1/calls/%2E", "/v1/x/../calls", "/v1//calls",
    "/he%61lth", "/%68ealth?x=%00", "/v1/c%61lls/x",
])  # fmt: skip
def test_a_path_that_is_not_served_is_404(server: str, path: str) -> None:
    reply = refusal(server, request(path=path), 404)
    assert not reply.is_last


@pytest.mark.parametrize("path", ["http://elsewhere/health", "/health#part"])
def test_an_address_may_be_written_in_other_ways(server: str, path: str) -> None:
    """Its path may not: whoever has rules by path before this server reads what was sent."""
    assert ask(server, request(path=path)).json == {"status": "ok"}


@pytest.mark.parametrize("header", ["Host: localhost", "host: evil.example", "Origin: http://localhost"])
def test_a_header_that_says_who_or_where_is_there_once(server: str, header: str) -> None:
    """Whoever stood before this server may have gone by the other one."""
    head, _, rest = request(headers={"Origin": "http://localhost"}).partition(b"\r\n")
    reply = refusal(server, head + b"\r\n" + header.encode() + b"\r\n" + rest, 400)
    assert header.partition(":")[0].lower() in reply.json["developer_message"]


@pytest.mark.parametrize("path", ["/ä", "/%C3%A4%F0%9F%99%82", "/%ED%A0%80", "/%zz"])
def test_a_path_beyond_ascii_is_refused(server: str, path: str) -> None:
    refusal(server, request(path=path), 400, 404)


@pytest.mark.parametrize(
    "data",
    [
        request(headers={"X-Large": "x" * MAX_HEADER_BYTES}),
        request(headers={f"X-{number}": "x" * 100 for number in range(1000)}),
        request(headers={f"X-{number}": "" for number in range(300)}),
        request(headers={"X-Huge": "x" * 50 * MAX_HEADER_BYTES}),
        request("POST", "/tools/call", {"X-Large": "x" * MAX_HEADER_BYTES}, b"{}"),
    ],
    ids=["one line", "many lines", "many short lines", "far too large", "with a body"],
)
def test_a_header_that_is_too_large_is_431(server: str, data: bytes) -> None:
    refusal(server, data, 431)


@pytest.mark.parametrize("start", ["/", "/health?"])
def test_an_address_that_is_too_long_is_414(server: str, start: str) -> None:
    for length in (LONGEST_URL + 1, MAX_HEADER_BYTES - 1000, MAX_HEADER_BYTES):
        refusal(server, request(path=start.ljust(length, "x")), 414)
    assert ask(server, request(path="/health?".ljust(LONGEST_URL, "x"))).status == 200


def test_parameters_that_are_too_many_are_refused_before_anybody_is_let_in(server: str) -> None:
    refusal(server, request(path="/tools?" + "%=%&" * 1000), 400, 422)


def test_a_large_body_does_not_count_as_header(server: str) -> None:
    text = "x" * 4 * MAX_HEADER_BYTES
    with connected(server) as connection:
        connection.send(call("Kit.Echo", value=text) * 2)
        assert [connection.reply().json["value"] for _ in range(2)] == [text, text]


def test_trailers_that_are_too_large_are_431(server: str) -> None:
    refusal(server, CHUNKED + b"2\r\n{}\r\n0\r\nX: " + b"x" * 20 * MAX_HEADER_BYTES, 431)


def test_trailers_are_not_taken_for_headers(server: str) -> None:
    body = GOOD.partition(b"\r\n\r\n")[2]
    data = CHUNKED + chunks(body)[:-2] + b"Content-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n"
    assert value_of(ask(server, data).body) == "hi"


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "nonsense"])
def test_an_upgrade_is_not_made_and_the_request_is_answered(server: str, protocol: str) -> None:
    with connected(server) as connection:
        connection.send(request(headers={"Connection": "Upgrade", "Upgrade": protocol}) + GOOD)
        reply = connection.reply()
        assert (reply.status, reply.is_last) == (200, True)
        assert connection.wait_until_closed() == b""
    assert_serves(server)


def test_a_call_in_chunks_is_a_call(server: str) -> None:
    body = GOOD.partition(b"\r\n\r\n")[2]
    with connected(server) as connection:
        connection.send(CHUNKED + chunks(body[:3], body[3:4], body[4:]))
        assert value_of(connection.reply().body) == "hi"
        assert_serves(server, connection)


@pytest.mark.parametrize(
    "body", [b"zz\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n", b"1\r\n{}\r\n0\r\n\r\n", b"f" * 30 + b"\r\n{}"]
)
def test_broken_chunks_are_refused(server: str, body: bytes) -> None:
    refusal(server, CHUNKED + body, 400)


def test_a_body_in_many_chunks_that_are_too_small_is_refused(server: str) -> None:
    body = GOOD.partition(b"\r\n\r\n")[2]
    padded = body.replace(b"hi", b"h" * 3 * FREE_CHUNKS)
    refusal(server, CHUNKED + chunks(*(padded[at : at + 1] for at in range(len(padded)))), 400)
    few = [padded[at : at + 4] for at in range(0, len(padded), 4)]
    assert len(few) < FREE_CHUNKS
    assert value_of(ask(server, CHUNKED + chunks(*few)).body) == "h" * 3 * FREE_CHUNKS
    large = body.replace(b"hi", b"h" * 2000 * LEAST_CHUNK)
    many = [large[at : at + LEAST_CHUNK] for at in range(0, len(large), LEAST_CHUNK)]
    assert len(many) > FREE_CHUNKS
    assert ask(server, CHUNKED + chunks(*many)).status == 200


@pytest.mark.parametrize("start", [b"2;a=", b"0", b"1\r\n{\r\n0"], ids=["extension", "zeros", "zeros after a chunk"])
def test_a_chunks_first_line_that_has_no_end_is_refused(server: str, start: bytes) -> None:
    refusal(server, CHUNKED + start + b"0" * 3 * MAX_HEADER_BYTES, 400, 431)


def test_broken_chunks_after_the_answer_end_the_connection(server: str) -> None:
    with connected(server) as connection:
        connection.send(CHUNKED.replace(b"/tools/call", b"/nothing"))
        assert_refused(connection.reply(), 404)
        connection.send(b"zz\r\n")
        assert connection.wait_until_closed() == b""
    assert_serves(server)


def test_a_body_is_asked_for_when_the_client_waits_for_that(server: str) -> None:
    head, _, body = GOOD.partition(b"\r\n\r\n")
    with connected(server) as connection:
        connection.send(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert connection.reply().status == 100
        connection.send(body)
        assert value_of(connection.reply().body) == "hi"
        assert_serves(server, connection)


@pytest.mark.parametrize(
    ("path", "length", "status"), [("/tools/call", MAX_BODY_BYTES + 1, 413), ("/nothing", 10, 404), ("/tools", 10, 405)]
)
def test_a_body_that_is_not_wanted_is_not_asked_for(server: str, path: str, length: int, status: int) -> None:
    headers = {"Expect": "100-continue", "Content-Length": str(length), "Content-Type": "application/json"}
    reply = refusal(server, request("POST", path, headers), status)
    assert reply.is_last


def test_requests_may_come_before_the_answers(server: str) -> None:
    with connected(server) as connection:
        connection.send(b"".join(call("Kit.Echo", value=number) for number in range(50)))
        assert [connection.reply().json["value"] for _ in range(50)] == list(range(50))


@pytest.mark.parametrize("garbage", [b"\x00\x01", b"FOO / HTTP/1.1\r\n\r\n", b"GET /\x00", b"X" * 2 * MAX_HEADER_BYTES])
def test_garbage_after_a_call_does_not_cost_its_answer(server: str, garbage: bytes) -> None:
    with connected(server) as connection:
        connection.send(GOOD + GOOD + garbage)
        assert [value_of(connection.reply().body) for _ in range(2)] == ["hi", "hi"]
        assert connection.wait_until_closed() == b""
    assert_serves(server)


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("/tools", 200), ("/tools/call", 405), ("/nothing", 404)]
)
def test_head_has_the_headers_and_no_body(server: str, path: str, status: int) -> None:
    with connected(server) as connection:
        connection.send(request("HEAD", path))
        reply = connection.reply(with_body=False)
        assert reply.status == status
        assert int(reply.headers["content-length"]) > 0
        assert_serves(server, connection)


@pytest.mark.parametrize("path", ["/tools/call", "/call", "/otc/tools/call", "/otc/draft/call"])
def test_a_body_of_a_length_that_is_too_large_is_413(server: str, path: str) -> None:
    headers = {"Content-Length": str(MAX_BODY_BYTES + 1), "Content-Type": "application/json"}
    with connected(server) as connection:
        connection.send(request("POST", path, headers))
        assert_refused(connection.reply(), 413)
        connection.send(b"x" * (MAX_BODY_BYTES + 1))
        assert_serves(server, connection)


def test_chunks_that_never_end_are_413_as_soon_as_they_are_too_large(server: str) -> None:
    with connected(server) as connection:
        connection.send(CHUNKED + chunks(*[b"x" * 2**16] * (MAX_BODY_BYTES // 2**16 + 2)).removesuffix(b"0\r\n\r\n"))
        assert_refused(connection.reply(), 413)
    assert_serves(server)


@pytest.mark.parametrize("size", [2**16, 2 * MAX_BODY_BYTES])
def test_chunks_that_are_too_large_together_are_413(server: str, size: int) -> None:
    parts = [b"x" * size] * (2 * MAX_BODY_BYTES // size)
    with connected(server) as connection:
        connection.send(CHUNKED + chunks(*parts))
        assert_refused(connection.reply(), 413)
        assert_serves(server, connection)


def test_a_body_of_just_the_right_size_is_taken(server: str) -> None:
    empty = json.dumps({"tool_id": "Kit.Echo", "input": {"value": ""}})
    text = "x" * (MAX_BODY_BYTES - len(empty))
    assert ask(server, call("Kit.Echo", value=text)).json["value"] == text


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "application/jsonp",
        "application/xml",
        "json",
        ";",
        "application/json, text/plain",
        "\xff",
    ],
)
@pytest.mark.parametrize("path", ["/tools/call", "/otc/draft/call"])
def test_another_content_type_is_415(server: str, path: str, kind: str) -> None:
    reply = refusal(server, request("POST", path, {"Content-Type": kind}, b"{}"), 415)
    assert not reply.is_last


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=utf-8",
        'Application/JSON;charset="UTF-8"',
        "application/vnd.x+json",
        "application/json ",
    ],
)
def test_json_may_be_called_by_other_names(server: str, kind: str) -> None:
    body = GOOD.partition(b"\r\n\r\n")[2]
    assert value_of(ask(server, request("POST", "/tools/call", {"Content-Type": kind}, body)).body) == "hi"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "nonsense"])
def test_a_compressed_body_is_415(server: str, encoding: str) -> None:
    refusal(server, request("POST", "/tools/call", {"Content-Encoding": encoding}, b"\x1f\x8b\x08\x00"), 415)


def test_the_kind_of_no_body_does_not_matter(server: str) -> None:
    assert ask(server, request(path="/tools", headers={"Content-Type": "text/plain"})).status == 200


def test_a_client_that_leaves_in_the_middle_is_forgotten(server: str) -> None:
    for data in (b"GET /hea", GOOD[:-5], CHUNKED + b"5\r\n", b"", GOOD):
        with connected(server) as connection:
            connection.send(data)
    assert_serves(server)
