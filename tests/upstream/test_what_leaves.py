"""What goes to an upstream: what is meant for it, and not a byte of the credentials that a caller came with."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolyard.lazy import load

from .. import warm
from ..cli.processes import Served, serving, toolyard
from ..conformance.serving import free_port, stop
from ..server.mcp.piped import piping
from ..server.mcp.schemas import MODERN, REVISIONS
from ..server.mcp.stage import stage
from ..server.mcp.talking import Client, connect
from .libraries import named, until_listed
from .waiting import until, until_listening

PROGRAM = str(Path(__file__).with_name("recorder.py"))
KEY, SECRET = "ty_ada_canary_0123456789abcdef", "jwt-canary-correct-horse-battery"
COOKIE, OTHER, GIVEN = "cookie-canary-77", "header-canary-77", "secret-canary-77"
HUBS = "hubs-own-credential-77"
INBOUND = {"cookie": f"session={COOKIE}", "x-api-key": OTHER, "proxy-authorization": f"Basic {OTHER}"}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ALONG = {"vendor/seat": "12A", "tracestate": "a=b", "baggage": "c=d", "traceparent": TRACE}


class Recorded:
    """A server whose upstream keeps all that it is sent."""

    def __init__(self, served: Served, file: Path) -> None:
        self.served, self._file = served, file

    def sent(self) -> bytes:
        return self._file.read_bytes()

    def since(self, start: int) -> bytes:
        return self.sent()[start:]


@pytest.fixture(scope="module", params=["2025-06-18 http", f"{MODERN} http", "2025-06-18 stdio", f"{MODERN} stdio"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    revision, kind = request.param.split()
    folder = tmp_path_factory.mktemp("recorded")
    file = folder / "sent"
    file.touch()
    assert toolyard("secrets", "set", "HUB_TOKEN", folder=folder, input=HUBS).code == 0
    hub: dict[str, Any] = {"name": "Hub"}
    with ExitStack() as stack:
        if kind == "http":
            port = free_port()
            command = [sys.executable, PROGRAM, revision, str(file), str(port)]
            stack.callback(stop, warm.start(command, cwd=folder, env={"PATH": "/usr/bin:/bin"}))
            until_listening(port)
            hub |= {"mcp": f"http://127.0.0.1:{port}/mcp", "auth": {"secret": "HUB_TOKEN"}}
        else:
            hub |= {"command": [sys.executable, PROGRAM, revision, str(file)]}
            hub |= {"env": {"HUB_TOKEN": {"secret": "HUB_TOKEN"}}}
        variables = {
            "TOOLYARD_TOOLS": "toolyard.reference",
            "TOOLYARD_UPSTREAMS": json.dumps([hub]),
            "TOOLYARD_API_KEYS": f"ada:{KEY}",
            "TOOLYARD_JWT_SECRET": SECRET,
        }
        served = stack.enter_context(serving("toolyard.reference", folder=folder, variables=variables))
        client = connect(f"{served.address}/mcp", MODERN, KEY)
        until_listed(client, "resources/list", "kept://1")
        client.close()
        yield Recorded(served, file)


def token() -> str:
    made: str = load("signed_token")({"sub": "ada", "exp": time.time() + 600}, SECRET)
    return made


def mcp(recorded: Recorded, revision: str, key: str) -> Client:
    client = connect(f"{recorded.served.address}/mcp", revision, key)
    client.wire.headers |= INBOUND
    return client


def over_mcp(recorded: Recorded, revision: str, key: str) -> None:
    client = mcp(recorded, revision, key)
    given = {"toolyard/userId": "bob", "toolyard/callId": f"key-canary-77 {revision} {key[-5:]}"}
    client.call("Hub_echo", {"text": f"mcp {revision}"}, meta={**ALONG, **given}).result()
    named(client, "prompts/get", name="Hub_hello", meta=ALONG).result()
    named(client, "resources/read", uri="kept://1", meta=ALONG).result()
    params = {"ref": {"type": "ref/prompt", "name": "Hub_hello"}, "argument": {"name": "a", "value": "b"}}
    client.result("completion/complete", params)
    client.close()


def over_family(recorded: Recorded, path: str, body: dict[str, Any], key: str) -> None:
    headers = {"authorization": f"Bearer {key}", **INBOUND}
    answer = recorded.served.request("POST", path, body, headers)
    assert "heard" in json.dumps(answer), answer


def over_session(recorded: Recorded, key: str) -> None:
    headers = {"authorization": f"Bearer {key}", **INBOUND}
    served = recorded.served
    session = served.request("POST", "/v1/sessions", {}, headers)["sessionId"]
    use = {"type": "tool_use", "id": "use1", "name": "Hub_echo", "input": {"text": "a session"}}
    messages = f"/v1/sessions/{session}/messages"
    served.request("POST", messages, {"role": "assistant", "content": [use]}, headers)
    until(
        lambda: "heard" in json.dumps(served.request("GET", f"/v1/sessions/{session}/results?wait=5", headers=headers))
    )


CONTEXT = {"user_id": "bob", "secrets": [{"id": "X", "value": GIVEN}], "authorization": [{"id": "x", "token": GIVEN}]}


@pytest.mark.parametrize("how", ["key", "token"])
def test_no_byte_of_a_callers_credentials_leaves_whichever_wire_it_came_by(recorded: Recorded, how: str) -> None:
    key = KEY if how == "key" else token()
    start = len(recorded.sent())
    for revision in REVISIONS:
        over_mcp(recorded, revision, key)
    over_family(recorded, "/tools/call", {"tool_id": "Hub.echo", "input": {"text": "oxp"}, "context": CONTEXT}, key)
    for path, said in (("/otc/tools/call", "otc"), ("/otc/draft/call", "draft")):
        request = {"tool_id": "Hub.echo", "input": {"text": said}, "context": CONTEXT}
        over_family(recorded, path, {"request": request}, key)
    over_session(recorded, key)
    heard = [b"mcp " + revision.encode() for revision in REVISIONS] + [b"oxp", b"otc", b"draft", b"a session"]
    assert [each for each in heard if each not in recorded.since(start)] == [], "this is what was to be heard"
    sent = recorded.sent()
    inbound = (key, KEY, SECRET, COOKIE, OTHER, GIVEN, "key-canary-77", "bob")
    assert [each for each in inbound if each.encode() in sent] == []
    assert HUBS.encode() in sent, "the upstream has its own"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_what_is_for_whoever_is_behind_goes_along(recorded: Recorded, revision: str, method: str) -> None:
    client = mcp(recorded, revision, KEY)
    start = len(recorded.sent())
    ours = {"progressToken": "token-of-ours", "toolyard/userId": "bob", "io.modelcontextprotocol/other": "ours"}
    meta = {**ALONG, **ours, "nested": {"a": [1, {"b": None}]}}
    about: dict[str, dict[str, Any]] = {
        "tools/call": {"name": "Hub_echo", "arguments": {"text": "x"}},
        "prompts/get": {"name": "Hub_hello"},
        "resources/read": {"uri": "kept://1"},
    }
    named(client, method, **about[method], meta=meta).result()
    client.close()
    (heard,) = [each for each in messages_in(recorded.since(start)) if each.get("method") == method]
    along = {name: value for name, value in heard["params"]["_meta"].items() if name in {**meta}}
    assert {name: along.get(name) for name in (*ALONG, "nested")} == {**ALONG, "nested": {"a": [1, {"b": None}]}}
    assert "io.modelcontextprotocol/other" not in along
    assert "toolyard/userId" not in along
    assert along.get("progressToken") != "token-of-ours", "it is another one on each way"


def test_too_much_of_it_is_refused_and_nothing_leaves(recorded: Recorded) -> None:
    client = mcp(recorded, MODERN, KEY)
    start = len(recorded.sent())
    large = {"vendor/large": "x" * 8192}
    error = client.call("Hub_echo", {"text": "x"}, meta=large).error()
    assert (error["code"], "at most 8192 bytes" in error["message"]) == (-32602, True)
    assert client.call("Calculator_Add", {"a": 1, "b": 2}, meta=large).result()["structuredContent"] == 3
    assert b"tools/call" not in recorded.since(start)
    client.close()


def messages_in(sent: bytes) -> list[dict[str, Any]]:
    """The lines that are messages: heads of HTTP are none."""
    return [json.loads(line) for line in sent.splitlines() if line.startswith(b'{"jsonrpc"')]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_what_is_for_whoever_is_behind_goes_along_from_pipes(tmp_path: Path, revision: str) -> None:
    file = tmp_path / "sent"
    file.touch()
    hub = {"name": "Hub", "command": [sys.executable, PROGRAM, MODERN, str(file)]}
    with stage() as staged, piping(tmp_path, staged, tools="toolyard.reference", upstreams=json.dumps([hub])) as piped:
        if revision != MODERN:
            piped.initialize(revision)
        until(lambda: "Hub_echo" in [tool["name"] for tool in piped.result("tools/list")["tools"]])
        until(lambda: b"resources/templates/list" in file.read_bytes())
        piped.result_of(piped.call("Hub_echo", {"text": "x"}, meta=ALONG))
        assert piped.result("prompts/get", {"name": "Hub_hello"})["messages"]
        (heard,) = [each for each in messages_in(file.read_bytes()) if each.get("method") == "tools/call"]
        assert {name: heard["params"]["_meta"].get(name) for name in ALONG} == ALONG
        assert piped.end() == 0
