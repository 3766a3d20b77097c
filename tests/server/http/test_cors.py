"""What a page of an allowed origin may read, also of replies that are given before the handler is done."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from ...conformance.serving import running
from ..scene import META, NEWER

PAGE = "https://app.example.com"
TOOLS = '''
import asyncio

from toolyard import Context, Toolkit

kit = Toolkit("Kit")


@kit.tool
async def count(ctx: Context) -> str:
    """Says how far it is."""
    ctx.progress(1)
    return "done"


@kit.tool
async def stay() -> None:
    """Does not end."""
    await asyncio.Event().wait()
'''
SETTINGS = {"TOOLYARD_CORS_ORIGINS": PAGE, "TOOLYARD_SYNC_WAIT_S": "0.01", "TOOLYARD_GRACE_S": "0.01"}
ABOUT = {"progressToken": 1, f"{META}protocolVersion": NEWER, f"{META}clientCapabilities": {}}
COUNT = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "Kit_Count", "_meta": ABOUT}}
HEADERS = {"mcp-protocol-version": NEWER, "mcp-method": "tools/call", "mcp-name": "Kit_Count"}
STAY = {"tool_id": "Kit.Stay", "input": {}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    with running("open", folder, ["tools.py"], SETTINGS) as address:
        yield address


def answer(url: str, body: Any, headers: dict[str, str]) -> Any:
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), sent), timeout=10)


@pytest.mark.parametrize(
    ("path", "body", "headers", "said"),
    [("/mcp", COUNT, HEADERS, b"notifications/progress"), ("/tools/call", STAY, {}, b"still running")],
    ids=["a stream", "a reply"],
)
def test_a_page_may_read_what_is_answered_early(
    server: str, path: str, body: Any, headers: dict[str, str], said: bytes
) -> None:
    with answer(server + path, body, {**headers, "origin": PAGE}) as reply:
        assert said in reply.read()
        assert reply.headers.get_all("access-control-allow-origin") == [PAGE]
        assert "mcp-session-id" in reply.headers["access-control-expose-headers"]
        assert reply.headers["vary"] == "origin"
    with answer(server + path, body, headers) as reply:
        assert said in reply.read()
        assert "access-control-allow-origin" not in reply.headers
