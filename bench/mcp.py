"""MCP beside the official SDK and FastMCP: one call in each era, and a list of a thousand tools.

The peers answer with plain JSON, which is their faster way; in the older era everybody has a session.
"""

import http.client
import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from bench import contenders
from bench.contenders import HERE, MANY, Installed
from bench.contest import complain, contest, invited
from bench.measure import Effort
from bench.report import Bar, Row
from bench.servers import Contender, Exchange, ServerError, serving

NEWER, OLDER = "2026-07-28", "2025-11-25"
ACCEPT = {"Accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": NEWER,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SDK = Installed("mcp-sdk", "mcp_sdk_app.py", ("mcp>=2.3,<3", "uvicorn", "uvloop", "httptools"))
FASTMCP = Installed("fastmcp", "fastmcp_app.py", ("fastmcp>=4,<5", "uvicorn", "uvloop", "httptools"))
TIMES = {SDK.name: 8.0, FASTMCP.name: 20.0}
"""How many times as fast as each of them we must be."""


def message(method: str, params: dict[str, Any]) -> bytes:
    """With an id of its own for each request."""
    made = {"jsonrpc": "2.0", "id": "@@N@@", "method": method, "params": params}
    return json.dumps(made, separators=(",", ":")).encode()


def newer(method: str, params: dict[str, Any], is_right: Callable[[Any], bool]) -> Exchange:
    headers = ACCEPT | {"MCP-Protocol-Version": NEWER, "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return Exchange("POST", "/mcp", message(method, {**params, "_meta": META}), is_right, lambda port: headers)


def older(method: str, params: dict[str, Any], is_right: Callable[[Any], bool]) -> Exchange:
    return Exchange("POST", "/mcp", message(method, params), is_right, in_session)


_sessions: dict[int, dict[str, str]] = {}


def in_session(port: int) -> dict[str, str]:
    """The headers of a session with that server, which is opened once."""
    if port not in _sessions:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        said = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        headers = ACCEPT | {"Content-Type": "application/json"}
        connection.request("POST", "/mcp", message("initialize", said), headers)
        reply = connection.getresponse()
        reply.read()
        session = reply.getheader("mcp-session-id")
        found = ACCEPT | {"MCP-Protocol-Version": OLDER} | ({"Mcp-Session-Id": session} if session else {})
        done = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        connection.request("POST", "/mcp", done, headers | found)
        connection.getresponse().read()
        connection.close()
        _sessions[port] = found
    return _sessions[port]


def call(era: Callable[..., Exchange], name: str) -> Exchange:
    params = {"name": name, "arguments": {"a": 10, "b": 5}}
    return era("tools/call", params, lambda reply: float(reply["result"]["content"][0]["text"]) == 15)


def listing(era: Callable[..., Exchange]) -> Exchange:
    return era("tools/list", {}, lambda reply: len(reply["result"]["tools"]) == MANY)


def peer(who: Installed, what: Exchange, tools: int = 1) -> Contender:
    command = [str(who.python), str(HERE / "peers" / who.script)]
    return Contender(who.name, lambda port: [*command, str(port), str(tools)], what)


def ours(what: Exchange, tools: str = "add.py") -> Contender:
    command = [sys.executable, "-m", "toolyard", "serve", str(HERE / "tools" / tools)]
    command += ["--config", str(HERE / "tools" / "unrecorded.toml"), "--log-level", "warning", "--port"]
    return Contender("toolyard", lambda port: [*command, str(port)], what)


def mcp_call(effort: Effort) -> list[Row]:
    """Each peer alone with us: the bar is how many times as fast we are."""
    rows = []
    for revision, era in ((NEWER, newer), (OLDER, older)):
        work = f"MCP tools/call, {revision}"
        able, without = invited(work, [SDK, FASTMCP])
        for who in able:
            theirs, mine = call(era, "add"), call(era, "Bench_Add")
            bar = Bar(">=", TIMES[who.name])
            rows += contest(work, [(peer(who, theirs), theirs), (ours(mine), mine)], effort.for_peers(), bar)
        rows += without
    return rows


def mcp_list(effort: Effort) -> list[Row]:
    """The floor sends the very bytes that toolyard sends; the peers are for comparison."""
    rows = []
    for revision, era in ((NEWER, newer), (OLDER, older)):
        work, what = f"MCP list of 1,000 tools, {revision}", listing(era)
        mine = ours(what, "many.py")
        with tempfile.NamedTemporaryFile(prefix="bench-list-") as file:
            try:
                with serving(mine) as server:
                    file.write(server.ask(what))
                    file.flush()
            except ServerError as error:
                complain(error)
                continue
            floor = contenders.floor("--list-file", file.name)
            bytes_alone = Exchange("GET", "/tools", b"", lambda reply: bool(reply))
            rows += contest(work, [(floor, bytes_alone), (mine, what)], effort, Bar(">=", 0.5))
        able, without = invited(work, [SDK, FASTMCP])
        for who in able:
            rows += contest(work, [(mine, what), (peer(who, what, MANY), what)], effort.for_peers())
        rows += without
    return rows
