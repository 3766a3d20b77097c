"""What the documents ask of a server and no single request to a running one can show."""

import asyncio
import json
import subprocess
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from toolyard import App, Toolkit

from .runner import Reply, send
from .serving import command, environment, free_port, running

TOOLS = '''
from typing import Annotated

from toolyard import Hidden, Toolkit

accounts = Toolkit("Accounts", version="1.0.0", description="Accounts.")


@accounts.tool
def close(account: str, is_admin: Annotated[bool, Hidden]) -> bool:
    """Closes an account."""
    return is_admin
'''


def ping() -> str:
    """Answers."""
    return "pong"


async def ask(app: Any, method: str, path: str, body: bytes = b"") -> Reply:
    """One request to an ASGI application."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def collect(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
    }
    place = {
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
    }
    await app({**scope, **place, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}, receive, collect)
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


async def ask_after_its_life(method: str, path: str, body: bytes = b"") -> tuple[Reply, Reply]:
    """What a server answers while it lives, and when it is on its way out."""
    toolkit = Toolkit("Ping", version="1.0.0", description="Ping.")
    toolkit.tool(ping)
    app = App(toolkit).asgi()
    async with app.lifespan():
        before = await ask(app, method, path, body)
    async with asyncio.timeout(5):
        return before, await ask(app, method, path, body)


@pytest.mark.parametrize("path", ["/health", "/ready", "/oxp/health", "/otc/health", "/otc/draft/health"])
def test_health_is_503_when_the_server_is_not_ready(path: str) -> None:
    before, after = asyncio.run(ask_after_its_life("GET", path))
    assert (before.status, after.status) == (200, 503)


def test_live_is_200_even_when_the_server_is_not_ready() -> None:
    before, after = asyncio.run(ask_after_its_life("GET", "/live"))
    assert (before.status, after.status) == (200, 200)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tools/call", {"tool_id": "Ping.Ping"}),
        ("/otc/tools/call", {"request": {"tool_id": "Ping.Ping"}}),
        ("/otc/draft/call", {"request": {"tool_id": "Ping.Ping"}}),
    ],
)
def test_a_call_to_a_server_that_is_not_ready_is_a_400_that_says_when_to_come_back(path: str, body: Any) -> None:
    before, after = asyncio.run(ask_after_its_life("POST", path, json.dumps(body).encode()))
    assert (before.status, after.status) == (200, 400)
    assert isinstance(json.loads(after.body)["message"], str)
    assert int(after.headers["retry-after"]) >= 1
    assert int(after.headers["retry-after-ms"]) >= 1
    assert after.headers["x-should-retry"] == "true"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/sessions", {}),
        ("POST", "/v1/tools/claim", {}),
        ("POST", "/v1/tools/heartbeats", {"heartbeats": [{"sessionId": "s", "requestId": "t", "attempt": 1}]}),
        ("GET", "/v1/calls", None),
    ],
)
def test_the_lifecycle_api_of_a_server_that_is_not_ready_is_a_429(method: str, path: str, body: Any) -> None:
    sent = b"" if body is None else json.dumps(body).encode()
    before, after = asyncio.run(ask_after_its_life(method, path, sent))
    assert before.status in (200, 201)
    assert after.status == 429
    assert json.loads(after.body).keys() == {"message"}
    assert int(after.headers["retry-after"]) >= 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_without_authentication_refuses_to_leave_loopback(host: str, tmp_path: Path) -> None:
    arguments = command("--host", host, "--port", str(free_port()))
    ended = subprocess.run(
        arguments, cwd=tmp_path, env=environment("open"), capture_output=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    assert b"authentication" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_hidden_parameter_is_listed_as_non_inferrable_on_every_wire(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with running("open", tmp_path, ["tools.py"]) as base_url:
        oxp, otc, draft = (
            json.loads(send(base_url, {"method": "GET", "path": path}).body)
            for path in ("/oxp/tools", "/otc/tools", "/otc/draft/tools")
        )
    for schema in (oxp["items"][0]["input_schema"], otc["tools"][0]["input_schema"]["parameters"]):
        assert schema["properties"]["is_admin"]["x-non-inferrable"] is True
        assert "x-non-inferrable" not in schema["properties"]["account"]
    assert draft["tools"][0]["input"]["non_inferrable_parameters"] == ["is_admin"]
    assert "is_admin" in draft["tools"][0]["input"]["parameters"]["properties"]
