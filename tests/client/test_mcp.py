"""The clients over MCP, against real servers of both eras: ours and the official SDK's."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.conformance.serving import free_port, running, stop
from toolyard import AsyncClient, Client, NotAuthenticated, RequestError, ToolError, ToolNotFound
from toolyard.client.transport import AsyncHttpTransport, HttpTransport, Unreachable
from toolyard.model.errors import PathNotFound
from toolyard.testing import client as client_of
from toolyard.wires.contract import Reply, Request

TOOLS = '''
import time
from typing import Annotated

from pydantic import BaseModel, Field

from toolyard import Context, Hidden, Image, ToolError, Toolkit

kit = Toolkit("Kit", version="1.0.0")
runs = []


class Result(BaseModel):
    result: int


@kit.tool
def add(a: float, b: float) -> float:
    """Adds."""
    return a + b


@kit.tool(name="Add", version="2.0.0")
def add_in_words(a: float, b: float) -> str:
    """Adds, in words."""
    return f"{a + b:g}"


@kit.tool
def numbers(many: int) -> list[int]:
    """Gives a list."""
    return list(range(many))


@kit.tool
def own() -> Result:
    """Gives an object that looks as if somebody had wrapped a number."""
    return Result(result=3)


@kit.tool
def nothing() -> None:
    """Gives nothing."""


@kit.tool
def picture() -> Image:
    """Gives a picture."""
    return Image(data=b"x", mime_type="image/png")


@kit.tool
def send(text: str, account: Annotated[str, Hidden()]) -> str:
    """Sends."""
    return f"{text} by {account}"


@kit.tool
def route(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    zone: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Zone"})] = 0,
    is_far: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Far"})] = False,
) -> str:
    """Goes through a gateway."""
    return f"{region} {zone} {is_far}"


@kit.tool
def count(ctx: Context) -> int:
    """How often it ran."""
    runs.append(ctx.call_id)
    return len(runs)


@kit.tool
def flaky() -> int:
    """Works the second time."""
    runs.append("flaky")
    if runs.count("flaky") % 2:
        raise ToolError("Not yet", can_retry=True, retry_after_ms=10)
    return 1


@kit.tool
def fail() -> None:
    """Fails."""
    raise ToolError("It is closed", can_retry=False, retry_after_ms=7, additional_prompt_content="try Monday")


@kit.tool
def later(seconds: float) -> float:
    """Takes its time."""
    time.sleep(seconds)
    return seconds


@kit.tool(task="required")
def long(seconds: float) -> float:
    """Is always a task."""
    time.sleep(seconds)
    return seconds


@kit.tool
async def ask(ctx: Context) -> str:
    """Asks."""
    return str(await ctx.ask("Who?", str))
'''
MODERN = b"2026-07-28"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "tools.py").write_text(TOOLS)
    settings = {"TOOLYARD_SYNC_WAIT_S": "0.3", "TOOLYARD_MCP_STREAM_S": "0.5"}
    with running("open", folder, ["tools.py"], settings) as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    log = tmp_path_factory.mktemp("peer") / "peer.log"
    with log.open("wb") as output:
        command = [sys.executable, str(Path(__file__).parent / "mcp_peer.py"), str(port)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        deadline = time.monotonic() + 30
        while not _answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield url
    finally:
        stop(process)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code > 0
    except httpx2.TransportError:
        return False


class Older:
    """HTTP to a server that knows only the older era: it does not understand the newer one's requests."""

    def __init__(self, url: str, refusal: Reply | None = None) -> None:
        self._http = HttpTransport(url, None, 30.0)
        self._refusal = refusal or Reply(400, b"Bad Request", [(b"content-type", b"text/plain")])
        self.sent: list[Request] = []

    def send(self, request: Request) -> Reply:
        self.sent.append(request)
        is_modern = request.headers.get(b"mcp-protocol-version") == MODERN
        return self._refusal if is_modern else self._http.send(request)

    def close(self) -> None:
        self._http.close()


class Recorded(Older):
    """HTTP to a server of the newer era, written down."""

    def send(self, request: Request) -> Reply:
        self.sent.append(request)
        return self._http.send(request)


@contextmanager
def speaking(era: str, url: str, retries: int = 2) -> Iterator[tuple[Client, list[Request]]]:
    sending = Recorded(url) if era == "newer" else Older(url)
    with Client(f"{url}", retries=retries, sending=sending) as client:
        yield client, sending.sent


ERAS = pytest.mark.parametrize("era", ["newer", "older"])


# --- our own server, both eras -------------------------------------------------------------------


@ERAS
def test_values_are_those_of_every_other_wire(era: str, address: str) -> None:
    with speaking(era, address) as (client, _):
        assert client.healthy()
        assert client.call("Kit.Add", {"a": 1, "b": 2}) == "3"
        assert client.call("Kit.Add@1", {"a": 1, "b": 2}) == 3
        assert client.call("Kit.Add@1.0.0", {"a": 1, "b": 2}) == 3
        assert client.call("Kit.Add@2", {"a": 1, "b": 2}) == "3"
        assert client.call("Kit_Numbers", {"many": 3}) == [0, 1, 2]
        assert client.call("Kit.Own") == {"result": 3}
        assert client.call("Kit.Nothing") is None
        assert client.call("Kit.Picture") == [{"type": "image", "data": "eA==", "mimeType": "image/png"}]


@ERAS
def test_the_list_is_as_mcp_has_it(era: str, address: str) -> None:
    with speaking(era, address) as (client, _):
        tools = {tool["name"]: tool for tool in client.list(for_model=True)}
    assert tools["Kit_Add"]["_meta"] == {"toolyard/id": "Kit.Add", "toolyard/version": "2.0.0"}
    assert list(tools["Kit_Send"]["inputSchema"]["properties"]) == ["text"]


@ERAS
def test_hidden_arguments_go_beside_the_others(era: str, address: str) -> None:
    with speaking(era, address) as (client, _):
        assert client.call("Kit.Send", {"text": "Hi", "account": "a1"}) == "Hi by a1"
        with pytest.raises(ToolError, match="acount"):
            client.call("Kit.Send", {"text": "Hi", "acount": "a1"})


@ERAS
def test_a_failure_says_what_the_tool_said_and_whether_to_try_again(era: str, address: str) -> None:
    with speaking(era, address) as (client, _):
        with pytest.raises(ToolError) as failed:
            client.call("Kit.Fail")
        assert client.call("Kit.Flaky") == 1
        outcome = client.outcome("Kit.Fail", call_id=f"failed-{era}")
    assert failed.value.message == "It is closed\ntry Monday"
    assert (failed.value.can_retry, failed.value.retry_after_ms) == (False, 7)
    assert (outcome.call_id, outcome.duration_ms > 0, str(outcome.error)) == (
        f"failed-{era}",
        True,
        failed.value.message,
    )


@ERAS
def test_refusals_are_typed(era: str, address: str) -> None:
    with speaking(era, address) as (client, _):
        with pytest.raises(ToolNotFound, match=r"Tool 'Kit\.Sub' was not found"):
            client.call("Kit.Sub")
        with pytest.raises(ToolNotFound):
            client.call("Kit.Add@9", {"a": 1, "b": 2})
        with pytest.raises(ToolError, match="b: Is required"):
            client.call("Kit.Add", {"a": 1})
        with pytest.raises(RequestError, match="callId"):
            client.call("Kit.Add", {"a": 1, "b": 2}, call_id="x" * 300)
        with pytest.raises(ToolError, match="cannot ask"):
            client.call("Kit.Ask")


@ERAS
def test_what_mcp_has_no_place_for_is_not_sent(era: str, address: str) -> None:
    with speaking(era, address) as (client, sent):
        for option in ({"secrets": {"KEY": "s3cret"}}, {"tokens": {"google": "s3cret"}}, {"user_id": "s3cret"}):
            with pytest.raises(RequestError, match=f"MCP has no place for {next(iter(option))}"):
                client.call("Kit.Add", {"a": 1, "b": 2}, **option)
        for ask in (client.calls, lambda: client.show("x"), lambda: client.cancel("x")):
            with pytest.raises(RequestError, match="without /mcp"):
                ask()
    assert not any(b"s3cret" in request.body for request in sent)


@ERAS
def test_a_call_id_makes_one_call_of_many(era: str, address: str) -> None:
    with speaking(era, address) as (client, _):
        first = client.call("Kit.Count", call_id=f"once-{era}")
        assert client.call("Kit.Count", call_id=f"once-{era}") == first
        assert client.call("Kit.Count") == first + 1


@ERAS
def test_a_call_that_takes_long_is_waited_for(era: str, address: str) -> None:
    """In the newer era it becomes a task, in the older one its stream breaks off and is taken up again."""
    with speaking(era, address) as (client, sent):
        assert client.call("Kit.Later", {"seconds": 3}) == 3
    methods = [request.headers.get(b"mcp-method", request.method.encode()) for request in sent]
    assert (b"tasks/get" if era == "newer" else b"GET") in methods


@ERAS
def test_a_tool_that_is_always_a_task_is_polled_as_often_as_it_wants(era: str, address: str) -> None:
    with speaking(era, address) as (client, sent):
        assert client.call("Kit.Long", {"seconds": 1.5}) == 1.5
    polls = [request for request in sent if b'"tasks/get"' in request.body]
    assert len(polls) == 2, "once a second"


@ERAS
def test_the_era_is_found_out_once_and_the_list_is_kept(era: str, address: str) -> None:
    with speaking(era, address) as (client, sent):
        for _ in range(3):
            client.call("Kit.Add", {"a": 1, "b": 2})
    bodies = b"\n".join(request.body for request in sent)
    assert bodies.count(b'"tools/list"') == (1 if era == "newer" else 2)
    assert bodies.count(b'"initialize"') == (0 if era == "newer" else 1)


# --- the newer era -------------------------------------------------------------------------------


def test_every_request_says_who_asks_for_what(address: str) -> None:
    with speaking("newer", address) as (client, sent):
        client.call("Kit.Add", {"a": 1, "b": 2}, call_id="c", trace_id="0af7651916cd43dd8448eb211c80319c")
    listed, called = sent
    assert listed.headers[b"mcp-method"] == b"tools/list"
    assert b"mcp-name" not in listed.headers
    assert called.headers[b"mcp-name"] == b"Kit_Add"
    for request in sent:
        assert request.headers[b"mcp-protocol-version"] == MODERN
        assert request.headers[b"accept"] == b"application/json, text/event-stream"
        assert b'"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}' in (
            request.body
        )
    assert b'"toolyard/callId":"c"' in called.body
    assert b'"traceparent":"00-0af7651916cd43dd8448eb211c80319c-' in called.body


def test_arguments_are_repeated_in_headers_where_the_tool_wants_it(address: str) -> None:
    with speaking("newer", address) as (client, sent):
        assert client.call("Kit.Route", {"region": "eu", "zone": 7, "is_far": True}) == "eu 7 True"
        assert client.call("Kit.Route", {"region": "Ünter den Linden"}) == "Ünter den Linden 0 False"
        assert client.call("Kit.Route", {"region": "=?base64?x?="}) == "=?base64?x?= 0 False"
    headers = [{k: v for k, v in r.headers.items() if k.startswith(b"mcp-param-")} for r in sent if b"Kit_" in r.body]
    assert headers == [
        {b"mcp-param-region": b"eu", b"mcp-param-zone": b"7", b"mcp-param-far": b"true"},
        {b"mcp-param-region": b"=?base64?w5xudGVyIGRlbiBMaW5kZW4=?="},
        {b"mcp-param-region": b"=?base64?PT9iYXNlNjQ/eD89?="},
    ]


def test_the_wire_is_chosen_by_the_address(address: str) -> None:
    base = address.removesuffix("/mcp")
    with Client(address) as client:
        assert "inputSchema" in client.list()[0]
    with Client(f"{address}/") as client:
        assert "inputSchema" in client.list()[0]
    with Client(base) as client:
        assert "input_schema" in client.list()[0]
    with Client(base, wire="mcp") as client:
        assert "inputSchema" in client.list()[0]


def test_many_at_once_find_out_the_era_once(address: str) -> None:
    class Counted(AsyncHttpTransport):
        lists = 0

        async def send(self, request: Request) -> Reply:
            self.lists += b'"tools/list"' in request.body
            return await super().send(request)

    async def all_of_it() -> None:
        sending = Counted(address, None, 30.0)
        async with AsyncClient(address, sending=sending) as client:
            calls = [client.call("Kit.Add@1", {"a": number, "b": 1}) for number in range(20)]
            assert await asyncio.gather(*calls) == list(range(1, 21))
            assert sending.lists == 1
            assert len(await client.list()) > 10
            assert await client.healthy()

    asyncio.run(all_of_it())


def test_a_toolkit_is_tested_over_it_without_a_socket(tmp_path: Path) -> None:
    from toolyard.reference import calculator

    with client_of(calculator, wire="mcp") as client:
        assert client.call("Calculator.Add", {"a": 1, "b": 2}) == 3


# --- the older era -------------------------------------------------------------------------------


def test_a_session_is_opened_named_and_ended(address: str) -> None:
    with speaking("older", address) as (client, sent):
        client.call("Kit.Add", {"a": 1, "b": 2})
    words = [request.body.split(b'"method":"')[1].split(b'"')[0] for request in sent if request.body]
    assert words == [b"tools/list", b"initialize", b"notifications/initialized", b"tools/list", b"tools/call"]
    assert sent[-1].method == "DELETE"
    assert b"mcp-session-id" not in sent[1].headers
    sessions = {request.headers[b"mcp-session-id"] for request in sent[2:]}
    assert len(sessions) == 1
    assert {request.headers[b"mcp-protocol-version"] for request in sent[2:]} == {b"2025-11-25"}


def test_a_session_that_was_lost_is_opened_again(address: str) -> None:
    with speaking("older", address) as (client, sent):
        client.call("Kit.Add", {"a": 1, "b": 2})
        session = sent[-1].headers[b"mcp-session-id"].decode()
        assert httpx2.delete(address, headers={"mcp-session-id": session}).status_code == 204
        assert client.call("Kit.Add", {"a": 1, "b": 2}) == "3"
        assert sent[-1].headers[b"mcp-session-id"].decode() != session


def test_a_server_that_names_what_it_speaks_is_believed(address: str) -> None:
    said = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}}'
    sending = Older(address, Reply(400, said, [(b"content-type", b"application/json")]))
    with Client(address, sending=sending) as client:
        assert client.call("Kit.Add", {"a": 1, "b": 2}) == "3"
    assert sending.sent[-1].headers[b"mcp-protocol-version"] == b"2025-06-18"


# --- the official SDK's server -------------------------------------------------------------------


@ERAS
def test_the_official_servers_tools_are_called(era: str, peer: str) -> None:
    with speaking(era, peer) as (client, _):
        assert client.call("point", {"x": 4}) == {"x": 4}
        assert client.call("text") == "10"
        assert client.call("geo.locate", {"place": "oslo"}) == "OSLO"
        assert [tool["name"] for tool in client.list()] == ["point", "text", "geo.locate", "fail"]
        with pytest.raises(ToolError, match="Error executing tool fail"):
            client.call("fail")
        with pytest.raises(ToolNotFound):
            client.call("nope")


# --- who refuses, and who is not there -----------------------------------------------------------


def test_a_key_is_shown_and_missed(tmp_path: Path) -> None:
    from tests.conformance.tokens import API_KEY

    with running("keys", tmp_path) as url:
        with Client(f"{url}/mcp") as stranger, pytest.raises(NotAuthenticated):
            stranger.call("Calculator.Add", {"a": 1, "b": 1})
        with Client(f"{url}/mcp", key=API_KEY) as known:
            assert known.call("Calculator.Add", {"a": 1, "b": 1}) == 2


def test_an_address_without_such_a_server_is_said_so(address: str) -> None:
    base = address.removesuffix("/mcp")
    with (
        Client(f"{base}/nowhere", wire="mcp") as client,
        pytest.raises(PathNotFound, match="no MCP server at http"),
    ):
        client.list()
    with Client("http://127.0.0.1:9/mcp") as client:
        for _ in range(2):
            with pytest.raises(Unreachable, match="No answer from"):
                client.list()
