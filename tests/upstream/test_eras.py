"""Every pair of eras: a client of any wire of ours calls a tool of an upstream of any revision, over pipes and HTTP.

The upstream is `bazaar.py`, a server of exactly one revision. What every revision of MCP has works between any two.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolyard import Client, ToolError, ToolyardError

from .. import warm
from ..cli.processes import Served, serving
from ..conformance.serving import free_port, stop
from ..server.mcp.schemas import MODERN
from ..server.mcp.talking import Client as McpClient
from ..server.mcp.talking import Older, connect
from .conftest import INTEROP
from .waiting import until, until_listening

REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", MODERN]
PROGRAM = str(Path(__file__).with_name("bazaar.py"))
ANSWERS: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"colour": "red"}},
    "sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "sampled"}},
    "roots/list": {"roots": [{"uri": "file:///stall"}]},
}
ABLE: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Gateway:
    """A server with one upstream, called Bazaar."""

    def __init__(self, served: Served, revision: str, kind: str, notes: Path) -> None:
        self.served, self.revision, self.kind, self._notes = served, revision, kind, notes
        self.url = f"{served.address}/mcp"
        self.is_modern, self.has_structured = revision == MODERN, revision != "2025-03-26"

    def notes(self) -> list[str]:
        return self._notes.read_text().splitlines()


ALL = [f"{each} {kind}" for each in REVISIONS for kind in ("stdio", "http")]
SOME = ["2025-03-26 stdio", "2025-11-25 http", f"{MODERN} stdio", f"{MODERN} http"]


@pytest.fixture(scope="module", params=ALL if INTEROP in os.environ else SOME)
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    revision, kind = request.param.split()
    folder = tmp_path_factory.mktemp("gateway")
    notes = folder / "notes"
    notes.touch()
    upstream: dict[str, Any] = {"name": "Bazaar"}
    with ExitStack() as stack:
        if kind == "stdio":
            upstream |= {"command": [sys.executable, PROGRAM, revision], "env": {"BAZAAR_NOTES": str(notes)}}
        else:
            port = free_port()
            variables = {"BAZAAR_NOTES": str(notes), "PATH": "/usr/bin:/bin"}
            process = warm.start([sys.executable, PROGRAM, revision, str(port)], env=variables, cwd=folder)
            stack.callback(stop, process)
            until_listening(port)
            upstream["mcp"] = f"http://127.0.0.1:{port}/mcp"
        variables = {"TOOLYARD_UPSTREAMS": json.dumps([upstream]), "TOOLYARD_SYNC_WAIT_S": "20"}
        served = stack.enter_context(serving(folder=folder, variables=variables))
        made = Gateway(served, revision, kind, notes)
        until(lambda: any(tool["name"] == "Bazaar_echo" for tool in served.request("GET", "/tools")["items"]))
        yield made


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[McpClient]:
    made = connect(gateway.url, request.param, **ABLE)
    yield made
    made.close()


@pytest.fixture(params=["oxp", "otc", "otc_draft"])
def family(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Client]:
    with Client(gateway.served.address, wire=request.param) as made:
        yield made


# -- over MCP --------------------------------------------------------------------------------------


def test_its_tools_are_listed(gateway: Gateway, client: McpClient) -> None:
    listed = {tool["name"]: tool for tool in client.result("tools/list")["tools"]}
    echo = listed["Bazaar_echo"]
    assert echo["inputSchema"]["required"] == ["text"]
    assert echo["_meta"]["ui"] == {"resourceUri": "ui://bazaar/echo"}
    assert "annotations" not in echo, "nobody has said that this upstream is trusted"
    assert echo["_meta"]["toolyard/version"] == "3.1.4"
    shows_output = gateway.has_structured and client.revision != "2025-03-26"
    assert ("outputSchema" in listed["Bazaar_sum"]) == shows_output


def test_text_comes_back(client: McpClient) -> None:
    assert client.call("Bazaar_echo", {"text": "hello"}).result()["content"] == [{"type": "text", "text": "hello"}]


def test_a_structured_result_comes_back(gateway: Gateway, client: McpClient) -> None:
    result = client.call("Bazaar_sum", {"a": 1, "b": 2}).result()
    assert json.loads(result["content"][0]["text"]) == {"sum": 3}
    if gateway.has_structured and client.revision != "2025-03-26":
        assert result["structuredContent"] == {"sum": 3}


def test_pictures_links_and_what_nobody_knows_come_back(gateway: Gateway, client: McpClient) -> None:
    result = client.call("Bazaar_picture").result()
    kinds = [block["type"] for block in result["content"]]
    link = [] if not gateway.has_structured else ["text" if client.revision == "2025-03-26" else "resource_link"]
    assert kinds == ["text", "image", *link]
    assert result["_meta"]["vendor/stall"] == {"number": 1}


def test_progress_is_heard(client: McpClient) -> None:
    *said, last = client.call("Bazaar_steps", meta={"progressToken": "p"}).rest()
    progress = [each["params"] for each in said if each["method"] == "notifications/progress"]
    assert [(each["progressToken"], each["progress"], each["total"]) for each in progress] == [
        ("p", step, 3) for step in (1, 2, 3)
    ]
    assert last["result"]["content"][0]["text"] == "stepped"


def test_what_it_logs_is_heard(gateway: Gateway, client: McpClient) -> None:
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    if isinstance(client, Older):
        client.result("logging/setLevel", {"level": "info"})
        meta = {}
    *said, _ = client.call("Bazaar_steps", meta=meta).rest()
    logged = [each["params"]["data"] for each in said if each["method"] == "notifications/message"]
    assert logged == ["step 1", "step 2", "step 3"]


@pytest.mark.parametrize("tool", ["form", "page", "sample", "folders"])
def test_what_it_asks_is_answered(gateway: Gateway, client: McpClient, tool: str) -> None:
    if tool == "folders" and gateway.kind == "stdio" and not gateway.is_modern:
        pytest.skip("callers share the program, which would keep the folders of one for all")
    if tool == "page" and client.revision in REVISIONS[:2]:
        pytest.skip("a client of that revision opens no pages")
    if tool in ("form", "page") and client.revision == "2025-03-26":
        pytest.skip("a client of that revision has no forms")
    expected = {"form": '{"action": "accept", "content": {"colour": "red"}}', "page": '{"action": "accept"',
                "sample": "sampled", "folders": "file:///stall"}[tool]  # fmt: skip
    result = answered(client, f"Bazaar_{tool}")
    assert result["content"][0]["text"].startswith(expected), result


def answered(client: McpClient, tool: str) -> Any:
    """The result of a call, after whatever it asks was answered as that era answers."""
    exchange = client.call(tool)
    if isinstance(client, Older):
        while "method" in (message := exchange.next()):
            if "id" in message:
                client.answer(message, ANSWERS[message["method"]])
        return message["result"]
    result = exchange.result()
    while result["resultType"] == "input_required":
        responses = {name: ANSWERS[each["method"]] for name, each in result["inputRequests"].items()}
        result = client.call(tool, requestState=result["requestState"], inputResponses=responses).result()
    return result


def test_a_client_that_cannot_be_asked_is_told_so(gateway: Gateway) -> None:
    client = connect(gateway.url, MODERN)
    result = client.call("Bazaar_form").result()
    assert result["isError"] is True
    assert "cannot ask its person with a form" in result["content"][0]["text"]
    client.close()


def test_a_failure_comes_with_all_that_it_shows(client: McpClient) -> None:
    result = client.call("Bazaar_fail").result()
    assert result["isError"] is True
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert result["content"][0]["text"] == "the stall is closed"


def test_a_task_of_the_upstream_is_waited_for(gateway: Gateway, client: McpClient) -> None:
    if gateway.revision < "2025-11-25":
        pytest.skip("that revision has no tasks")
    assert client.call("Bazaar_job").result()["content"][0]["text"] == "the job is done"


def test_a_call_becomes_a_task_of_ours(gateway: Gateway) -> None:
    client = connect(gateway.url, "2025-11-25", **ABLE)
    task = client.call("Bazaar_echo", {"text": "later"}, task={"ttl": 60000}).result()["task"]
    result = client.result("tasks/result", {"taskId": task["taskId"]})
    assert result["content"] == [{"type": "text", "text": "later"}]
    client.close()


def test_a_call_with_a_key_runs_once(gateway: Gateway, client: McpClient) -> None:
    key = f"{client.revision} {gateway.revision} {gateway.kind}"
    for _ in range(2):
        result = client.call("Bazaar_picture", meta={"toolyard/callId": key}).result()
        assert [block["type"] for block in result["content"]][:2] == ["text", "image"]
        assert result["_meta"]["vendor/stall"] == {"number": 1}
    called = [line for line in gateway.notes() if line.startswith("called picture")]
    before = len(called)
    client.call("Bazaar_picture", meta={"toolyard/callId": key}).result()
    assert len([line for line in gateway.notes() if line.startswith("called picture")]) == before
    assert not any(key in line for line in called), "the caller's own key stays here"


def test_a_result_is_replayed_in_another_era_than_it_was_made_in(gateway: Gateway) -> None:
    key = f"any {gateway.revision} {gateway.kind}"
    shown = []
    for revision in REVISIONS:
        client = connect(gateway.url, revision)
        result = client.call("Bazaar_picture", meta={"toolyard/callId": key}).result()
        shown.append([block["type"] for block in result["content"]][:2])
        client.close()
    assert shown == [["text", "image"]] * 4


# -- over the other wires --------------------------------------------------------------------------


def test_every_wire_lists_and_calls_it(gateway: Gateway, family: Client) -> None:
    assert any("echo" in str(tool.get("id", tool.get("name"))) for tool in family.list())
    assert family.call("Bazaar.echo", {"text": "hi"}) == [{"type": "text", "text": "hi"}]
    expected = {"sum": 3}
    assert family.call("Bazaar.sum", {"a": 1, "b": 2}) == (
        expected if gateway.has_structured else [{"type": "text", "text": json.dumps(expected)}]
    )


def test_input_is_checked_before_it_leaves(gateway: Gateway, family: Client) -> None:
    before = len(gateway.notes())
    with pytest.raises(ToolyardError):
        family.call("Bazaar.sum", {"a": "one", "b": 2})
    assert len(gateway.notes()) == before


def test_who_cannot_be_asked_gets_an_error_that_says_so(gateway: Gateway, family: Client) -> None:
    with pytest.raises(ToolError, match="cannot ask its person with a form"):
        family.call("Bazaar.form", {})
    if not gateway.is_modern:
        until(lambda: "cancelled form" in gateway.notes())


def test_a_failure_is_an_error(family: Client) -> None:
    with pytest.raises(ToolError, match="the stall is closed"):
        family.call("Bazaar.fail", {})


def test_a_session_calls_it(gateway: Gateway) -> None:
    served = gateway.served
    session = served.request("POST", "/v1/sessions", {})["sessionId"]
    body = {"role": "assistant", "content": [
        {"type": "tool_use", "id": "use1", "name": "Bazaar_echo", "input": {"text": "from a session"}}]}  # fmt: skip
    served.request("POST", f"/v1/sessions/{session}/messages", body)

    def result() -> Any:
        return served.request("GET", f"/v1/sessions/{session}/results?wait=5")

    until(lambda: "from a session" in json.dumps(result()))


def test_a_change_of_its_list_is_heard_of(gateway: Gateway) -> None:
    client = connect(gateway.url, MODERN)
    client.call("Bazaar_grow").result()
    until(lambda: any(tool["name"] == "Bazaar_grown" for tool in client.result("tools/list")["tools"]))
    assert client.call("Bazaar_grown").result()["content"][0]["text"] == "grown"
    client.close()
