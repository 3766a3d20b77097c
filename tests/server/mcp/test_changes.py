"""`listChanged`: a worker joins or leaves, and whoever wants to hear of it does, on every node."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ...cli.processes import command
from ...conformance.serving import environment
from ...worker.processes import until
from .schemas import MODERN, OLDER
from .serving import SECRET, Server, Start
from .talking import PREFIX, Exchange, Newer, Older

AWAY = '''
from toolyard import Toolkit

away = Toolkit("Away", version="1.0.0")


@away.tool
async def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()
'''
CHANGED = "notifications/tools/list_changed"


def asked(server: Server, method: str, path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = Request(server.root + path, content, {"content-type": "application/json"}, method=method)
    with urlopen(request, timeout=10) as reply:
        return json.loads(reply.read() or b"null")


@contextmanager
def worker(server: Server, name: str) -> Iterator[None]:
    """Registered, with a tool of its own, as long as the block lasts."""
    tools = [{"id": f"Away.{name}", "input_schema": {"type": "object"}}]
    asked(server, "PUT", f"/v1/workers/{name}", {"tools": tools})
    try:
        yield
    finally:
        asked(server, "DELETE", f"/v1/workers/{name}")


def listening(server: Server, **wanted: Any) -> Exchange:
    """A stream of the newer era, once it is acknowledged."""
    stream = Newer(server.url).request("subscriptions/listen", {"notifications": wanted}, "sub")
    acknowledged = stream.next()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == wanted
    assert acknowledged["params"]["_meta"][PREFIX + "subscriptionId"] == "sub"
    return stream


def heard(stream: Exchange) -> Any:
    message = stream.next()
    assert message["method"] == CHANGED
    return message


@pytest.fixture
def own(start: Start) -> Server:
    return start()


def names(client: Any) -> set[str]:
    return {tool["name"] for tool in client.result("tools/list")["tools"]}


def test_a_worker_that_joins_and_leaves_is_heard_of_in_the_newer_era(own: Server) -> None:
    stream, newer = listening(own, toolsListChanged=True), Newer(own.url)
    with worker(own, "W1"):
        assert heard(stream)["params"]["_meta"][PREFIX + "subscriptionId"] == "sub"
        assert "Away_W1" in names(newer)
    heard(stream)
    assert "Away_W1" not in names(newer)


def test_a_worker_that_joins_and_leaves_is_heard_of_in_the_older_era(own: Server) -> None:
    clients = [Older(own.url, revision).initialize() for revision in OLDER]
    streams = [client.get() for client in clients]
    assert all(stream.is_stream for stream in streams)
    with worker(own, "W2"):
        for stream, client in zip(streams, clients, strict=True):
            heard(stream)
            assert "Away_W2" in names(client)
    for stream, client in zip(streams, clients, strict=True):
        heard(stream)
        assert "Away_W2" not in names(client)


def test_a_real_worker_is_heard_of(own: Server, tmp_path: Path) -> None:
    (tmp_path / "away.py").write_text(AWAY, encoding="utf-8")
    stream, newer = listening(own, toolsListChanged=True), Newer(own.url)
    arguments = command("worker", "away.py", "--server", own.root)
    process = subprocess.Popen(arguments, cwd=tmp_path, env=environment("open"), stdout=subprocess.DEVNULL)
    try:
        heard(stream)
        assert newer.call("Away_Shout", {"text": "hey"}).result()["content"] == [{"type": "text", "text": "HEY"}]
        process.terminate()
        heard(stream)
        assert "Away_Shout" not in names(newer)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.wait()


def test_who_did_not_ask_is_not_told(own: Server) -> None:
    """Its stream ends with the server, and nothing but its end was heard."""
    deaf, stream = listening(own, promptsListChanged=True), listening(own, toolsListChanged=True)
    with worker(own, "W3"):
        heard(stream)
    heard(stream)
    assert own.process is not None
    own.process.terminate()
    assert [message for message in deaf.rest() if "method" in message] == []


@pytest.mark.parametrize("params", [{}, {"notifications": 7}, {"notifications": {"toolsListChanged": "yes"}}])
def test_a_subscription_to_nothing_that_there_is_is_refused(server: Server, params: dict[str, Any]) -> None:
    assert Newer(server.url).request("subscriptions/listen", params).error()["code"] == -32602


def test_a_server_that_stops_ends_its_streams_in_order(own: Server) -> None:
    stream, older = listening(own, toolsListChanged=True), Older(own.url, "2025-11-25").initialize().get()
    assert older.is_stream
    assert own.process is not None
    own.process.terminate()
    response = stream.next()
    assert (response["id"], response["result"]["resultType"]) == ("sub", "complete")
    assert response["result"]["_meta"][PREFIX + "subscriptionId"] == "sub"
    assert stream.next() is None
    assert older.next() is None
    assert own.process.wait(15) == 0


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_worker_at_one_node_is_heard_of_at_the_other(start: Start, postgres_url: str, revision: str) -> None:
    common = {"store": postgres_url, "secret_key": SECRET, "lease_s": "3"}
    one, other = start(**common), start(**common)
    if revision == MODERN:
        stream = listening(other, toolsListChanged=True)
        client: Any = Newer(other.url)
    else:
        client = Older(other.url, revision).initialize()
        stream = client.get()
        assert stream.is_stream
    with worker(one, "W4"):
        heard(stream)
        until(lambda: "Away_W4" in names(client))
    heard(stream)
    until(lambda: "Away_W4" not in names(client))


def test_a_worker_that_is_gone_without_a_word_is_heard_of(start: Start) -> None:
    server = start(lease_s="1")
    stream = listening(server, toolsListChanged=True)
    asked(server, "PUT", "/v1/workers/W5", {"tools": [{"id": "Away.W5", "input_schema": {"type": "object"}}]})
    heard(stream)
    heard(stream)
    assert "Away_W5" not in names(Newer(server.url))


def test_a_listed_page_is_new_when_the_list_is(own: Server) -> None:
    """Many clients list while workers come and go: nobody sees a list that was true before its change was told."""
    older = Older(own.url, "2025-11-25").initialize()
    stream = older.get()
    assert stream.is_stream
    ended = threading.Event()

    def hammer() -> None:
        client = Newer(own.url)
        while not ended.is_set():
            names(client)
            client.close()

    busy = threading.Thread(target=hammer)
    busy.start()
    try:
        for number in range(10):
            with worker(own, f"H{number}"):
                heard(stream)
                assert f"Away_H{number}" in names(older)
            heard(stream)
            assert f"Away_H{number}" not in names(older)
    finally:
        ended.set()
        busy.join()
