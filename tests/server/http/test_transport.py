"""Names, pages, certificates: what a server answers to, and what it says to browsers."""

import asyncio
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from toolyard.model.errors import ForeignPage
from toolyard.server.app.compose import Listening, Yard
from toolyard.server.http.origins import Guard
from toolyard.server.http.routes import Route
from toolyard.wires.lifecycle.calls import LIFECYCLE

from ... import warm
from ...conformance.serving import command, environment, stop
from ..certificates import signed
from ..scene import Scene, kit, settings

PAGE = b"https://app.example.com"


def run(scene: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def play() -> None:
        yard = Yard([kit], settings(**more), listening=Listening("http://localhost"))
        async with Scene(yard) as made:
            await scene(made)

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/tools", "/otc/draft/tools", "/v1/calls", "/health", "/", "/metrics"])
def test_another_name_is_refused_on_every_wire(path: str) -> None:
    async def scene(made: Scene) -> None:
        reply = await made.send("owner", "GET", path, None, {b"host": b"evil.example"})
        assert reply.status == 421
        assert b"add it to allowed_hosts" in reply.body

    run(scene)


def test_a_name_can_be_added() -> None:
    async def scene(made: Scene) -> None:
        assert (await made.send("owner", "GET", "/tools", None, {b"host": b"yard.example:8000"})).status == 200

    run(scene, allowed_hosts=["yard.example"])


def test_a_page_of_another_origin_is_refused_and_gets_no_leave() -> None:
    async def scene(made: Scene) -> None:
        reply = await made.send("owner", "GET", "/tools", None, {b"origin": PAGE})
        assert reply.status == 403
        assert b"add it to cors_origins" in reply.body
        assert not [name for name, _ in reply.headers if name.startswith(b"access-control")]
        asked = {b"origin": PAGE, b"access-control-request-method": b"POST"}
        assert (await made.send("anonymous", "OPTIONS", "/tools/call", None, asked)).status == 405

    run(scene)


def test_a_page_that_is_named_may_call() -> None:
    async def scene(made: Scene) -> None:
        asked = {
            b"origin": PAGE,
            b"access-control-request-method": b"POST",
            b"access-control-request-headers": b"authorization, content-type",
        }
        before = await made.send("anonymous", "OPTIONS", "/tools/call", None, asked)
        said = dict(before.headers)
        assert before.status == 204
        assert said[b"access-control-allow-origin"] == PAGE
        assert said[b"access-control-allow-headers"] == b"authorization, content-type"
        assert b"POST" in said[b"access-control-allow-methods"]
        for role, status in (("owner", 200), ("anonymous", 401)):
            reply = await made.send(role, "GET", "/tools", None, {b"origin": PAGE})
            assert reply.status == status
            assert dict(reply.headers)[b"access-control-allow-origin"] == PAGE
            assert b"access-control-allow-credentials" not in dict(reply.headers)
        other = await made.send("owner", "GET", "/tools", None, {b"origin": b"https://evil.example"})
        assert other.status == 403

    run(scene, cors_origins=[PAGE.decode()])


@pytest.mark.parametrize("headers", [[(b"authorization", b"Bearer a")] * 2, [(b"oxp-api-key", b"ty_a")] * 2])
def test_credentials_that_are_there_twice_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    async def scene(made: Scene) -> None:
        exchange = type("E", (), {"headers": dict(headers), "query": b"", "path": "/", "address": ""})()
        with pytest.raises(Exception, match="not valid"):
            made.yard.asgi._admit({"headers": headers}, exchange)

    run(scene)


@pytest.mark.parametrize("query", ["access_token=x", "a=1&api_key=ty_0123456789abcdef", "token"])
def test_credentials_in_an_address_are_refused(query: str) -> None:
    async def scene(made: Scene) -> None:
        reply = await made.send("owner", "GET", f"/v1/calls?{query}")
        assert reply.status == 401
        assert b"do not belong into an address" in reply.body

    run(scene)


def test_who_gives_out_tokens_is_said_where_somebody_does() -> None:
    async def scene(made: Scene) -> None:
        refused = await made.send("anonymous", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        metadata = b"http://localhost/.well-known/oauth-protected-resource/mcp"
        assert dict(refused.headers)[b"www-authenticate"] == b'Bearer resource_metadata="' + metadata + b'"'
        described = (await made.send("anonymous", "GET", "/.well-known/oauth-protected-resource/mcp")).json
        assert described["resource"] == "http://localhost/mcp"
        assert described["authorization_servers"] == ["https://id.example"]
        assert described["scopes_supported"] == ["calc"]

    run(scene, issuers=["https://id.example"], jwt_audience="me", access=[{"scopes": ["calc"]}])


def test_with_a_certificate_it_speaks_https(tmp_path: Path) -> None:
    variables = environment("open") | signed(tmp_path).variables
    process = subprocess.Popen(command("--port", "0"), cwd=tmp_path, env=variables, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        said = b"".join(iter(process.stdout.readline, b"Stop with Ctrl-C.\n")).decode()
        address = next(word for word in said.split() if word.startswith("https://127.0.0.1:"))
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with urllib.request.urlopen(f"{address}/health", timeout=10, context=context) as reply:
            assert reply.read() == b'{"status":"ok"}'
    finally:
        stop(process)
        process.stdout.close()


LOOPBACKS = ["127.0.0.1", "127.0.0.2", "127.1", "localhost", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_name_of_somebody_elses_runs_no_tool_on_any_address_of_this_machine(host: str, tmp_path: Path) -> None:
    """A page in a browser that found a name for it: the server listens, and the page's name is not its own."""
    server = warm.start(
        command("toolyard.reference", "--port", "0", "--host", host, "--store", "sqlite::memory:"),
        cwd=tmp_path,
        env=environment("open") | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = next(found[1] for line in server.stdout if (found := re.search(r"OXP 1\.0 +(http://\S+)", line)))
        body = b'{"tool_id": "Calculator.Add", "input": {"a": 1, "b": 2}}'
        given = {"content-type": "application/json"}
        own = urllib.request.Request(f"{address}/tools/call", body, given)
        with urllib.request.urlopen(own, timeout=30) as answer:
            assert answer.status == 200
        for name in ("evil.example", "localhost.evil.example", "127.0.0.2.evil.example"):
            foreign = urllib.request.Request(f"{address}/tools/call", body, given | {"host": f"{name}:8000"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(foreign, timeout=30)
            assert refused.value.code == 421
            refused.value.close()
        for name in LOOPBACKS:
            named = f"[{name}]" if ":" in name else name
            local = urllib.request.Request(f"{address}/tools", headers={"host": f"{named}:8000"})
            with urllib.request.urlopen(local, timeout=30) as answer:
                assert answer.status == 200
    finally:
        stop(server)
        assert server.stdout is not None
        server.stdout.close()


@pytest.mark.parametrize(
    "host", [b"[::1].evil.com", b"127.0.0.1:abc", b"127.0.0.1:80.evil.com", b"localhost:80@evil.com", b"[::1", b""]
)
def test_what_only_begins_like_a_name_of_this_machine_is_none(host: bytes) -> None:
    async def scene(made: Scene) -> None:
        assert (await made.send("owner", "GET", "/tools", None, {b"host": host})).status == 421

    run(scene)


@pytest.mark.parametrize(
    "origin", [b"http://127.0.0.1:19510.evil.com", b"http://[::1].evil.com", b"http://localhost:80@evil.com", b"null"]
)
def test_nor_is_a_page_that_does(origin: bytes) -> None:
    async def scene(made: Scene) -> None:
        assert (await made.send("owner", "GET", "/tools", None, {b"origin": origin})).status == 403

    run(scene)


def test_a_page_of_another_port_of_this_machine_is_anothers() -> None:
    """Also where it sends what a browser asks nobody about: a request without a body."""

    async def scene(made: Scene) -> None:
        for page in (b"http://localhost:9999", b"http://127.0.0.1:9999", b"http://[::1]:9999", b"http://localhost"):
            headers = {b"host": b"localhost:8000", b"origin": page}
            for path in ("/v1/sessions", "/v1/calls/order-7/cancel"):
                reply = await made.send("owner", "POST", path, None, headers)
                assert (reply.status, b"cors_origins" in reply.body) == (403, True)
        # What does not say that it is JSON needs no preflight.
        headers = {b"host": b"localhost:8000", b"origin": b"http://localhost:9999"}
        headers[b"mcp-protocol-version"] = b"2025-11-25"
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await made.send("owner", "POST", "/mcp", ping, headers)).status == 200
        assert (await made.send("owner", "POST", "/mcp", None, headers)).status == 403
        for host, page in (
            (b"localhost:8000", b"http://localhost:8000"),
            (b"127.0.0.1:8000", b"http://localhost:8000"),
            (b"[::1]:8000", b"http://127.0.0.1:8000"),
            (b"localhost", b"https://localhost"),
            (b"localhost:8000", b"http://localhost:3000"),
        ):
            reply = await made.send("owner", "POST", "/v1/sessions", {}, {b"host": host, b"origin": page})
            assert reply.status == 201, (host, page)

    run(scene, cors_origins=["http://localhost:3000"])


NAMED = {"cors_origins": ["https://app.example.com", "http://other.example:80"]}
PUBLIC = {"public_url": "https://yard.example/tools", "host": "0.0.0.0"}
HOSTS = {"allowed_hosts": ["yard.example", "https://page.example:8443"]}


@pytest.mark.parametrize(
    ("given", "host", "page", "may"),
    [
        (NAMED, b"localhost", b"https://app.example.com", True),
        (NAMED, b"localhost", b"https://app.example.com:443", True),
        (NAMED, b"localhost", b"http://other.example", True),
        (NAMED, b"localhost", b"http://app.example.com", False),
        (NAMED, b"localhost", b"https://app.example.com:8443", False),
        (NAMED, b"localhost", b"https://other.example", False),
        (PUBLIC, b"yard.example", b"https://yard.example", True),
        (PUBLIC, b"yard.example:443", b"https://yard.example", True),
        (PUBLIC, b"behind:8000", b"https://yard.example", True),
        (PUBLIC, b"yard.example", b"http://yard.example", False),
        (PUBLIC, b"yard.example", b"https://yard.example:8443", False),
        (HOSTS, b"yard.example:8000", b"http://yard.example:8000", True),
        (HOSTS, b"yard.example", b"https://yard.example", True),
        (HOSTS, b"yard.example", b"http://yard.example", True),
        (HOSTS, b"yard.example:8000", b"http://yard.example", False),
        (HOSTS, b"yard.example", b"http://yard.example:8000", False),
        (HOSTS, b"localhost", b"http://yard.example", False),
        (HOSTS, b"localhost", b"https://page.example:8443", True),
        (HOSTS, b"localhost", b"https://page.example", False),
        ({"host": "0.0.0.0"}, b"any.example:8000", b"http://any.example:8000", True),
        ({"host": "0.0.0.0"}, b"any.example:8000", b"http://any.example:9000", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(given: dict[str, Any], host: bytes, page: bytes, may: bool) -> None:
    async def scene(made: Scene) -> None:
        reply = await made.send("owner", "POST", "/v1/sessions", {}, {b"host": host, b"origin": page})
        assert reply.status == (201 if may else 403)
        assert may or b"add it to cors_origins" in reply.body
        shown = dict(reply.headers).get(b"access-control-allow-origin")
        assert shown == (page if may and given is NAMED else None)

    run(scene, **given)


def test_who_came_by_https_came_from_no_page_of_http() -> None:
    guard = Guard("0.0.0.0", None, (), (), knows_host=True)
    route: Route = Route("POST", "/v1/sessions", None, LIFECYCLE)  # type: ignore[arg-type]
    for scheme, page, may in (("https", b"https", True), ("https", b"http", False), ("http", b"https", True)):
        headers = {b"host": b"yard.example:8000", b"origin": page + b"://yard.example:8000"}
        with nullcontext() if may else pytest.raises(ForeignPage):
            guard.check(headers, {"scheme": scheme}, route)


def test_the_host_of_a_page_is_no_name_of_this_server() -> None:
    async def scene(made: Scene) -> None:
        reply = await made.send("owner", "GET", "/tools", None, {b"host": b"app.example.com"})
        assert reply.status == 421

    run(scene, **NAMED)
