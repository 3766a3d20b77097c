"""`tools/call`: what it is answered with."""

from typing import Any
from urllib.request import Request, urlopen

import pytest

from .conftest import Connect
from .schemas import MODERN, OLDER, REVISIONS
from .serving import ALICE, BOB, Server
from .stage import Stage
from .talking import Older, connect, decode, text_of

# --- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("tool", "arguments", "value", "text"),
    [
        ("greet", {"name": "Ada"}, "Hello, Ada!", "Hello, Ada!"),
        ("Kit_Add", {"a": 1}, 2, "2"),
        ("Kit_Numbers", {}, [1, 2, 3], "[1,2,3]"),
        ("Kit_Point", {"x": 1}, {"x": 1, "y": 0}, '{"x":1,"y":0}'),
    ],
)
def test_a_value_is_structured_and_text(
    client: Connect, revision: str, tool: str, arguments: dict[str, Any], value: Any, text: str
) -> None:
    result = client(revision).call(tool, arguments).result()
    assert text_of(result) == text
    wrapped = value if revision == MODERN or isinstance(value, dict) else {"result": value}
    assert result.get("structuredContent") == (None if revision == "2025-03-26" else wrapped)
    assert not result.get("isError")


@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_is_no_content(client: Connect, revision: str) -> None:
    result = client(revision).call("Kit_Plain").result()
    assert result["content"] == []
    assert "structuredContent" not in result


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_picture_has_its_annotations(client: Connect, revision: str) -> None:
    (block,) = client(revision).call("Kit_Image").result()["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert block["data"].startswith("iVBOR")
    assert block["annotations"] == {"audience": ["user"], "priority": 0.5}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_sound(client: Connect, revision: str) -> None:
    (block,) = client(revision).call("Kit_Audio").result()["content"]
    assert (block["type"], block["mimeType"]) == ("audio", "audio/wav")


@pytest.mark.parametrize("revision", [*OLDER[1:], MODERN])
def test_a_link(client: Connect, revision: str) -> None:
    (block,) = client(revision).call("Kit_Link").result()["content"]
    assert (block["type"], block["uri"]) == ("resource_link", "https://example.com/report.pdf")


def test_a_link_is_text_where_links_are_not_known(client: Connect) -> None:
    assert "https://example.com/report.pdf" in text_of(client("2025-03-26").call("Kit_Link").result())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_resource_and_everything_together(client: Connect, revision: str) -> None:
    (block,) = client(revision).call("Kit_Embedded").result()["content"]
    assert block["resource"] == {"uri": "test://embedded", "mimeType": "text/plain", "text": "inside"}
    blocks = client(revision).call("Kit_Mixed").result()["content"]
    third = "text" if revision == "2025-03-26" else "resource_link"
    assert [each["type"] for each in blocks] == ["text", "image", third, "resource"]
    assert blocks[3]["resource"] == {"uri": "test://bytes", "blob": "AAE="}


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_embedded_resource_can_be_read_afterwards(client: Connect, revision: str) -> None:
    reader = client(revision)
    reader.call("Kit_Embedded").result()
    sent = reader.made("resources/read", {"uri": "test://embedded"})
    (found,) = reader.post(sent, mcp_name="test://embedded").result()["contents"]
    assert (found["uri"], found["text"]) == ("test://embedded", "inside")


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_embedded_resource_is_read_by_its_caller_alone(keyed: Server, name: str, revision: str) -> None:
    alice, bob = (connect(keyed.url, revision, key) for key in (ALICE, BOB))
    alice.call("Kit_Letter", {"text": f"dear {name}"}).result()
    found = [
        each.post(each.made("resources/read", {"uri": "test://letter"}), mcp_name="test://letter").response()
        for each in (alice, bob)
    ]
    assert found[0]["result"]["contents"][0]["text"] == f"dear {name}"
    assert name not in str(found[1])


# --- names and versions --------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("name", ["greet", "Kit.Greet"])
def test_a_tool_has_its_wire_name_and_its_id(client: Connect, revision: str, name: str) -> None:
    assert text_of(client(revision).call(name, {"name": "Ada"}).result()) == "Hello, Ada!"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("name", ["greet", "Kit.Greet"])
def test_an_older_version_is_named_in_meta(client: Connect, revision: str, name: str) -> None:
    for version, said in {"1.0.0": "Good day, Ada.", "1": "Good day, Ada.", "2.0.0": "Hello, Ada!"}.items():
        called = client(revision).call(name, {"name": "Ada"}, meta={"toolyard/version": version})
        assert text_of(called.result()) == said


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("name", "version"),
    [("nobody", None), ("Kit.Nobody", None), ("Kit_Greet", None), ("GREET", None), ("greet", "3.0.0"),
     ("greet", "latest"), ("greet", "")],
)  # fmt: skip
def test_a_tool_that_is_not_there_is_a_protocol_error(
    client: Connect, revision: str, name: str, version: str | None
) -> None:
    meta = {} if version is None else {"toolyard/version": version}
    exchange = client(revision).call(name, {"name": "Ada"}, meta=meta)
    assert exchange.error()["code"] == -32602
    assert exchange.status == (400 if revision == MODERN else 200)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": "greet", "arguments": 7}, {"name": None}])
def test_a_call_that_is_none_is_a_protocol_error(client: Connect, revision: str, params: dict[str, Any]) -> None:
    assert client(revision).request("tools/call", params).error()["code"] == -32602


# --- what a model can act on ---------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("Kit_Add", {}, ["a", "required"]),
        ("Kit_Add", {"a": "one"}, ["a", "whole number", '"one"']),
        ("Kit_Add", {"a": 1, "c": 2}, ["c"]),
        ("greet", {"name": "far too long a name"}, ["name", "10"]),
        ("Kit_Plain", {"a": 1}, ["a"]),
    ],
)
def test_arguments_that_do_not_fit_are_explained(
    client: Connect, revision: str, tool: str, arguments: dict[str, Any], words: list[str]
) -> None:
    result = client(revision).call(tool, arguments).result()
    assert result["isError"] is True
    said = text_of(result)
    assert all(word in said for word in words), said


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_failure_says_what_the_model_should_know_and_no_more(client: Connect, revision: str) -> None:
    result = client(revision).call("Kit_Fail").result()
    assert result["isError"] is True
    assert text_of(result) == "It is closed\nTry Monday."
    assert result["_meta"]["toolyard/error"] == {"can_retry": True, "retry_after_ms": 7, "has_prompt_content": True}
    assert "Sundays" not in str(result)
    crashed = client(revision).call("Kit_Crash").result()
    assert crashed["isError"] is True
    assert "hunter2" not in str(crashed)


@pytest.mark.parametrize("tool", ["Kit_ClosePlain", "Kit_CloseAsync"])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_tool_that_raises_what_closes_coroutines_has_failed_like_any_other(
    client: Connect, revision: str, tool: str
) -> None:
    result = client(revision).call(tool).result()
    assert result["isError"] is True
    assert text_of(result).endswith("failed unexpectedly")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_hidden_parameter_is_refused_in_arguments_and_taken_from_meta(client: Connect, revision: str) -> None:
    sender = client(revision)
    filled = sender.call("Kit_Secretive", {"text": "a", "token": "b"}).result()
    assert filled["isError"] is True
    assert "token" in text_of(filled)
    given = sender.call("Kit_Secretive", {"text": "a"}, meta={"toolyard/arguments": {"token": "b", "text": "c"}})
    assert text_of(given.result()) == "a b"
    assert text_of(sender.call("Kit_WholeSecret").result()) == "none"
    lacking = sender.call("Kit_Secretive", {"text": "a"}).result()
    assert lacking["isError"] is True


# --- the same call again -------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_with_a_key_runs_once(server: Server, stage: Stage, name: str, revision: str) -> None:
    sender = connect(server.url, revision)
    meta = {"toolyard/callId": f"key-{name}"}
    first = sender.act(name, meta=meta)
    visit = stage.visit(name)
    second = sender.act(name, meta=meta)
    visit.ends("once")
    assert text_of(first.result()) == text_of(second.result()) == "once"
    assert text_of(sender.act(name, meta=meta).result()) == "once"
    assert stage.is_empty(name)
    other = sender.call("Play_Act", {"name": "other"}, meta=meta)
    conflict = other.response()
    assert "error" in conflict or conflict["result"]["isError"]
    assert "another call" in str(conflict)
    with urlopen(f"{server.root}/v1/calls/key-{name}") as reply:
        shown = decode(reply.read())
    assert (shown["state"], shown["tool"]) == ("COMPLETE", "Play.Act@1.0.0")


def test_a_key_means_the_same_call_on_another_wire(server: Server, name: str) -> None:
    connect(server.url, MODERN).call("Kit_Add", {"a": 5}, meta={"toolyard/callId": name}).result()
    body = b'{"tool_id": "Kit.Add", "input": {"a": 5}, "call_id": "%b"}' % name.encode()
    request = Request(f"{server.root}/tools/call", body, {"content-type": "application/json"})
    with urlopen(request) as reply:
        said = decode(reply.read())
    assert (said["success"], said["value"], said["call_id"]) == (True, 6, name)


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", 7])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_key_that_cannot_be_one_is_refused(client: Connect, revision: str, key: Any) -> None:
    error = client(revision).call("Kit_Add", {"a": 1}, meta={"toolyard/callId": key}).error()
    assert error["code"] == -32602


# --- requirements --------------------------------------------------------------------------------


def test_who_must_authorize_is_sent_to_an_address(client: Connect) -> None:
    error = client("2025-11-25", elicitation={"form": {}, "url": {}}).call("Kit_Authorized").error()
    assert error["code"] == -32042
    (asked,) = error["data"]["elicitations"]
    assert asked["mode"] == "url"
    result = client(MODERN, elicitation={"url": {}}).call("Kit_Authorized").result()
    assert result["resultType"] == "input_required"
    (question,) = result["inputRequests"].values()
    assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")


def test_a_client_that_cannot_send_anybody_anywhere_is_told(client: Connect) -> None:
    for revision in OLDER:
        result = client(revision).call("Kit_Authorized").result()
        assert result["isError"] is True
        assert "http" in text_of(result)
    error = client(MODERN).call("Kit_Authorized").error()
    assert error["code"] == -32021
    assert error["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}
    link = error["data"]["elicitations"][0]["url"]
    assert error["message"].endswith(f"open {link}")


def test_a_declared_need_is_checked_before_the_run(client: Connect, stage: Stage, name: str) -> None:
    for revision in REVISIONS:
        error = client(revision).act(name, "Play_Model").error()
        assert error["code"] == -32021, revision
        assert error["data"]["requiredCapabilities"] == {"sampling": {}}
    assert stage.is_empty(name)


def test_a_client_that_takes_no_stream_is_answered_all_the_same(server: Server, stage: Stage, name: str) -> None:
    older = Older(server.url, "2025-11-25").initialize()
    older.wire.headers["accept"] = "application/json"
    exchange = older.act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    visit.tell("progress", 1, 2)
    visit.hear()
    visit.ends()
    assert not exchange.is_stream
    assert text_of(exchange.result()) == "done"
