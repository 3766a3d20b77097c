"""Limits over every wire, through real servers."""

import asyncio
import itertools
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.serving import running
from tests.server.mcp.talking import WITH_TASKS, Newer, connect, text_of
from tests.system.hardening.raw import DEADLINE_S, Connection, Reply, ask, assert_serves, connected, request
from toolyard import Busy, Client
from toolyard.client.protocols import WIRES
from toolyard.model.clock import Clock
from toolyard.server.app.compose import Yard
from toolyard.server.http.limits import ServerLimits
from toolyard.server.settings.table import exactly

from ..scene import Scene
from ..scene import kit as safe
from ..scene import settings as scene_settings

TOOLS = str(Path(__file__).parents[1] / "limited.py")
KEYS = {f"caller{number}": f"ty_limited_{number:04}_0123456789" for number in range(60)}
LIMITS: list[dict[str, Any]] = [
    {"name": "calls", "per": ["caller", "tool"], "tools": ["Kit.Echo"], "calls_per_minute": 3},
    {"name": "runs", "per": "caller", "tools": ["Kit.Hold"], "at_once": 1},
]
_unused = itertools.count()


def settings(**more: Any) -> dict[str, str]:
    """As the environment has them."""
    given = {"api_keys": ",".join(f"{name}:{key}" for name, key in KEYS.items()), **more}
    return {f"TOOLYARD_{name.upper()}": text_in(value) for name, value in given.items()}


def text_in(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("open", tmp_path_factory.mktemp("limited"), [TOOLS], settings(limits=LIMITS)) as address:
        yield address


@pytest.fixture
def key() -> str:
    """Of a caller that has not called before."""
    return KEYS[f"caller{next(_unused)}"]


def call(key: str, tool: str, **input: Any) -> bytes:
    body = json.dumps({"tool_id": f"Kit.{tool}", "input": input}).encode()
    return request("POST", "/tools/call", {"Authorization": f"Bearer {key}"}, body)


def send(server: str, key: str, method: str, path: str, body: Any = None) -> Reply:
    data = b"" if body is None else json.dumps(body).encode()
    return ask(server, request(method, path, {"Authorization": f"Bearer {key}"}, data))


# -- every wire ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [*WIRES, "mcp"])
def test_a_call_that_is_too_many_is_refused_and_says_when_to_come_back(server: str, key: str, wire: str) -> None:
    address = f"{server}/mcp" if wire == "mcp" else server
    with Client(address, key=key, wire=None if wire == "mcp" else wire, retries=0) as client:  # type: ignore[arg-type]
        for _ in range(3):
            assert client.call("Kit.Echo", {"value": "hi"}) == "hi"
        with pytest.raises(Busy) as refused:
            client.call("Kit.Echo", {"value": "hi"})
        assert 15_000 < refused.value.retry_after_ms <= 20_000
        assert client.call("Kit.Large", {"size": 1}) == "x", "other tools have limits of their own"


def test_over_oxp_a_refusal_has_the_headers_that_clients_look_at(server: str, key: str) -> None:
    for _ in range(3):
        assert ask(server, call(key, "Echo", value="hi")).status == 200
    refused = ask(server, call(key, "Echo", value="hi"))
    assert refused.status == 400
    assert refused.headers["x-should-retry"] == "true"
    assert 15 < int(refused.headers["retry-after"]) <= 20
    assert int(refused.headers["retry-after-ms"]) == refused.json["retry_after_ms"]
    assert refused.json["developer_message"] == "calls: 3 calls a minute per caller and tool"
    assert "Too many calls" in refused.json["message"]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_over_mcp_a_refusal_is_a_result_that_a_model_can_read(server: str, key: str, revision: str) -> None:
    client = connect(f"{server}/mcp", revision, key)
    results = [client.call("Kit_Echo", {"value": "hi"}).result() for _ in range(4)]
    assert [bool(each.get("isError")) for each in results] == [False, False, False, True]
    assert "Too many calls; try again in 20 s" in text_of(results[-1])
    client.close()


def test_a_task_is_limited_as_a_call_is(server: str, key: str) -> None:
    older = connect(f"{server}/mcp", "2025-11-25", key)
    first = older.call("Kit_Hold", {"name": key}, task={}).result()
    assert first["task"]["status"] == "working"
    second = older.call("Kit_Hold", {"name": key}, task={}).result()
    assert second["isError"]
    assert "Too many calls" in text_of(second)
    ask(server, call(key, "LetGo", name=key))
    assert until_taken(lambda: not older.call("Kit_Hold", {"name": key}, task={}).result().get("isError"))
    older.close()


def until_held(server: str, key: str, name: str) -> None:
    until_taken(lambda: ask(server, call(key, "IsHeld", name=name)).json["value"])


def until_taken(is_taken: Any) -> bool:
    deadline = time.monotonic() + 10
    while not is_taken():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return True


def test_a_session_message_is_refused_whole_and_can_be_sent_again(server: str, key: str) -> None:
    session = send(server, key, "POST", "/v1/sessions", {"tools": []}).json["sessionId"]
    messages = f"/v1/sessions/{session}/messages"

    def uses(*ids: str) -> dict[str, Any]:
        content = [{"type": "tool_use", "id": id, "name": "Kit_Echo", "input": {"value": id}} for id in ids]
        return {"role": "assistant", "content": content}

    assert send(server, key, "POST", messages, uses("a", "b")).status == 200
    refused = send(server, key, "POST", messages, uses("c", "d"))
    assert (refused.status, refused.headers["x-should-retry"]) == (429, "true")
    known = [each["requestId"] for each in send(server, key, "GET", f"/v1/sessions/{session}").json["requests"]]
    assert known == ["a", "b"], "nothing of a refused message is taken"
    assert send(server, key, "POST", messages, uses("a", "b")).status == 200, "what is known is not limited"
    assert send(server, key, "POST", messages, uses("c")).status == 200, "what was refused used up nothing"
    assert send(server, key, "POST", messages, uses("a", "b", "c")).status == 200
    assert send(server, key, "POST", messages, uses("d")).status == 429


def test_tools_that_a_session_brought_count_by_the_minute(tmp_path: Path) -> None:
    limits = [{"name": "all", "calls_per_minute": 4, "at_once": 1}, {"name": "kit", "tools": ["Kit.*"], "at_once": 1}]
    with running("open", tmp_path, [TOOLS], settings(limits=limits)) as server:
        key = KEYS["caller0"]
        tool = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
        session = send(server, key, "POST", "/v1/sessions", {"tools": [tool]}).json["sessionId"]

        def use(name: str, *ids: str) -> Reply:
            content = [{"type": "tool_use", "id": id, "name": name, "input": {}} for id in ids]
            message = {"role": "assistant", "content": content}
            return send(server, key, "POST", f"/v1/sessions/{session}/messages", message)

        assert use("find", "a", "b").status == 200, "they wait for the caller, and are not among those at once"
        refused = use("find", "c", "d")
        assert (refused.status, "Too many calls" in refused.body.decode()) == (429, True)
        assert use("find", "a", "b").status == 200, "what is known does not count"
        assert use("nothing", "c").status == 200, "what is not there is recorded, too"
        assert use("nothing", "d").status == 429


# -- what counts -----------------------------------------------------------------------------------


def test_a_replay_costs_nothing_and_a_refusal_takes_no_key(server: str, key: str) -> None:
    with Client(server, key=key, retries=0) as client:
        for _ in range(20):
            assert client.call("Kit.Echo", {"value": "a"}, call_id="a") == "a"
        for number in range(2):
            assert client.call("Kit.Echo", {"value": "b"}, call_id=f"b{number}") == "b"
        with pytest.raises(Busy):
            client.call("Kit.Echo", {"value": "c"}, call_id="c")
        assert client.call("Kit.Echo", {"value": "a"}, call_id="a") == "a", "a replay is answered all the same"
        assert send(server, key, "GET", "/v1/calls/c").status == 404


def test_a_join_costs_nothing(server: str, key: str) -> None:
    with ThreadPoolExecutor(6) as pool, Client(server, key=key, retries=0) as client:
        held = [pool.submit(call_once, server, key, "same") for _ in range(5)]
        until_held(server, key, "same")
        with pytest.raises(Busy, match="Too many calls"):
            client.call("Kit.Hold", {"name": "other"}, call_id="other")
        assert ask(server, call(key, "LetGo", name="same")).status == 200
        assert [each.result() for each in held] == ["same"] * 5
        assert ask(server, call(key, "LetGo", name="other")).status == 200
        assert until_taken(lambda: ask(server, call(key, "Hold", name="other")).status == 200)


def call_once(server: str, key: str, name: str) -> Any:
    with Client(server, key=key, retries=0) as client:
        return client.call("Kit.Hold", {"name": name}, call_id=name)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_call_that_outlives_its_request_still_counts(tmp_path: Path, keyed: bool) -> None:
    key = KEYS["caller0"]
    with running("open", tmp_path, [TOOLS], settings(limits=LIMITS, sync_wait_s="0.2")) as server:
        body = {"tool_id": "Kit.Hold", "input": {"name": "x"}, **({"call_id": "x"} if keyed else {})}
        early = send(server, key, "POST", "/tools/call", body)
        assert early.json["success"] is False, "it was answered early"
        assert ask(server, call(key, "Hold", name="y")).status == 400
        assert ask(server, call(key, "LetGo", name="x")).status == 200
        assert ask(server, call(key, "LetGo", name="y")).status == 200
        assert until_taken(lambda: ask(server, call(key, "Hold", name="y")).status == 200)


def test_a_client_that_leaves_takes_its_call_out_of_the_count(server: str, key: str) -> None:
    with connected(server) as connection:
        connection.send(call(key, "Hold", name=f"gone {key}"))
        until_held(server, key, f"gone {key}")
        assert ask(server, call(key, "Hold", name="z")).status == 400
    ask(server, call(key, "LetGo", name="z"))
    assert until_taken(lambda: ask(server, call(key, "Hold", name="z")).status == 200)


# -- addresses, credentials, connections -----------------------------------------------------------


def test_an_address_is_limited_and_a_trusted_proxy_says_which(tmp_path: Path) -> None:
    limits = [{"per": "address", "calls_per_minute": 2}]
    trusted = settings(limits=limits, trusted_proxies="127.0.0.0/8")
    with running("open", tmp_path, [TOOLS], trusted) as server:

        def status(forwarded: str) -> int:
            body = json.dumps({"tool_id": "Kit.Echo", "input": {"value": "x"}}).encode()
            headers = {"Authorization": f"Bearer {KEYS['caller0']}", "X-Forwarded-For": forwarded}
            return ask(server, request("POST", "/tools/call", headers, body)).status

        assert [status("10.0.0.1") for _ in range(3)] == [200, 200, 400]
        assert [status("9.9.9.9, 10.0.0.1") for _ in range(2)] == [400, 400], "what the client says itself is nothing"
        assert [status("10.0.0.2") for _ in range(3)] == [200, 200, 400]
        assert status("nonsense") == 200, "it counts for the proxy itself"


def test_without_trusted_proxies_nobody_is_believed(tmp_path: Path) -> None:
    limits = [{"per": "address", "calls_per_minute": 2}]
    with running("open", tmp_path, [TOOLS], settings(limits=limits)) as server:
        statuses = []
        for number in range(3):
            headers = {"Authorization": f"Bearer {KEYS['caller0']}", "X-Forwarded-For": f"10.0.0.{number}"}
            body = json.dumps({"tool_id": "Kit.Echo", "input": {"value": "x"}}).encode()
            statuses.append(ask(server, request("POST", "/tools/call", headers, body)).status)
        assert statuses == [200, 200, 400]


def test_keys_cannot_be_guessed_at_full_speed(tmp_path: Path) -> None:
    with running("open", tmp_path, [TOOLS], settings(auth_failures_per_minute="3")) as server:
        wrong, right = "ty_wrong_0123456789abcdef", KEYS["caller0"]
        assert [send(server, wrong, "GET", "/tools").status for _ in range(3)] == [401] * 3
        for key in (wrong, right):
            refused = send(server, key, "GET", "/tools")
            assert (refused.status, refused.headers["x-should-retry"]) == (400, "true")
            assert send(server, key, "GET", "/v1/calls").status == 429
            limited = Newer(f"{server}/mcp", key=key).request("tools/list")
            assert limited.status == 429
        assert_serves(server)


def test_who_was_let_in_from_an_address_stays_in_whoever_else_guesses_there(tmp_path: Path) -> None:
    with running("open", tmp_path, [TOOLS], settings(auth_failures_per_minute="3")) as server:
        wrong, right, other = "ty_wrong_0123456789abcdef", KEYS["caller0"], KEYS["caller1"]
        assert send(server, wrong, "GET", "/v1/calls").status == 401
        assert send(server, right, "GET", "/v1/calls").status == 200
        assert [send(server, wrong, "GET", "/v1/calls").status for _ in range(3)] == [401, 401, 429]
        assert [send(server, right, "GET", "/v1/calls").status for _ in range(5)] == [200] * 5
        assert send(server, other, "GET", "/v1/calls").status == 429, "it was never good from there"
        assert send(server, wrong, "GET", "/v1/calls").status == 429


def is_let_in(server: str) -> bool:
    """One that is not may be cut off before it has read why."""
    try:
        return ask(server, request()).status == 200
    except OSError:
        return False


def test_there_are_only_so_many_connections(tmp_path: Path) -> None:
    limits = settings(max_connections_per_address="5", max_connections="5")
    with running("open", tmp_path, [TOOLS], limits) as server, ExitStack() as stack:
        for _ in range(5):
            idle = stack.enter_context(connected(server))
            idle.send(request())
            assert idle.reply().status == 200
        with connected(server) as more:
            refused = more.reply()
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert more.wait_until_closed() == b""
        idle.socket.close()
        assert until_taken(lambda: is_let_in(server))


def test_a_caller_has_only_so_many_streams(tmp_path: Path) -> None:
    with running("open", tmp_path, [TOOLS], settings(max_streams_per_caller="2")) as server, ExitStack() as stack:
        key, other = KEYS["caller0"], KEYS["caller1"]

        def events(key: str) -> Connection:
            session = send(server, key, "POST", "/v1/sessions", {"tools": []}).json["sessionId"]
            connection = stack.enter_context(connected(server))
            path = f"/v1/sessions/{session}/events"
            connection.send(request("GET", path, {"Authorization": f"Bearer {key}"}))
            return connection

        first, second = events(key), events(key)
        assert [each.reply().status for each in (first, second)] == [200, 200]
        assert events(key).reply().status == 429
        assert events(other).reply().status == 200
        listening = Newer(f"{server}/mcp", key=key, **WITH_TASKS)
        refused = listening.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert "Too many" in refused.error()["message"]
        first.socket.close()
        assert until_taken(lambda: events(key).reply().status == 200)


# -- clients that do not behave --------------------------------------------------------------------


def test_a_client_that_never_reads_is_left(tmp_path: Path) -> None:
    with running("open", tmp_path, [TOOLS], settings(write_timeout_s="0.5")) as server:
        with unread(server, call(KEYS["caller0"], "Large", size=30_000_000)) as connection:
            time.sleep(2)
            received = all_of(connection)
        assert received < 30_000_000, "the server did not wait until somebody reads"
        assert_serves(server)


def test_who_reads_in_time_gets_all_of_it(tmp_path: Path) -> None:
    with (
        running("open", tmp_path, [TOOLS], settings(write_timeout_s="60")) as server,
        unread(server, call(KEYS["caller0"], "Large", size=30_000_000)) as connection,
    ):
        assert all_of(connection, 30_000_000) >= 30_000_000


@contextmanager
def unread(server: str, data: bytes) -> Iterator[socket.socket]:
    """A connection on which a request was sent, and whose answer nobody reads."""
    host, port = server.removeprefix("http://").split(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10)
        connection.connect((host, int(port)))
        connection.sendall(data)
        yield connection


def all_of(connection: socket.socket, enough: int | None = None) -> int:
    """How many bytes come until the end, or until there are enough."""
    received = 0
    try:
        while (enough is None or received < enough) and (data := connection.recv(1 << 20)):
            received += len(data)
    except ConnectionResetError:
        pass
    return received


def test_who_keeps_being_refused_is_answered_late_and_nobody_else_is(server: str, key: str) -> None:
    other = KEYS[f"caller{next(_unused)}"]
    with connected(server) as connection, connected(server) as quick:
        for _ in range(12):
            connection.send(call(key, "Echo", value="x"))
            reply = connection.reply()
        began = time.monotonic()
        connection.send(call(key, "Echo", value="x"))
        quick.send(call(other, "Echo", value="x"))
        answered, _, _ = select.select([quick.socket, connection.socket], [], [], DEADLINE_S)
        assert quick.socket in answered, "the other was not kept"
        assert quick.reply().status == 200
        reply = connection.reply()
        late = time.monotonic() - began
        assert reply.status == 400
        assert late > 0.45
        assert reply.json["retry_after_ms"] < 19_600, "what it was held back for is taken off"


def test_nothing_more_is_read_from_who_is_held_back(server: str, key: str) -> None:
    """What it sends meanwhile stays with it: the server's memory is not its queue."""
    with connected(server) as connection:
        for _ in range(12):
            connection.send(call(key, "Echo", value="x"))
            connection.reply()
        connection.socket.settimeout(0.2)
        assert sent_until_full(connection, call(key, "Echo", value="x" * 1000) * 100) < 50_000_000


def sent_until_full(connection: Connection, data: bytes) -> int:
    """How many bytes go out before the other side takes no more."""
    sent = 0
    try:
        while sent < 100_000_000:
            sent += connection.socket.send(data)
    except TimeoutError:
        pass
    return sent


def test_callers_take_turns_at_a_tool_that_runs_alone(server: str) -> None:
    many, few = KEYS[f"caller{next(_unused)}"], KEYS[f"caller{next(_unused)}"]
    ended: list[str] = []
    lock = threading.Lock()

    def run(key: str, name: str) -> None:
        assert ask(server, call(key, "Alone", name=name)).status == 200
        with lock:
            ended.append(name)

    with ThreadPoolExecutor(25) as pool:
        first = [pool.submit(run, many, "many") for _ in range(20)]
        time.sleep(0.15)
        second = [pool.submit(run, few, "few") for _ in range(2)]
        for each in (*first, *second):
            each.result()
    assert ended.index("few") < 10, ended
    assert len(ended) == 22


def test_limits_are_on_away_from_loopback_and_off_on_it() -> None:
    local, away = ServerLimits(exactly(), time.time), ServerLimits(exactly(host="0.0.0.0"), time.time)
    assert (local.limiter, local.failures) == (None, None)
    assert away.limiter is not None
    assert away.failures is not None
    off = ServerLimits(exactly(host="0.0.0.0", limits=[]), time.time)
    assert (off.limiter, off.failures) == (None, None)


# -- a clock that is set ---------------------------------------------------------------------------


def test_a_clock_that_is_set_back_locks_nobody_out() -> None:
    """Neither who is limited nor who mistyped a key."""
    day, ticks = [time.time()], [1000.0]

    async def scene(made: Scene) -> None:
        async def call(role: str) -> int:
            body = {"tool_id": "Safe.Keep", "input": {"text": "a"}}
            return (await made.send(role, "POST", "/tools/call", body)).status

        assert [await call("owner") for _ in range(3)] == [200, 200, 400]
        wrong = {b"authorization": b"Bearer ty_not_a_key_of_anybody"}
        for _ in range(4):
            refused = await made.send("anonymous", "GET", "/tools", None, wrong)
        assert (refused.status, b"Too many" in refused.body) == (400, True)
        day[0] -= 300
        ticks[0] += 60
        assert await call("owner") == 200
        assert (await made.send("anonymous", "GET", "/tools", None, wrong)).status == 401

    async def play() -> None:
        limits = [{"name": "calls", "calls_per_minute": 2}]
        given = scene_settings(limits=limits, auth_failures_per_minute=3)
        async with Scene(Yard([safe], given, Clock(now=lambda: day[0], monotonic=lambda: ticks[0]))) as made:
            await scene(made)

    asyncio.run(play())
