"""Versions, sessions, and what a client of each era is answered before any tool is called."""

import http.client
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conformance.serving import environment, running
from toolyard.version import VERSION

from .conftest import Connect
from .schemas import MODERN, OLDER, REVISIONS
from .serving import ALICE, BOB, Server
from .talking import PREFIX, Client, Newer, Older, connect, text_of


@pytest.mark.parametrize("revision", OLDER)
def test_the_revision_that_is_asked_for_is_agreed_on(client: Connect, revision: str) -> None:
    agreed = client(revision).initialized  # type: ignore[attr-defined]
    assert agreed["protocolVersion"] == revision
    assert agreed["capabilities"]["tools"] == {"listChanged": True}
    assert ("tasks" in agreed["capabilities"]) == (revision == "2025-11-25")
    assert agreed["serverInfo"]["name"] == "toolyard"


@pytest.mark.parametrize("asked", ["1999-01-01", MODERN, "2999-12-31", ""])
def test_an_unknown_revision_is_answered_with_the_newest_that_has_a_handshake(server: Server, asked: str) -> None:
    client = Older(server.url, "2025-11-25")
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    assert client.request("initialize", params).result()["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    "params",
    [{}, {"protocolVersion": 7, "capabilities": {}, "clientInfo": {}}, {"protocolVersion": "2025-11-25"}],
)
def test_a_handshake_without_what_it_needs_is_refused(server: Server, params: dict[str, Any]) -> None:
    assert Older(server.url, "2025-11-25").request("initialize", params).error()["code"] == -32602


def test_the_server_tells_who_it_is_and_what_it_can(client: Connect) -> None:
    found = client(MODERN).result("server/discover")
    assert found["supportedVersions"] == [MODERN, *reversed(OLDER)]
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert PREFIX + "tasks" in found["capabilities"]["extensions"]
    assert found["_meta"][PREFIX + "serverInfo"]["name"] == "toolyard"


@pytest.mark.parametrize("revision", OLDER)
def test_a_ping_is_answered(client: Connect, revision: str) -> None:
    assert client(revision).result("ping") == {}


def test_the_newer_era_has_no_ping_and_no_handshake(client: Connect) -> None:
    newer = client(MODERN)
    for method in ("ping", "initialize", "tasks/list", "tasks/result", "logging/setLevel", "no/such"):
        exchange = newer.request(method, {"taskId": "x", "level": "info"})
        assert (exchange.status, exchange.error()["code"]) == (404, -32601), method


@pytest.mark.parametrize("revision", OLDER)
def test_an_unknown_method_of_the_older_era_is_an_error_with_status_200(client: Connect, revision: str) -> None:
    for method in ("no/such", "server/discover", "subscriptions/listen"):
        exchange = client(revision).request(method)
        assert (exchange.status, exchange.error()["code"]) == (200, -32601), method


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_revisions_without_tasks_do_not_know_their_methods(client: Connect, revision: str) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
        assert client(revision).request(method, {"taskId": "x"}).error()["code"] == -32601, method


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_notification_is_accepted_and_not_answered(client: Connect, revision: str) -> None:
    for method in ("notifications/initialized", "notifications/roots/list_changed", "notifications/no/such"):
        exchange = client(revision).notify(method)
        assert (exchange.status, exchange.body()) == (202, b""), method


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_address_with_a_slash_is_the_same(server: Server, revision: str) -> None:
    client = connect(server.url + "/", revision)
    exchange = client.request("tools/list")
    assert exchange.status == 200
    assert exchange.result()["tools"]


# --- sessions ------------------------------------------------------------------------------------


def test_a_session_that_never_was_is_not_found(server: Server) -> None:
    for session in ("x", "x.y", "0" * 32 + "." + "A" * 16, "é"):
        exchange = Older(server.url, "2025-11-25", session=session).request("tools/list")
        assert (exchange.status, exchange.error()["code"]) == (404, -32600), session


def test_a_session_that_was_ended_is_not_found(server: Server) -> None:
    older = Older(server.url, "2025-11-25").initialize()
    assert older.result("ping") == {}
    assert older.delete().status == 204
    assert older.request("ping").status == 404
    assert older.delete().status == 404
    assert older.get().status == 404


def test_a_session_is_its_callers_alone(keyed: Server) -> None:
    alice = Older(keyed.url, "2025-11-25", ALICE).initialize()
    thief = Older(keyed.url, "2025-11-25", BOB, session=alice.session)
    assert thief.request("ping").status == 404
    assert thief.delete().status == 404
    assert alice.result("ping") == {}


def test_who_has_no_key_is_refused_as_json_rpc(keyed: Server) -> None:
    for client in (Newer(keyed.url), Older(keyed.url, "2025-11-25", "ty_nobody_0123456789")):
        exchange = client.request("tools/list")
        assert exchange.status == 401
        assert exchange.error()["code"] == -32600


def test_the_older_era_can_do_without_a_session(server: Server) -> None:
    """Then it has the revision that its header names, or else the oldest."""
    wire = Older(server.url, "2025-06-18")
    shown = {tool["name"]: tool for tool in wire.request("tools/list").result()["tools"]}
    assert "title" not in shown["greet"]
    wire.initialized = True
    shown = {tool["name"]: tool for tool in wire.request("tools/list").result()["tools"]}
    assert shown["greet"]["title"] == "Greeter"
    assert wire.call("greet", {"name": "Ada"}).result()["structuredContent"] == {"result": "Hello, Ada!"}


def test_a_stream_needs_a_session_and_the_newer_era_has_neither_get_nor_delete(server: Server) -> None:
    for method in ("GET", "DELETE"):
        assert Newer(server.url).wire.send(method, None, {"mcp-protocol-version": MODERN}).status == 405
        assert Older(server.url, "2025-11-25").wire.send(method, None, {}).status == 405


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_empty_session_is_none(server: Server, method: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=15)
    connection.request(method, "/mcp", headers={"mcp-session-id": "", "accept": "text/event-stream"})
    assert connection.getresponse().status == 405
    connection.close()


def test_other_methods_are_not_allowed(server: Server) -> None:
    exchange = Newer(server.url).wire.send("PUT", b"{}", {})
    assert exchange.status == 405


# --- the newer era's requests say who sends them --------------------------------------------------


def test_a_revision_that_nobody_knows_is_refused_with_those_that_are_known(server: Server) -> None:
    exchange = Newer(server.url, "2031-01-01").request("tools/list")
    error = exchange.error()
    assert (exchange.status, error["code"]) == (400, -32022)
    assert error["data"] == {"supported": [MODERN, *reversed(OLDER)], "requested": "2031-01-01"}


@pytest.mark.parametrize("member", ["protocolVersion", "clientCapabilities"])
def test_a_request_without_what_it_must_say_is_refused(client: Connect, member: str) -> None:
    newer = client(MODERN)
    sent = newer.made("tools/list", {})
    del sent["params"]["_meta"][PREFIX + member]
    exchange = newer.post(sent)
    assert (exchange.status, exchange.error()["code"]) == (400, -32602)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mcp-protocol-version", ""), ("mcp-protocol-version", "2025-11-25x"),
        ("mcp-protocol-version", "2025-11-25"), ("mcp-method", ""),
        ("mcp-method", "tools/list"), ("mcp-name", ""), ("mcp-name", "Kit_Add"), ("mcp-name", "=?base64?!?="),
    ],
)  # fmt: skip
def test_headers_that_do_not_repeat_the_body_are_refused(client: Connect, header: str, value: str) -> None:
    newer = client(MODERN)
    sent = newer.made("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
    exchange = newer.post(sent, **{header: value})
    assert (exchange.status, exchange.error()["code"]) == (400, -32020)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-03-26"])
def test_a_request_of_the_older_era_may_speak_of_the_newer(client: Connect, version: str) -> None:
    """In its arguments, and even in its `_meta` as long as that says the same as the header."""
    older = client(version)
    for meta in ({}, {PREFIX + "protocolVersion": version}):
        sent = {"text": PREFIX + "protocolVersion 2026-07-28"}
        assert text_of(older.call("Kit_Noisy", sent, meta=meta).result()) == sent["text"]


def test_a_name_in_base64_is_the_same_name(client: Connect) -> None:
    newer = client(MODERN)
    sent = newer.made("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
    assert newer.post(sent, mcp_name="=?base64?Z3JlZXQ=?=").result()["structuredContent"] == "Hello, Ada!"


def test_the_newer_era_has_no_responses_from_clients(client: Connect) -> None:
    exchange = client(MODERN).post({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert (exchange.status, exchange.error()["code"]) == (400, -32600)


# --- safety --------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_another_host_is_misdirected_and_another_origin_forbidden(client: Connect, revision: str, method: str) -> None:
    wire = client(revision).wire
    exchange = wire.send(method, b"{}", {"host": "evil.example:8000"})
    assert exchange.status == 421
    assert "evil.example" in exchange.error()["message"]
    for origin in ("https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1@evil.example"):
        exchange = wire.send(method, b"{}", {"origin": origin})
        assert exchange.status == 403, origin
        assert "cors_origins" in exchange.error()["message"]


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:9"])
def test_a_page_of_this_machine_may_use_the_server(server: Server, origin: str) -> None:
    client = Newer(server.url)
    client.wire.headers["origin"] = origin
    assert client.request("tools/list").status == 200


def test_names_of_the_server_can_be_added(start: Any) -> None:
    server = start(allowed_hosts="tools.example,https://app.example")
    client = Newer(server.url)
    client.wire.headers.update({"host": "tools.example:443", "origin": "https://app.example"})
    assert client.request("tools/list").status == 200


def test_the_hosts_of_other_addresses_are_not_looked_at_twice(server: Server) -> None:
    """A request without any host, as only HTTP/1.0 has it, is no browser's; it is misdirected all the same."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/mcp", skip_host=True)
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "2")
    connection.endheaders(b"{}")
    assert connection.getresponse().status in (400, 421)
    connection.close()


def test_a_client_has_what_its_session_says_whatever_its_header_says(server: Server) -> None:
    older: Client = Older(server.url, "2025-06-18").initialize()
    sent = older.made("tools/list", {})
    shown = {tool["name"]: tool for tool in older.post(sent, mcp_protocol_version="2025-11-25").result()["tools"]}
    assert "execution" not in shown["greet"]


# --- what a server is called ---------------------------------------------------------------------

NAMED = {"TOOLYARD_NAME": "acme-tools", "TOOLYARD_TITLE": "Acme's tools", "TOOLYARD_INSTRUCTIONS": "Ask before paying."}


def test_a_server_says_its_own_name_and_what_models_should_know(tmp_path: Path) -> None:
    """In the handshake, in what is discovered, on every result, on its page and in its OpenAPI document."""
    info = {"name": "acme-tools", "title": "Acme's tools", "version": VERSION}
    with running("open", tmp_path, settings=NAMED) as address:
        older: Any = connect(f"{address}/mcp", "2025-11-25")
        assert (older.initialized["serverInfo"], older.initialized["instructions"]) == (info, "Ask before paying.")
        newer = connect(f"{address}/mcp", MODERN)
        found = newer.result("server/discover")
        assert found["instructions"] == "Ask before paying."
        sum_of = {"name": "Calculator_Add", "arguments": {"a": 1, "b": 2}}
        failed = newer.result("tools/call", {"name": "Calculator_Add", "arguments": {"a": "x"}})
        assert failed["isError"]
        for result in (found, newer.result("tools/list"), newer.result("tools/call", sum_of), failed):
            assert result["_meta"][PREFIX + "serverInfo"] == info
        front = urllib.request.urlopen(address, timeout=30).read().decode()
        assert f"{address}/mcp" in front
        assert "<h1>Acme&#x27;s tools</h1>" in front
        document = json.load(urllib.request.urlopen(f"{address}/openapi.json", timeout=30))
        assert document["info"]["title"] == "Acme's tools"
        assert set(document["paths"]["/mcp"]) == {"post", "get", "delete"}


def test_over_pipes_it_is_called_so_too(tmp_path: Path) -> None:
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin})
    variables = environment("open") | NAMED | {"TOOLYARD_STORE": "sqlite::memory:"}
    command = [sys.executable, "-m", "toolyard", "stdio", "toolyard.reference"]
    ended = warm.run(command, input=line + "\n", timeout=30, cwd=tmp_path, env=variables)
    result = json.loads(ended.stdout)["result"]
    assert (result["serverInfo"]["title"], result["instructions"]) == ("Acme's tools", "Ask before paying.")
