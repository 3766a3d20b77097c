"""Results of another MCP server, as clients get them of a server before it: at once, again, by another revision, as a
task, after a restart, at another node, and nobody else's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.processes import toolyard
from toolyard import Client as ToolyardClient
from toolyard import ToolError
from toolyard.client.protocols import WIRES

from .schemas import MODERN, OLDER, REVISIONS
from .serving import ALICE, BOB, SECRET, Server, Start, starting
from .stage import Stage
from .talking import PREFIX, WITH_TASKS, Client, Older, connect

TOOLS = f"{Path(__file__).with_name('rich_tools.py')}:app"
KEYS = f"alice:{ALICE},bob:{BOB}"
TEXT = {"type": "text", "text": "It is warm", "annotations": {"audience": ["user"]}}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
EMBEDDED = {"type": "resource", "resource": {"uri": "far://it", "mimeType": "text/plain", "text": "all of it"}}
BLOCKS = [TEXT, IMAGE, LINK, EMBEDDED]
WARM: dict[str, Any] = {"content": BLOCKS, "structuredContent": {"degrees": 20}, "_meta": {"com.far/seen": [1, None]}}
PLAIN: dict[str, Any] = {"content": BLOCKS, "_meta": {"com.far/seen": 2}}
BROKEN: dict[str, Any] = {"content": [TEXT, IMAGE], "isError": True, "_meta": {"com.far/seen": 3}}
RESULTS = {"structured": WARM, "content alone": PLAIN, "failed": BROKEN}


@pytest.fixture(scope="module")
def far(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with starting(tmp_path_factory.mktemp("far"), stage, TOOLS) as start:
        yield start(api_keys=KEYS, secret_key=SECRET)


@pytest.fixture
def start_far(stage: Stage, tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path, stage, TOOLS) as start:
        yield start


def alice(server: Server, revision: str = MODERN, **capabilities: Any) -> Client:
    return connect(server.url, revision, ALICE, **capabilities)


def give(client: Client, result: Any, key: str | None = None, **more: Any) -> Any:
    tool = "Far_Give" if "structuredContent" in result or "isError" in result else "Far_Tell"
    told: dict[str, int] = {name: more.pop(name) for name in ("times", "steps") if name in more}
    meta = ({"toolyard/callId": key} if key is not None else {}) | ({"progressToken": "p"} if "steps" in told else {})
    return client.call(tool, {"result": result, **told}, meta=meta, **more)


def is_as_it_came(shown: Any, result: Any, revision: str) -> None:
    """Whether a client of that revision was shown it."""
    blocks = [{"type": "text", "text": "a: file:///a"} if each == LINK else each for each in result["content"]]
    assert shown["content"] == (blocks if revision == "2025-03-26" else result["content"])
    has_value = "structuredContent" in result and revision != "2025-03-26"
    assert shown.get("structuredContent") == (result["structuredContent"] if has_value else None)
    assert shown.get("isError", False) is result.get("isError", False)
    assert result["_meta"].items() <= shown["_meta"].items()
    more = {PREFIX + "serverInfo", PREFIX + "related-task", "toolyard/error"}
    assert shown["_meta"].keys() <= result["_meta"].keys() | more


# --- at once, and again ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_gets_it_as_it_came_and_by_any_revision_again(
    far: Server, name: str, revision: str, kind: str
) -> None:
    result = RESULTS[kind]
    for each in (revision, *REVISIONS):
        is_as_it_came(give(alice(far, each), result, name).result(), result, each)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_gets_it_without_a_key(far: Server, revision: str) -> None:
    for result in RESULTS.values():
        is_as_it_came(give(alice(far, revision), result).result(), result, revision)


@pytest.mark.parametrize("kind", RESULTS)
def test_it_is_told_again_after_the_server_was_killed(start_far: Start, kind: str) -> None:
    server, result = start_far(api_keys=KEYS, secret_key=SECRET), RESULTS[kind]
    is_as_it_came(give(alice(server, "2025-03-26"), result, "key").result(), result, "2025-03-26")
    server.restart()
    for revision in REVISIONS:
        is_as_it_came(give(alice(server, revision), result, "key").result(), result, revision)


def test_it_is_told_at_another_node(start_far: Start, postgres_url: str) -> None:
    nodes = [start_far(api_keys=KEYS, store=postgres_url, secret_key=SECRET) for _ in range(2)]
    for kind, result in RESULTS.items():
        for node, revision in zip(nodes, ("2025-06-18", MODERN), strict=True):
            is_as_it_came(give(alice(node, revision), result, kind).result(), result, revision)


# --- as a task ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RESULTS)
def test_the_result_of_a_task_is_as_it_came(far: Server, kind: str) -> None:
    result, older = RESULTS[kind], alice(far, "2025-11-25")
    theirs = {**result, "_meta": {**result["_meta"], PREFIX + "related-task": {"taskId": "theirs"}}}
    id = give(older, theirs, task={}).result()["task"]["taskId"]
    shown = older.result("tasks/result", {"taskId": id})
    is_as_it_came(shown, result, "2025-11-25")
    assert shown["_meta"][PREFIX + "related-task"] == {"taskId": id}
    newer = alice(far, MODERN, **WITH_TASKS)
    task = newer.result("tasks/get", {"taskId": id})
    is_as_it_came(task["result"], result, MODERN)


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("revision", OLDER)
def test_a_stream_that_is_taken_up_ends_with_it(far: Server, name: str, revision: str, kind: str) -> None:
    older = alice(far, revision)
    assert isinstance(older, Older)
    exchange = give(older, RESULTS[kind], name, steps=1)
    is_as_it_came(exchange.result(), RESULTS[kind], revision)
    rest = older.get(exchange.ids[0], {"id": exchange.id, "method": "tools/call"})
    is_as_it_came(rest.result(), RESULTS[kind], revision)


def test_who_joins_a_call_gets_it(far: Server, name: str) -> None:
    exchanges = [give(alice(far, revision), WARM, name, steps=50) for revision in REVISIONS]
    for exchange, revision in zip(exchanges, REVISIONS, strict=True):
        is_as_it_came(exchange.result(), WARM, revision)


# --- what is too long for a model -----------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("key", [None, "long"])
def test_all_of_a_long_result_can_be_read(far: Server, name: str, revision: str, key: str | None) -> None:
    times = 50_000
    whole = [{**TEXT, "text": "It is warm" * times}, IMAGE]
    client = alice(far, revision)
    shown = give(client, {**WARM, "content": [TEXT, IMAGE]}, key and name, times=times).result()
    assert shown["_meta"]["com.far/seen"] == [1, None]
    assert shown.get("structuredContent", {"degrees": 20}) == {"degrees": 20}
    preview = shown["_meta"]["toolyard/preview"]
    assert preview["bytes"] == len("It is warm") * times > preview["shown"]
    assert (len(shown["content"][0]["text"]), shown["content"][1]) == (preview["shown"], IMAGE)
    read = client.result("resources/read", {"uri": preview["uri"]})["contents"][0]
    assert (read["mimeType"], json.loads(read["text"])) == ("application/json", whole)
    other = connect(far.url, revision, BOB).request("resources/read", {"uri": preview["uri"]})
    assert other.error()["message"] == "Resource not found"


def test_a_long_result_is_recorded_where_others_are_not(start_far: Start) -> None:
    client = alice(start_far(api_keys=KEYS, secret_key=SECRET, record="keyed"))
    uri = give(client, WARM, times=50_000).result()["_meta"]["toolyard/preview"]["uri"]
    read = client.result("resources/read", {"uri": uri})["contents"][0]
    assert json.loads(read["text"])[0]["text"] == "It is warm" * 50_000


def test_what_it_embeds_can_be_read_by_who_got_it(far: Server, name: str) -> None:
    client, resource = alice(far), {"uri": f"far://{name}", "text": "all of it"}
    give(client, {**WARM, "content": [{"type": "resource", "resource": resource}]}).result()
    assert client.result("resources/read", {"uri": resource["uri"]})["contents"] == [resource]
    other = connect(far.url, MODERN, BOB).request("resources/read", {"uri": resource["uri"]})
    assert other.error()["message"] == "Resource not found"


def test_what_another_server_embeds_takes_nobodys_place(far: Server, name: str) -> None:
    client, uri = alice(far, "2025-11-25"), f"far://{name}"

    def tell(tool: str, text: str) -> None:
        block = {"type": "resource", "resource": {"uri": uri, "text": text}}
        client.call(tool, {"result": {"content": [block]}}).result()

    def read() -> Any:
        return client.result("resources/read", {"uri": uri})["contents"][0]["text"]

    tell("Far_Tell", "by far")
    assert read() == "by far"
    tell("Near_Tell", "by near")
    assert read() == "by far"
    tell("Far_Tell", "by far again")
    assert read() == "by far again"
    client.call("Own_Embed", {"uri": uri, "text": "our own"}).result()
    assert read() == "our own"
    tell("Far_Tell", "by far")
    assert read() == "our own"


# --- other wires, other callers -------------------------------------------------------------------


def ask(server: Server, method: str, path: str, body: Any = None, key: str = ALICE) -> Any:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(server.root + path, data, headers, method=method), timeout=15) as reply:
            return json.loads(reply.read())
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("wire", [*WIRES, "mcp"])
def test_a_client_of_any_wire_gets_the_value(far: Server, name: str, wire: Any) -> None:
    with ToolyardClient(far.root, key=ALICE, wire=wire) as client:
        for value in ({"degrees": 20}, {"result": 5}, "a text"):
            given = {"result": {**WARM, "structuredContent": value}}
            assert client.call("Far.Tell", given, call_id=f"{name}-{value}") == value
        with pytest.raises(ToolError):
            client.call("Far.Give", {"result": BROKEN})


def test_a_call_is_shown_with_the_content_beside_its_value(far: Server, name: str) -> None:
    for kind, result in RESULTS.items():
        give(alice(far), result, f"{name}-{kind}".replace(" ", "-")).result()
    shown = ask(far, "GET", f"/v1/calls/{name}-structured")
    assert (shown["value"], shown["content"]) == ({"degrees": 20}, BLOCKS)
    shown = ask(far, "GET", f"/v1/calls/{name}-content-alone")
    assert (shown["value"], "content" in shown) == (BLOCKS, False)
    shown = ask(far, "GET", f"/v1/calls/{name}-failed")
    assert (shown["error"]["message"], "content" in shown) == ("It broke", False)
    assert ask(far, "GET", f"/v1/calls/{name}-structured/content") == {"degrees": 20}
    listed = {each["callId"]: each for each in ask(far, "GET", "/v1/calls?limit=200")["calls"]}
    assert listed[f"{name}-structured"]["content"] == BLOCKS
    said = toolyard("show", f"{name}-structured", folder=far.folder, variables={"TOOLYARD_SECRET_KEY": SECRET})
    assert json.loads(said.out)["content"] == BLOCKS


def test_another_caller_finds_nothing_of_it(far: Server, name: str) -> None:
    id = give(alice(far, "2025-11-25"), WARM, task={}).result()["task"]["taskId"]
    bob = connect(far.url, "2025-11-25", BOB)
    assert bob.request("tasks/result", {"taskId": id}).error()["code"] == -32602
    assert ask(far, "GET", f"/v1/calls/{id}", key=BOB) == 404
    assert id not in json.dumps(ask(far, "GET", "/v1/calls?limit=200", key=BOB))
    give(alice(far), WARM, name).result()
    other = {**WARM, "structuredContent": {"degrees": 30}}
    is_as_it_came(give(connect(far.url, MODERN, BOB), other, name).result(), other, MODERN)


def test_nothing_of_it_is_left_when_its_user_is_erased(start_far: Start) -> None:
    server = start_far(api_keys=KEYS, secret_key=SECRET)
    client = alice(server)
    secret = {**WARM, "content": [{"type": "text", "text": "of-uma"}, EMBEDDED]}
    for key, times in ((None, 1), ("small", 1), ("large", 50_000)):
        give(client, secret, key, times=times).result()
    said = toolyard("calls", "erase", "--user", "alice", "--yes", folder=server.folder)
    assert said.out == "3 calls made for alice are erased\n"
    assert give(client, secret, "small", times=1).error()["message"].startswith("This call was made before")
    assert "error" in client.request("resources/read", {"uri": "far://it"}).response()
    for name in ("toolyard.db", "toolyard.db-wal"):
        assert b"of-uma" not in (server.folder / name).read_bytes()
