"""What a caller leaves behind is bounded, over every wire, through a real server."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.serving import running
from tests.server.mcp.talking import INFO, WITH_TASKS, connect, text_of
from tests.system.hardening.raw import Reply, ask, request
from toolyard import Busy, Client
from toolyard.client.protocols import WIRES
from toolyard.model.caller import LOCAL
from toolyard.model.errors import LimitReached, SettingsError
from toolyard.server.http.limits import ServerLimits
from toolyard.server.mcp.protocol.sessions import MOST_BYTES, McpSessions, SessionState, kept
from toolyard.server.settings.table import exactly
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import Held
from toolyard.trust.limits.quotas import QUOTAS, Amount, Quotas, quotas_of
from toolyard.trust.sealing.ring import KeyRing

from .http.test_limits import until_taken

TOOLS = str(Path(__file__).with_name("limited.py"))
KEYS = {f"caller{number}": f"ty_quotas_{number:04}_0123456789" for number in range(40)}
SMALL = {
    "mcp_sessions": 2,
    "sessions": 2,
    "session_tools": 2,
    "tool_uses": 3,
    "subscriptions": 2,
    "workers": 2,
    "waiting_calls": 2,
    "running_calls": 2,
    "stored_bytes": 200_000,
}
LOOK = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}
_unused = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "TOOLYARD_API_KEYS": ",".join(f"{name}:{key}" for name, key in KEYS.items()),
        "TOOLYARD_QUOTAS": json.dumps(SMALL),
    }
    with running("open", tmp_path_factory.mktemp("quotas"), [TOOLS], settings) as address:
        yield address


@pytest.fixture
def key() -> str:
    """Of a caller that has left nothing behind."""
    return KEYS[f"caller{next(_unused)}"]


@pytest.fixture
def other() -> str:
    return KEYS[f"caller{next(_unused)}"]


def send(server: str, key: str, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    data = b"" if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(server, request(method, path, {"Authorization": f"Bearer {key}", **named}, data))


def test_every_quota_has_a_small_one_here() -> None:
    assert SMALL.keys() == {quota.name for quota in QUOTAS}


def initialize(server: str, key: str, **capabilities: Any) -> Reply:
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": INFO}
    return send(server, key, "POST", "/mcp", {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params})


def test_mcp_sessions(server: str, key: str, other: str) -> None:
    session, _ = (initialize(server, key).headers["mcp-session-id"] for _ in range(2))
    refused = initialize(server, key)
    assert (refused.status, refused.json["id"], refused.headers["retry-after"]) == (429, 7, "60")
    assert "quotas.mcp_sessions: 2 for each caller" in refused.json["error"]["message"]
    assert initialize(server, other).status == 200, "others have their own"
    assert send(server, key, "DELETE", "/mcp", mcp_session_id=session).status == 204
    assert initialize(server, key).status == 200


def test_what_a_client_says_that_it_can_has_a_bound(server: str, key: str) -> None:
    refused = initialize(server, key, experimental={"lists": [[]] * 10_000})
    assert refused.json["error"]["code"] == -32602
    assert initialize(server, key, experimental={"lists": [[]] * 3000}).status == 200


def test_sessions(server: str, key: str, other: str) -> None:
    for _ in range(2):
        assert send(server, key, "POST", "/v1/sessions", {}).status == 201
    refused = send(server, key, "POST", "/v1/sessions", {})
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert "There is no room left: 2 sessions" in refused.json["message"]
    assert send(server, other, "POST", "/v1/sessions", {}).status == 201


def test_tools_of_a_session(server: str, key: str) -> None:
    tools = [LOOK | {"name": f"look_{number}"} for number in range(3)]
    refused = send(server, key, "POST", "/v1/sessions", {"tools": tools})
    assert refused.status == 422
    assert "a session has at most 2" in refused.body.decode()
    assert send(server, key, "POST", "/v1/sessions", {"tools": tools[:2]}).status == 201


def uses(*ids: str) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": id, "name": "look_up", "input": {}} for id in ids]
    return {"role": "assistant", "content": content}


def test_tool_uses_that_wait(server: str, key: str) -> None:
    session = send(server, key, "POST", "/v1/sessions", {"tools": [LOOK]}).json["sessionId"]
    messages = f"/v1/sessions/{session}/messages"
    many = send(server, key, "POST", messages, uses("a", "b", "c", "d"))
    assert many.status == 422
    assert "a message has at most 3" in many.body.decode()
    refused = send(server, key, "POST", messages, uses("a", "b", "c"))
    assert refused.status == 429
    assert "2 calls that wait" in refused.json["message"]
    assert send(server, key, "POST", messages, uses("a", "b")).status == 200
    assert send(server, key, "POST", messages, uses("c")).status == 429
    assert send(server, key, "POST", messages, uses("a", "b")).status == 200, "they are there already"
    assert send(server, key, "POST", f"/v1/tools/request/{session}/a/cancel").status == 200
    assert send(server, key, "POST", messages, uses("c")).status == 200


def test_workers(server: str, key: str, other: str) -> None:
    offer = {"tools": [{"id": "Near.By", "input_schema": {"type": "object"}}]}
    others = {"tools": [{"id": "Else.Where", "input_schema": {"type": "object"}}]}
    for name in ("one", "two", "one"):
        assert send(server, key, "PUT", f"/v1/workers/{name}", offer).status == 200
    refused = send(server, key, "PUT", "/v1/workers/three", offer)
    assert refused.status == 429
    assert "2 registered workers" in refused.json["message"]
    assert send(server, other, "PUT", "/v1/workers/three", others).status == 200
    assert send(server, key, "DELETE", "/v1/workers/one").status == 200
    assert send(server, key, "PUT", "/v1/workers/three", offer).status == 200


def test_calls_of_a_workers_tool_that_wait(server: str, key: str) -> None:
    offer = {"tools": [{"id": "Far.Away", "input_schema": {"type": "object"}}]}
    assert send(server, key, "PUT", "/v1/workers/far", offer).status == 200
    older = connect(f"{server}/mcp", "2025-11-25", key)
    tasks = [older.call("Far_Away", task={}, meta={"toolyard/callId": id}).result() for id in ("a", "b")]
    assert [each["task"]["status"] for each in tasks] == ["working", "working"]
    refused = older.call("Far_Away", task={}).result()
    assert refused["isError"]
    assert "2 calls that wait" in text_of(refused)
    again = older.call("Far_Away", task={}, meta={"toolyard/callId": "a"}).result()
    assert again["task"]["taskId"] == tasks[0]["task"]["taskId"], "it is there already"
    older.close()


def test_calls_that_run(server: str, key: str, other: str) -> None:
    older = connect(f"{server}/mcp", "2025-11-25", key)
    for id in ("a", "b"):
        older.call("Kit_Hold", {"name": key}, task={}, meta={"toolyard/callId": id}).result()
    with Client(server, key=key, retries=0) as client:
        for call_id in (None, "new"):
            with pytest.raises(Busy, match="2 recorded calls"):
                client.call("Kit.Echo", {"value": "hi"}, call_id=call_id)
    with Client(server, key=other, retries=0) as client:
        client.call("Kit.LetGo", {"name": key})
    with Client(server, key=key, retries=0) as client:

        def is_taken() -> bool:
            try:
                return bool(client.call("Kit.Echo", {"value": "hi"}) == "hi")
            except Busy:
                return False

        assert until_taken(is_taken)
    older.close()


def test_what_a_client_follows(server: str, key: str) -> None:
    older = connect(f"{server}/mcp", "2025-11-25", key)
    for uri in ("a:1", "a:2", "a:2"):
        assert older.result("resources/subscribe", {"uri": uri}) == {}
    assert "at most 2" in older.request("resources/subscribe", {"uri": "a:3"}).error()["message"]
    assert older.result("resources/unsubscribe", {"uri": "a:1"}) == {}
    assert "131072 characters" in older.request("resources/subscribe", {"uri": "a" * 140_000}).error()["message"]
    assert older.result("resources/subscribe", {"uri": "a:3"}) == {}
    older.close()
    newer = connect(f"{server}/mcp", "2026-07-28", key, **WITH_TASKS)
    many = {"notifications": {"resourceSubscriptions": ["a:1"], "taskIds": ["x", "y"]}}
    assert "at most 2" in newer.request("subscriptions/listen", many).error()["message"]
    newer.close()


def is_refused(server: str, key: str, wire: str) -> bool:
    address = f"{server}/mcp" if wire == "mcp" else server
    with Client(address, key=key, wire=None if wire == "mcp" else wire, retries=0) as client:  # type: ignore[arg-type]
        try:
            client.call("Kit.Large", {"size": 30_000})
        except Busy as refused:
            return "200,000 bytes kept in the ledger" in str(refused)
    return False


@pytest.mark.parametrize("wire", [*WIRES, "mcp"])
def test_stored_bytes(server: str, key: str, other: str, wire: str) -> None:
    with Client(server, key=key, retries=0) as client:
        assert client.call("Kit.Echo", {"value": "hi"}, call_id="first") == "hi"
        assert until_taken(lambda: is_refused(server, key, wire))
        assert client.call("Kit.Echo", {"value": "hi"}, call_id="first") == "hi", "it needs no room"
        with pytest.raises(Busy):
            client.call("Kit.Echo", {"value": "hi"}, call_id="second")
    assert send(server, key, "POST", "/v1/sessions", {}).status == 429
    assert initialize(server, key).status == 429
    with Client(server, key=other, retries=0) as client:
        assert client.call("Kit.Echo", {"value": "hi"}) == "hi"


def test_results_of_a_session_need_room_too(server: str, key: str) -> None:
    tool = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
    session = send(server, key, "POST", "/v1/sessions", {"tools": [tool]}).json["sessionId"]
    content = [{"type": "tool_use", "id": "a", "name": "find", "input": {}}]
    message = {"role": "assistant", "content": content}
    assert send(server, key, "POST", f"/v1/sessions/{session}/messages", message).status == 200
    assert until_taken(lambda: is_refused(server, key, "oxp"))
    response = {"response": {"state": "COMPLETE", "result": "x"}}
    assert send(server, key, "POST", f"/v1/tools/response/{session}/a", response).status == 429


def test_what_is_opened_counts_by_the_minute_for_its_address(tmp_path: Path) -> None:
    """So those without credentials are told apart where limits tell them apart."""
    settings = {
        "TOOLYARD_LIMITS": json.dumps([{"per": "address", "calls_per_minute": 2}]),
        "TOOLYARD_TRUSTED_PROXIES": "127.0.0.1",
    }
    opened: list[Any] = [
        ("POST", "/v1/sessions", {}),
        ("PUT", "/v1/workers/one", {"tools": [{"id": "Near.By", "input_schema": {"type": "object"}}]}),
        ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}}),
    ]  # fmt: skip
    with running("open", tmp_path, [TOOLS], settings) as server:
        for number, (method, path, body) in enumerate(opened):
            said = {"Content-Type": "application/json"}
            statuses = [
                ask(
                    server, request(method, path, said | {"X-Forwarded-For": address}, json.dumps(body).encode())
                ).status
                for address in (*[f"192.0.2.{number}"] * 3, f"198.51.100.{number}")
            ]
            assert statuses[:3] == [statuses[0], statuses[0], 429]
            assert statuses[3] == statuses[0] in (200, 201)


# -- the setting -----------------------------------------------------------------------------------


def test_away_from_loopback_everything_has_a_bound() -> None:
    away = ServerLimits(exactly(host="0.0.0.0", api_keys=[KEYS["caller0"]]), lambda: 0.0).quotas
    assert all(amount.caller is not None for amount in away.values())
    near = ServerLimits(exactly(), lambda: 0.0).quotas
    assert [name for name, amount in near.items() if amount.caller is None] == ["stored_bytes"]


def test_what_the_settings_do_not_name_is_as_it_was() -> None:
    table = quotas_of({"sessions": {"caller": 5}, "stored_bytes": {"tenant": None}}, is_away=True)
    assert table["sessions"] == Amount(5, 1_000_000)
    assert table["stored_bytes"] == Amount(8 * 2**30, None)
    assert table["workers"] == Amount(100, 1000)


def test_the_guide_has_every_row() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "limits.md").read_text()
    for quota in QUOTAS:
        numbers = [quota.away.caller, quota.away.tenant, quota.loopback.caller]
        shown = " | ".join("" if number is None else shown_as(number) for number in numbers)
        assert f"| `{quota.name}` | {quota.what} | {shown} |".replace("|  |", "| |") in guide


def shown_as(number: int) -> str:
    return f"{number // 2**30} GiB" if number % 2**30 == 0 else f"{number:,}"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"session": 5}, "quotas has no 'session'; it has mcp_sessions, sessions,"),
        ({"sessions": -1}, "quotas.sessions must be a whole number from 0 to"),
        ({"sessions": {"tenant": True}}, "quotas.sessions.tenant must be a whole number"),
        ({"sessions": {"everybody": 5}}, "quotas.sessions has no 'everybody'; it has caller, tenant"),
        ({"tool_uses": {"tenant": 5}}, "it is about one session, message or client"),
        ([], "a table such as {sessions = 1000}"),
    ],
)
def test_a_wrong_setting_is_a_sentence(given: Any, sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        exactly(quotas=given)
    assert sentence in str(raised.value)


# -- what is remembered ----------------------------------------------------------------------------


def test_what_is_known_of_mcp_sessions_has_a_bound_in_bytes() -> None:
    """Also where there are few of them, and none is forgotten: it is read again."""

    async def scene() -> None:
        store = SqliteStore(":memory:", "node")
        await store.open()
        numbers = itertools.count()
        quotas = Quotas(quotas_of({}, is_away=False), store)
        sessions = McpSessions(store, KeyRing(lambda: b"k" * 32), lambda: str(next(numbers)), quotas)
        large = kept({"experimental": {"lists": [[]] * 5000}})
        opened = [await sessions.open(LOCAL, SessionState("2025-11-25", large)) for _ in range(1200)]
        assert sessions._size <= MOST_BYTES
        assert len(sessions._known) < 1200
        assert (await sessions.find(opened[0], LOCAL)).stated() == {"experimental": {"lists": [[]] * 5000}}
        for each in opened:
            await sessions.end(each, LOCAL)
        assert (sessions._size, len(sessions._known)) == (0, 0)
        await store.close()

    asyncio.run(scene())


def test_counting_is_not_done_for_each_and_ends_at_the_bound() -> None:
    class Counting:
        there, asked = 0, 0

        async def count_held(self, what: Held, tenant: str, subject: str | None, most: int, besides: str) -> int:
            self.asked += 1
            return min(self.there, most)

    async def scene() -> None:
        store: Any = Counting()
        quotas = Quotas(quotas_of({"sessions": {"caller": 1000}}, is_away=False), store)
        for _ in range(1000):
            await quotas.room("sessions", LOCAL)
            store.there += 1
        with pytest.raises(LimitReached):
            await quotas.room("sessions", LOCAL)
        assert store.asked < 100
        store.there -= 1
        await quotas.room("sessions", LOCAL)

    asyncio.run(scene())
