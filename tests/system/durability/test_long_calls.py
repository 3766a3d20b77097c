"""Calls that take long: answered early, cancelled, left by their client, left by their server."""

import http.client
import resource
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolyard import Busy, Client

from .serving import Server, calling

Start = Callable[..., Server]
HASTY = {"TOOLYARD_SYNC_WAIT_S": "0.2"}


def post(server: Server, path: str, body: Any = None) -> tuple[int, Any]:
    return ask(server, "POST", path, body or {})


def ask(server: Server, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    sent = None if body is None else msgspec.json.encode(body)
    try:
        connection.request(method, path, sent, {"content-type": "application/json"})
        reply = connection.getresponse()
        return reply.status, msgspec.json.decode(reply.read() or b"null")
    finally:
        connection.close()


def go(server: Server) -> None:
    server.marks.with_name("marks.go").touch()


def started(server: Server, tool: str, **more: Any) -> Any:
    """A call that is not waited for longer than the server does."""
    status, body = post(server, "/tools/call", {"tool_id": tool, "input": {"text": "x"}, **more})
    assert (status, body["success"]) == (200, False), body
    return body


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("tool", ["Marks.Patient", "Marks.Stubborn", "Marks.Heavy"])
def test_a_slow_call_without_a_key_is_told_where_its_result_will_be(start: Start, tool: str) -> None:
    server = start(**HASTY)
    body = started(server, tool)
    assert body["error"]["can_retry"] is False
    assert f"/v1/calls/{body['call_id']}" in body["error"]["message"]
    shown = server.call(f"{body['call_id']}?wait=0&x=")
    assert (shown["state"], shown["attempt"]) == ("PROCESSING", 1)


def test_a_slow_call_goes_on_and_its_result_can_be_had(start: Start) -> None:
    server = start(**HASTY)
    call_id = started(server, "Marks.Patient")["call_id"]
    until(lambda: "progress" in server.call(f"{call_id}?wait=0&x="))
    assert server.call(f"{call_id}?wait=0&x=")["progress"] == {"done": 1.0, "total": 2.0, "message": "half way"}
    go(server)
    assert server.call(call_id)["value"] == "x"
    assert server.marked() == 1


def test_a_slow_call_survives_its_server(start: Start) -> None:
    """It was promised to its client, so it is in the ledger."""
    server = start(**HASTY)
    call_id = started(server, "Marks.Patient")["call_id"]
    server.kill()
    server.start()
    assert server.call(call_id)["code"] == "outcome_unknown"


@pytest.mark.parametrize("tool", ["Marks.Patient", "Marks.Stubborn"])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_cancelled_call_is_stopped(start: Start, tool: str, key: str | None) -> None:
    server = start(**HASTY)
    call_id = started(server, tool, **({"call_id": key} if key else {}))["call_id"]
    status, body = post(server, f"/v1/calls/{call_id}/cancel")
    assert (status, body["state"], body["code"], body["effects"]) == (200, "ERROR", "cancelled", "unknown")
    server.wait_for_marks(2)
    assert server.marks.read_text().split() == ["x", "stopped"]
    assert post(server, f"/v1/calls/{call_id}/cancel")[1] == body, "the first one won"


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_cancelled_process_is_killed(start: Start) -> None:
    server = start(**HASTY)
    call_id = started(server, "Marks.Heavy")["call_id"]
    server.wait_for_marks(1)
    post(server, f"/v1/calls/{call_id}/cancel")
    child = int(server.marks.read_text())
    until(lambda: not is_running(child))


def test_a_process_does_not_outlive_a_killed_server(start: Start) -> None:
    server = start(**HASTY)
    started(server, "Marks.Heavy")
    server.wait_for_marks(1)
    server.kill()
    child = int(server.marks.read_text())
    until(lambda: not is_running(child))


def test_what_has_ended_cannot_be_cancelled_and_the_answer_shows_it(server: Server) -> None:
    with Client(server.url) as client:
        client.call("Marks.Quick", {"text": "x"}, call_id="k")
    status, body = post(server, "/v1/calls/k/cancel")
    assert (status, body["state"], body["value"]) == (200, "COMPLETE", 1)
    assert post(server, "/v1/calls/other/cancel")[0] == 404


@pytest.mark.parametrize(
    ("tool", "key", "ends"),
    [
        ("Marks.Patient", None, "stopped"),
        ("Marks.Attached", None, "stopped"),
        ("Marks.Attached", "k", "stopped"),
        ("Marks.Unmoved", None, "done"),
        ("Marks.Unmoved", "k", "done"),
    ],
)
def test_a_client_that_goes_away(server: Server, tool: str, key: str | None, ends: str) -> None:
    body = {"tool_id": tool, "input": {"text": "x"}, **({"call_id": key} if key else {})}
    sent = msgspec.json.encode(body)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /tools/call HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
        client.sendall(b"content-length: %d\r\n\r\n%b" % (len(sent), sent))
        server.wait_for_marks(1)
    if ends == "done":
        go(server)
    server.wait_for_marks(2)
    assert server.marks.read_text().split() == ["x", ends]


def test_a_keyed_call_goes_on_without_its_client(server: Server) -> None:
    body = msgspec.json.encode({"tool_id": "Marks.Patient", "call_id": "k", "input": {"text": "x"}})
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /tools/call HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
        client.sendall(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        server.wait_for_marks(1)
    go(server)
    assert server.call("k")["value"] == "x"


@pytest.mark.parametrize("signals", [1, 2])
def test_a_server_that_leaves_hands_back_what_may_run_again_and_is_honest_about_the_rest(
    start: Start, signals: int
) -> None:
    server = start(TOOLYARD_GRACE_S="0.2" if signals == 1 else "600", **HASTY)
    started(server, "Marks.Harmless", call_id="again")
    started(server, "Marks.Patient", call_id="never")
    slow = started(server, "Marks.Patient")["call_id"]
    server.wait_for_marks(3)
    server.process.terminate()
    if signals == 2:
        until(lambda: "draining" in health(server))
        server.process.terminate()
    assert server.process.wait(30) == 0
    server.start()
    assert server.call("never")["code"] == "outcome_unknown"
    assert server.call(slow)["code"] == "outcome_unknown"
    again = server.call("again")
    assert (again["state"], again["attempt"]) == ("COMPLETE", 2)


def health(server: Server) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().read().decode()
    except OSError:
        return "draining"
    finally:
        connection.close()


def test_a_call_that_waits_for_its_tool_too_long_is_told_so(start: Start) -> None:
    server = start(TOOLYARD_QUEUE_WAIT_S="0.2", TOOLYARD_QUEUE_LIMIT="1")
    with calling(server, "Marks.Single", "first"):
        server.wait_for_marks(1)
        with Client(server.url, retries=0) as client, pytest.raises(Busy) as busy:
            client.call("Marks.Single", {"text": "second"}, call_id="second")
        assert busy.value.retry_after_ms == 200
        go(server)
    with Client(server.url) as client:
        assert client.call("Marks.Single", {"text": "second"}, call_id="second") == "second", "nothing was stored"


def test_a_full_disk_is_told_at_once_and_forgotten_when_it_is_over(server: Server) -> None:
    with Client(server.url, retries=0) as client:
        client.call("Marks.Quick", {"text": "x"}, call_id="before")
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(Busy):
            client.call("Marks.Quick", {"text": "x" * 20_000}, call_id="large")
        until(lambda: "without its ledger" in health(server))
        for call_id in (None, "k"):
            status, body = post(server, "/tools/call", {"tool_id": "Marks.Quick", "call_id": call_id or "z"})
            assert (status, body["retry_after_ms"]) == (400, 1000)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
        until(lambda: '"ok"' in health(server))
        assert client.call("Marks.Quick", {"text": "y"}, call_id="large") == 2


def test_who_only_waits_does_not_hold_up_a_server_that_leaves(start: Start) -> None:
    server = start(TOOLYARD_GRACE_S="600")
    definition = {"id": "Away.Tool", "input_schema": {}}
    assert ask(server, "PUT", "/v1/workers/w", {"tools": [definition]})[0] == 200
    opened = ask(server, "POST", "/v1/sessions", {"tools": [{"name": "own", "description": "", "input_schema": {}}]})[1]
    session = opened["sessionId"]
    use = {"type": "tool_use", "id": "a", "name": "own", "input": {}}
    ask(server, "POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})
    waits = [
        ("POST", "/tools/call", {"tool_id": "Away.Tool", "call_id": "k"}),
        ("GET", "/v1/calls/k?wait=60", None),
        ("POST", "/v1/tools/claim", {"tools": ["Nothing.*"], "wait": 60}),
        ("GET", "/v1/tools/requests?tool=nothing&wait=60", None),
        ("GET", f"/v1/sessions/{session}/results?wait=60", None),
    ]
    with ThreadPoolExecutor() as pool:
        first = pool.submit(ask, server, *waits[0])
        until(lambda: ask(server, "GET", "/v1/calls/k")[0] == 200)
        others = [pool.submit(ask, server, *wait) for wait in waits[1:]]
        until(lambda: requests_under_way(server) >= len(waits))
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert first.result()[1]["error"]["can_retry"] is True
        assert [other.result()[0] for other in others] == [200, 200, 200, 202]


def requests_under_way(server: Server) -> int:
    """Connections to the server on which somebody waits."""
    table = Path(f"/proc/{server.process.pid}/net/tcp").read_text()
    return sum(f":{server.port:04X} " in line.split(" 01 ")[0] for line in table.splitlines() if " 01 " in line)
