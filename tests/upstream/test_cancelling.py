"""Whoever gives a call up, on whichever wire, gives it up at the upstream, too."""

import http.client
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from .. import warm
from ..cli.processes import Served, serving, toolyard
from ..conformance.serving import environment, free_port, stop
from ..server.mcp.piped import Piped
from ..server.mcp.schemas import MODERN, OLDER
from ..server.mcp.talking import WITH_TASKS, Older, connect
from .waiting import until, until_listening

PROGRAM = str(Path(__file__).with_name("bazaar.py"))
YARD = """
import asyncio
import os

from toolyard import Toolkit

kit = Toolkit("Kit", version="1.0.0")


def note(text):
    with open(os.environ["BAZAAR_NOTES"], "a") as file:
        file.write(text + "\\n")


@kit.tool
async def wait() -> str:
    "Waits until it is cancelled, and notes that."
    note("waits")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("cancelled wait")
        raise
"""
CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
UPSTREAMS = ["yard http", "yard stdio", "2025-03-26 http", "2025-11-25 http", "2025-11-25 stdio", f"{MODERN} http",
             f"{MODERN} stdio"]  # fmt: skip


class Waited:
    """A server whose upstream has a tool that waits, and what that noted."""

    def __init__(self, served: Served, folder: Path, hub: dict[str, Any], notes: Path, tool: str) -> None:
        self.served, self.folder, self.hub, self.tool, self._notes = served, folder, hub, tool, notes
        self.url, self.id = f"{served.address}/mcp", f"Hub.{tool}"
        self.wire_name = f"Hub_{tool}"

    def count(self, note: str) -> int:
        return self._notes.read_text().splitlines().count(note)

    def gives_up(self, begin: Callable[[], Any], cancel: Callable[[Any], Any]) -> None:
        """Begins a call, and cancels it once it waits at the upstream; until the tool there was cancelled."""
        before, cancelled = self.count("waits"), self.count("cancelled wait")
        begun = begin()
        until(lambda: self.count("waits") == before + 1)
        assert self.count("cancelled wait") == cancelled
        cancel(begun)
        until(lambda: self.count("cancelled wait") == cancelled + 1)


@pytest.fixture(scope="module", params=UPSTREAMS)
def waited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waited]:
    what, kind = request.param.split()
    folder = tmp_path_factory.mktemp("waited")
    notes = folder / "notes"
    notes.touch()
    noting = {"BAZAAR_NOTES": str(notes)}
    hub: dict[str, Any] = {"name": "Hub"}
    inner = folder / "inner"
    inner.mkdir()
    (inner / "yard.py").write_text(YARD)
    with ExitStack() as stack:
        if kind == "stdio":
            program = ["-m", "toolyard", "stdio", str(inner / "yard.py")] if what == "yard" else [PROGRAM, what]
            hub |= {"command": [sys.executable, *program], "env": {**noting, "XDG_STATE_HOME": str(inner)}}
        elif what == "yard":
            other = stack.enter_context(serving("yard.py", folder=inner, variables=noting))
            hub["mcp"] = f"{other.address}/mcp"
        else:
            port = free_port()
            variables = {**noting, "PATH": "/usr/bin:/bin"}
            stack.callback(stop, warm.start([sys.executable, PROGRAM, what, str(port)], env=variables, cwd=folder))
            until_listening(port)
            hub["mcp"] = f"http://127.0.0.1:{port}/mcp"
        variables = {"TOOLYARD_UPSTREAMS": json.dumps([hub]), "TOOLYARD_SYNC_WAIT_S": "20"}
        served = stack.enter_context(serving(folder=folder, variables=variables))
        made = Waited(served, folder, hub, notes, "Kit_Wait" if what == "yard" else "wait")
        until(lambda: any(tool["name"] == made.wire_name for tool in served.request("GET", "/tools")["items"]))
        yield made


def post(waited: Waited, path: str, body: Any) -> http.client.HTTPConnection:
    """A request whose answer nobody reads."""
    parts = urlsplit(waited.served.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    return connection


# -- MCP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", OLDER)
def test_a_notification_of_the_older_era(waited: Waited, revision: str) -> None:
    client = connect(waited.url, revision)
    assert isinstance(client, Older)
    waited.gives_up(lambda: client.call(waited.wire_name), lambda exchange: client.cancel(exchange.id))
    client.close()


def test_a_client_of_the_older_era_without_a_session_that_goes(waited: Waited) -> None:
    client = Older(waited.url, "2025-06-18")
    waited.gives_up(lambda: client.call(waited.wire_name), lambda exchange: exchange.close())


def test_a_stream_of_the_newer_era_that_is_closed(waited: Waited) -> None:
    client = connect(waited.url, MODERN)
    waited.gives_up(lambda: client.call(waited.wire_name), lambda exchange: exchange.close())


def test_a_task_of_2025_11_25(waited: Waited) -> None:
    client = connect(waited.url, "2025-11-25")
    waited.gives_up(
        lambda: client.call(waited.wire_name, task={"ttl": 60000}).result()["task"]["taskId"],
        lambda id: client.result("tasks/cancel", {"taskId": id}),
    )
    client.close()


def test_a_task_of_2026_07_28(waited: Waited) -> None:
    """Of the call's own key: whoever has tasks may give up a call before it has become one."""
    client, key = connect(waited.url, MODERN, **WITH_TASKS), uuid.uuid4().hex
    waited.gives_up(
        lambda: client.call(waited.wire_name, meta={"toolyard/callId": key}),
        lambda exchange: client.result("tasks/cancel", {"taskId": key}),
    )
    client.close()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_notification_over_pipes(waited: Waited, tmp_path: Path, revision: str) -> None:
    variables = environment("open") | {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TOOLYARD_UPSTREAMS": json.dumps([waited.hub]),
    }
    command = [sys.executable, "-m", "toolyard", "stdio", "toolyard.reference"]
    process = warm.start(
        command, cwd=tmp_path, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    piped = Piped(process, tmp_path)
    try:
        if revision != MODERN:
            piped.initialize(revision)
        until(lambda: waited.wire_name in [tool["name"] for tool in piped.result("tools/list")["tools"]])
        waited.gives_up(
            lambda: piped.call(waited.wire_name),
            lambda id: piped.write(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            ),
        )
        assert piped.end() == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


# -- the other wires -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/tools/call", "/otc/tools/call", "/otc/draft/call"])
def test_a_client_that_goes(waited: Waited, path: str) -> None:
    """Without a key: `on_disconnect` of a call that nobody can come back to."""
    body: Any = {"tool_id": waited.id, "input": {}}
    body = body if path == "/tools/call" else {"request": body}
    waited.gives_up(lambda: post(waited, path, body), lambda connection: connection.close())


def test_a_call_that_its_caller_cancels(waited: Waited) -> None:
    key = uuid.uuid4().hex
    body = {"tool_id": waited.id, "input": {}, "call_id": key}
    cancel = f"/v1/calls/{key}/cancel"
    waited.gives_up(lambda: post(waited, "/tools/call", body), lambda _: waited.served.request("POST", cancel, {}))


def test_a_call_that_an_operator_cancels(waited: Waited) -> None:
    key = uuid.uuid4().hex
    body = {"tool_id": waited.id, "input": {}, "call_id": key}

    def cancel(connection: Any) -> None:
        assert toolyard("cancel", key, folder=waited.folder).code == 0

    waited.gives_up(lambda: post(waited, "/tools/call", body), cancel)


def test_a_request_of_a_session_that_is_cancelled(waited: Waited) -> None:
    served = waited.served
    session = served.request("POST", "/v1/sessions", {})["sessionId"]

    def begin() -> None:
        use = {"type": "tool_use", "id": "use1", "name": waited.wire_name, "input": {}}
        served.request("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})

    waited.gives_up(begin, lambda _: served.request("POST", f"/v1/tools/request/{session}/use1/cancel", {}))


def test_a_call_with_a_key_goes_on_when_its_client_goes(waited: Waited) -> None:
    """As any tool's does: somebody may come back for it. What is cancelled after it was left is that other call."""
    key, before = uuid.uuid4().hex, waited.count("waits")
    left = post(waited, "/tools/call", {"tool_id": waited.id, "input": {}, "call_id": key})
    until(lambda: waited.count("waits") == before + 1)
    left.close()
    body = {"tool_id": waited.id, "input": {}}
    waited.gives_up(lambda: post(waited, "/tools/call", body), lambda connection: connection.close())
    assert waited.served.request("GET", f"/v1/calls/{key}")["state"] == "PROCESSING"
    cancelled = waited.count("cancelled wait")
    waited.served.request("POST", f"/v1/calls/{key}/cancel", {})
    until(lambda: waited.count("cancelled wait") == cancelled + 1)
