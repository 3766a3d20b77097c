"""What MCP's tools page asks of a client, shown by ours: at a server that says what a test wants it to say."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from toolyard import Client, RequestError, ServerError, ToolError

TOOL = {
    "name": "wipe",
    "title": "Wipe a disk",
    "description": "Wipes a disk.",
    "inputSchema": {"type": "object", "properties": {"disk": {"type": "string"}}},
    "outputSchema": {"type": "object", "properties": {"wiped": {"type": "boolean"}}, "required": ["wiped"]},
    "annotations": {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": True},
}
Heard = list[dict[str, Any]]
Answer = Callable[[], dict[str, Any]]


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, Heard]]:
    """Has one tool, whose calls are answered with that. The value is its address, and what it is asked."""
    heard: Heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            heard.append(asked)
            listed = {"result": {"resultType": "complete", "tools": [TOOL]}}
            said = listed if asked["method"] == "tools/list" else answer()
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Not here."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/mcp", heard
        finally:
            listening.shutdown()


@contextmanager
def client_of(answer: Answer, timeout_s: float = 20.0) -> Iterator[tuple[Client, Heard]]:
    with server(answer) as (url, heard), Client(url, timeout_s=timeout_s, retries=2) as client:
        yield client, heard


def result(**members: Any) -> Answer:
    return lambda: {"result": {"resultType": "complete", "content": [], **members}}


def calls(heard: Heard) -> Heard:
    return [each["params"] for each in heard if each["method"] == "tools/call"]


def test_nothing_is_called_but_what_somebody_says() -> None:
    with client_of(result(structuredContent={"wiped": True})) as (client, heard):
        client.list()
        assert client.healthy()
        assert calls(heard) == []
        assert client.call("wipe", {"disk": "a"}) == {"wiped": True}
        assert [each["arguments"] for each in calls(heard)] == [{"disk": "a"}]


def test_a_list_has_what_an_application_shows_and_asks_about() -> None:
    with client_of(result()) as (client, _):
        assert client.list() == [TOOL]


def test_hints_of_a_stranger_decide_nothing() -> None:
    """It says that it can be called twice; nobody does so for that."""
    with client_of(result(isError=True, content=[{"type": "text", "text": "No"}])) as (client, heard):
        with pytest.raises(ToolError):
            client.call("wipe", {"disk": "a"})
        assert len(calls(heard)) == 1


def test_a_result_that_does_not_fit_its_schema_is_a_failure() -> None:
    sentence = "does not fit its own output schema at wiped"
    with client_of(result(structuredContent={"wiped": "?"})) as (client, _), pytest.raises(ToolError, match=sentence):
        client.call("wipe", {"disk": "a"})


def test_a_tools_error_has_the_text_for_the_model() -> None:
    said = result(isError=True, content=[{"type": "text", "text": "No such disk\ndisks: a, b"}])
    with client_of(said) as (client, _), pytest.raises(ToolError) as failed:
        client.call("wipe", {"disk": "z"})
    assert failed.value.message == "No such disk\ndisks: a, b"


def test_an_error_of_the_protocol_has_its_text_too() -> None:
    said = {"error": {"code": -32602, "message": "Disks are not sold here"}}
    with client_of(lambda: said) as (client, _), pytest.raises(RequestError, match="Disks are not sold here"):
        client.call("wipe", {"disk": "a"})


def test_a_server_that_does_not_answer_is_given_up() -> None:
    answered = threading.Event()

    def slow() -> dict[str, Any]:
        answered.wait(20.0)
        return {"result": {}}

    with client_of(slow, timeout_s=0.2) as (client, _):
        try:
            with pytest.raises(ServerError):
                client.call("wipe", {"disk": "a"})
        finally:
            answered.set()


def test_every_call_has_an_id_under_which_it_is_on_record() -> None:
    with client_of(result(structuredContent={"wiped": True})) as (client, heard):
        outcome = client.outcome("wipe", {"disk": "a"})
    [call] = calls(heard)
    assert call["_meta"]["toolyard/callId"] == outcome.call_id
