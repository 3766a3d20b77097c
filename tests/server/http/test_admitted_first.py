"""Who sent a request is asked before the request is read."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.serving import running
from tests.system.hardening.raw import Connection, connected, request
from toolyard.server.app.compose import Yard
from toolyard.server.http.turns import LARGE_BODY
from toolyard.server.settings.table import exactly

from ..asking import run
from ..scene import kit

KEY = "ty_0123456789abcdef0123"
LARGE = 3 * 2**20
ENVELOPED: dict[str, Any] = {"$schema": "otc://1.0", "request": {}}
ROUTES = ("/tools/call", "/otc/call", "/mcp", "/v1/sessions", "/v1/tools/claim", "/v1/admin/keys")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tools = str(Path(__file__).parents[1] / "limited.py")
    with running("open", tmp_path_factory.mktemp("first"), [tools], {"TOOLYARD_API_KEYS": f"a:{KEY}"}) as address:
        yield address


def serves(connection: Connection) -> None:
    body = json.dumps({"tool_id": "Kit.Echo", "input": {"value": "hi"}}).encode()
    connection.send(request("POST", "/tools/call", {"Authorization": f"Bearer {KEY}"}, body))
    assert connection.reply().json["value"] == "hi"


@pytest.mark.parametrize("path", ROUTES)
def test_a_stranger_is_refused_before_its_body_comes_and_the_connection_serves_on(server: str, path: str) -> None:
    announced = {"Content-Type": "application/json", "Content-Length": str(LARGE)}
    with connected(server) as connection:
        connection.send(request("POST", path, announced) + b'{"x": "')
        assert connection.reply().status == 401
        connection.send(b"x" * (LARGE - 9) + b'"}')
        serves(connection)


@pytest.mark.parametrize("path", ROUTES)
def test_a_body_in_chunks_is_not_waited_for_either(server: str, path: str) -> None:
    chunked = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    with connected(server) as connection:
        connection.send(request("POST", path, chunked) + b"1\r\n{\r\n")
        assert connection.reply().status == 401
        connection.send(b"10000\r\n" + b" " * 2**16 + b"\r\n" + b"1\r\n}\r\n0\r\n\r\n")
        serves(connection)


def test_a_stranger_is_not_asked_for_what_it_waits_to_send(server: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": "10", "Expect": "100-continue"}
    with connected(server) as connection:
        connection.send(request("POST", "/tools/call", headers))
        refused = connection.reply()
        assert (refused.status, refused.is_last) == (401, True)


def test_a_page_from_elsewhere_is_refused_before_its_body_comes(server: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": str(LARGE), "Origin": "https://evil.example"}
    with connected(server) as connection:
        connection.send(request("POST", "/tools/call", headers))
        assert connection.reply().status == 403


def test_a_refusal_is_in_the_words_of_a_body_that_comes_a_little_later(server: str) -> None:
    """As many clients send it: the head, and then the body."""
    body = json.dumps(ENVELOPED).encode()
    head = request("POST", "/call", body=body)[: -len(body)]
    with connected(server) as connection:
        connection.send(head)
        connection.send(body)
        later = connection.reply()
        connection.send(head + body)
        at_once = connection.reply()
    with connected(server) as connection:
        connection.send(request("POST", "/call", body=b"{}"))
        other = connection.reply()
    assert (later.status, later.headers, later.body) == (at_once.status, at_once.headers, at_once.body)
    assert other.headers != later.headers


# -- through any ASGI server -----------------------------------------------------------------------


class Received:
    """What a server hands over, and how often it was asked."""

    def __init__(self, *parts: bytes, is_whole: bool = False) -> None:
        self.parts, self.times, self._is_whole = list(parts), 0, is_whole

    async def __call__(self) -> dict[str, Any]:
        self.times += 1
        if not self.parts:
            await asyncio.Event().wait()
        part = self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self._is_whole}


def asked(path: str, received: Received) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def scenario() -> None:
        yard = Yard([kit], exactly(api_keys=[f"a:{KEY}"]))
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
        async with yard.lifetime():
            await yard.asgi(scope, received, send)

    run(scenario)
    return sent


@pytest.mark.parametrize("path", ["/mcp", "/v1/sessions", "/v1/admin/keys"])
def test_nothing_is_read_of_what_a_stranger_sends(path: str) -> None:
    received = Received()
    assert asked(path, received)[0]["status"] == 401
    assert received.times == 0


def test_where_words_depend_on_the_body_only_its_beginning_is_read() -> None:
    received = Received(*[b" " * 2**15] * 100)
    assert asked("/tools/call", received)[0]["status"] == 401
    assert received.times == 2


def test_where_the_body_never_comes_a_refusal_does() -> None:
    assert asked("/tools/call", Received())[0]["status"] == 401


def test_words_are_found_in_a_body_that_comes_in_pieces() -> None:
    body = json.dumps(ENVELOPED).encode()
    found = asked("/call", Received(body[:9], body[9:], is_whole=True))
    plain = asked("/call", Received(b"{}", is_whole=True))
    assert found[0]["headers"] != plain[0]["headers"]


# -- and again once it is there ----------------------------------------------------------------------

LATE: dict[str, Any] = {
    "/tools/call": {"tool_id": "Safe.Keep", "input": {"text": "hi"}, "call_id": "late"},
    "/v1/sessions": {"tools": []},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "Safe_Keep", "arguments": {}}},
}


async def said(yard: Yard, method: str, path: str, token: str, receive: Any) -> tuple[int, bytes]:
    """The status and body of a reply."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    await yard.asgi(scope, receive, send)
    return sent[0]["status"], sent[1].get("body", b"")


async def operated(yard: Yard, path: str, body: Any) -> Any:
    token = yard.operators_token.text
    status, reply = await said(yard, "POST", path, token, Received(json.dumps(body).encode(), is_whole=True))
    assert status in (200, 201), reply
    return json.loads(reply)


@pytest.mark.parametrize("path", LATE)
@pytest.mark.parametrize("more", [0, LARGE_BODY], ids=["small", "large"])
def test_who_lost_its_credentials_before_the_body_was_there_is_refused(path: str, more: int) -> None:
    body = json.dumps(LATE[path]).encode() + b" " * more

    async def scenario() -> None:
        yard = Yard([kit], exactly(api_keys=[f"a:{KEY}"]))
        async with yard.lifetime():
            for revoked in (False, True):
                made = await operated(yard, "/v1/admin/keys", {"name": f"b{revoked}", "tenant": "t", "subject": "b"})
                received = Received(body[:5], body[5:], is_whole=True)

                async def receive(received: Received = received, revoked: bool = revoked) -> dict[str, Any]:
                    if received.times == 1 and revoked:
                        await operated(yard, "/v1/admin/keys/bTrue/revoke", {})
                    return await received()

                status, _ = await said(yard, "POST", path, made["key"], receive)
                assert (status == 401) is revoked

    run(scenario)
