"""MCP in both eras, against the floor, and beside the official SDK and FastMCP: a call, and a list of a thousand tools.

The peers answer with plain JSON, which is their faster way; in the older era everybody has a session.
"""

import http.client
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import contenders
from bench.contenders import HERE, MANY, MCP_PEERS, Installed
from bench.contest import Loaded, contest, invited, on_floor
from bench.measure import Effort
from bench.report import Of, Row, bar
from bench.servers import Contender, Exchange

NEWER, OLDER = "2026-07-28", "2025-11-25"
ACCEPT = {"Accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": NEWER,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TIMES = {"mcp-sdk": 8.0, "fastmcp": 20.0}
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


ERAS: dict[str, Callable[..., Exchange]] = {NEWER: newer, OLDER: older}


def call(era: Callable[..., Exchange], name: str) -> Exchange:
    params = {"name": name, "arguments": {"a": 10, "b": 5}}
    return era("tools/call", params, lambda reply: float(reply["result"]["content"][0]["text"]) == 15)


def listing(era: Callable[..., Exchange]) -> Exchange:
    return era("tools/list", {}, lambda reply: len(reply["result"]["tools"]) == MANY)


def peer(who: Installed, what: Exchange, tools: int = 1) -> Contender:
    command = [str(who.python), str(HERE / "peers" / who.script)]
    return Contender(who.name, lambda port: [*command, str(port), str(tools)], what)


def ours(name: str, what: Exchange, tools: str = "add.py", settings: str | None = "unrecorded.toml") -> Contender:
    return replace(contenders.toolyard(tools, name=name, settings=settings), call=what)


def mcp_call(effort: Effort) -> list[Row]:
    """As it is served by default, recorded and audited."""
    loaded = [on_floor()]
    for (revision, era), limit in zip(ERAS.items(), (1.6, 1.7), strict=True):
        what = call(era, "Bench_Add")
        who = ours(f"toolyard by default, {revision}", what, settings=None)
        loaded.append(Loaded(who, what, bar(Of.CPU, "<=", limit, stretch=1.3)))
    return contest("MCP tools/call", loaded, effort)


def mcp_peers(effort: Effort) -> list[Row]:
    """Each peer alone with us, ledger and audit off: the bar is how many times as fast we are."""
    rows = []
    for revision, era in ERAS.items():
        work = f"MCP tools/call, {revision}"
        able, without = invited(work, MCP_PEERS)
        for who in able:
            theirs, mine = call(era, "add"), call(era, "Bench_Add")
            to_meet = bar(Of.RATIO, ">=", TIMES[who.name])
            loaded = [Loaded(peer(who, theirs), theirs), Loaded(ours("toolyard", mine), mine, to_meet)]
            rows += contest(work, loaded, effort.for_peers())
        rows += without
    return rows


def mcp_list_peers(effort: Effort) -> list[Row]:
    """On few connections: the peers do about ten a second."""
    rows, effort = [], replace(effort.for_peers(), connections=4)
    for revision, era in ERAS.items():
        work, what = f"MCP list of 1,000 tools, {revision}", listing(era)
        able, without = invited(work, MCP_PEERS)
        theirs = [Loaded(peer(who, what, MANY), what) for who in able]
        rows += contest(work, [Loaded(ours("toolyard", what, "many.py"), what), *theirs], effort) + without
    return rows
