"""JSON-RPC: what is no message, and several at once."""

from typing import Any

import pytest

from .conftest import Connect
from .schemas import MODERN, REVISIONS
from .serving import Server
from .talking import Client, Older, connect, decode

BAD = [
    (b"", -32700),
    (b"{", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    (b"nonsense", -32700),
    (b"1", -32600),
    (b"null", -32600),
    (b"{}", -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}', -32600),
    (b'{"id":1,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"x"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":3}}', -32602),
]


@pytest.mark.parametrize(("body", "code"), BAD)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_what_is_no_message_is_a_json_rpc_error(client: Connect, revision: str, body: bytes, code: int) -> None:
    exchange = client(revision).post(body, mcp_method="tools/list")
    error = exchange.error()
    assert error["code"] == code
    assert 200 <= exchange.status < 500


@pytest.mark.parametrize("revision", REVISIONS)
def test_json_that_is_nested_too_deeply_is_a_json_rpc_error(client: Connect, revision: str) -> None:
    for depth in (70, 1000, 100_000):
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"
        exchange = client(revision).post(body, mcp_method="tools/list")
        assert exchange.error()["code"] in (-32700, -32600), depth
        assert 400 <= exchange.status < 500


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_body_that_is_too_large_is_a_json_rpc_error(small: Server, revision: str) -> None:
    client = connect(small.url, revision)
    exchange = client.call("greet", {"name": "x" * 30_000})
    assert exchange.status == 413
    assert exchange.error()["code"] == -32600


@pytest.mark.parametrize("revision", REVISIONS)
def test_another_media_type_is_a_json_rpc_error(client: Connect, revision: str) -> None:
    newer = client(revision)
    exchange = newer.post(newer.made("tools/list", {}), content_type="text/plain")
    assert exchange.status == 415
    assert exchange.error()["code"] == -32600


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_media_type_may_have_parameters(client: Connect, revision: str) -> None:
    sender = client(revision)
    for kind in ("application/json; charset=utf-8", "Application/JSON;charset=UTF-8"):
        assert sender.post(sender.made("tools/list", {}), content_type=kind).status == 200


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("id", [0, -1, 2**53, "", "x" * 300, "é\n"])
def test_ids_come_back_as_they_were(client: Connect, revision: str, id: Any) -> None:
    sender = client(revision)
    found = decode(sender.post(sender.made("tools/list", {}, id)).body())
    assert found["id"] == id
    assert type(found["id"]) is type(id)


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_error_says_which_request_it_is_about(client: Connect, revision: str) -> None:
    sender = client(revision)
    for sent in (
        sender.made("no/such", {}, "a"),
        sender.made("tools/call", {"name": 7}, "a"),
        sender.made("tools/call", {"name": "nobody"}, "a"),
        {"jsonrpc": "1.0", "id": "a", "method": "tools/list"},
    ):
        assert decode(sender.post(sent, mcp_name="nobody").body())["id"] == "a", sent


# --- batches -------------------------------------------------------------------------------------


def pings(client: Client, *ids: Any) -> list[Any]:
    return [client.made("ping", {}, id) for id in ids]


def test_several_at_once_are_answered_together(client: Connect) -> None:
    older = client("2025-03-26")
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    call = older.made("tools/call", {"name": "greet", "arguments": {"name": "Ada"}}, "c")
    exchange = older.post([*pings(older, 1, 2), initialized, call, older.made("no/such", {}, 4)])
    found = {each["id"]: each for each in decode(exchange.body())}
    assert found.keys() == {1, 2, "c", 4}
    assert found["c"]["result"]["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert found[4]["error"]["code"] == -32601


def test_several_results_of_the_ledger_are_read_together(client: Connect) -> None:
    """More than one caller reads at once."""
    older = client("2025-03-26")
    older.call("greet", {"name": "Ada"}, meta={"toolyard/callId": "read-together"}).result()
    uri = "toolyard://calls/read-together/content"
    found = decode(older.post([older.made("resources/read", {"uri": uri}, id) for id in range(5)]).body())
    assert [each["result"]["contents"][0]["uri"] for each in found] == [uri] * 5


def test_several_notifications_are_accepted(client: Connect) -> None:
    exchange = client("2025-03-26").post([{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2)
    assert (exchange.status, exchange.body()) == (202, b"")


def test_one_that_is_wrong_does_not_spoil_the_others(client: Connect) -> None:
    older = client("2025-03-26")
    for wrong in (
        older.made("logging/setLevel", {"level": "loud"}, 2),
        older.made("initialize", {}, 2),
        older.made("tools/call", {"name": 7}, 2),
    ):
        found = {each["id"]: each for each in decode(older.post([*pings(older, 1), wrong]).body())}
        assert "result" in found[1], wrong
        assert found[2]["error"]["code"] in (-32602, -32600), wrong


def test_an_element_that_is_no_message_does_not_spoil_the_others(client: Connect) -> None:
    older = client("2025-03-26")
    found = decode(older.post([*pings(older, 1), 7]).body())
    assert isinstance(found, list)
    assert [each["error"]["code"] for each in found if "error" in each] == [-32600]
    assert [each["id"] for each in found if "result" in each] == [1]


def test_white_space_before_a_batch_is_nothing(client: Connect) -> None:
    found = decode(client("2025-03-26").post(b' \n[{"jsonrpc":"2.0","id":1,"method":"ping"}]').body())
    assert found == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_none_at_once_is_no_batch(client: Connect) -> None:
    assert client("2025-03-26").post([]).error()["code"] == -32600


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
def test_other_revisions_have_no_batches(client: Connect, revision: str) -> None:
    sender = client(revision)
    exchange = sender.post([sender.made("tools/list", {})])
    assert (exchange.status, exchange.error()["code"]) == (400, -32600)


def test_a_question_in_a_batch_cannot_be_asked(server: Server, stage: Any, name: str) -> None:
    older = Older(server.url, "2025-03-26", elicitation={}).initialize()
    exchange = older.post([older.made("tools/call", {"name": "Play_Act", "arguments": {"name": name}}, 1)])
    visit = stage.visit(name)
    visit.tell("ask", "a")
    assert "cannot" in visit.hear()["refused"]
    ((found,), status) = decode(exchange.body()), exchange.status
    assert status == 200
    assert found["result"]["isError"]
