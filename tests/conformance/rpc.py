"""A request of MCP, as a row writes it, made into the POST that its revision wants.

`rpc` has the `revision` (2025-11-25 unless it says otherwise), the `method` and its `params`, or `call` and `arguments`
for `tools/call`; `id`, which is 1 unless it says otherwise and null for a notification; `meta` for `_meta`;
`capabilities` of the client, where every request says them; and the `session`, where there is one. The step's own
`headers` win over those that are made here.
"""

from collections.abc import Mapping
from typing import Any

MEMBERS = {"revision", "method", "params", "call", "arguments", "id", "meta", "capabilities", "session"}
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
NAMED = {"tools/call": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId",
         "tasks/cancel": "taskId"}  # fmt: skip


def posted(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step, with `rpc` in the form of any other request."""
    rpc = written.get("rpc")
    if rpc is None:
        return written
    if unknown := rpc.keys() - MEMBERS:
        raise ValueError(f"a request of MCP has no {sorted(unknown)}: {written}")
    revision, method = str(rpc.get("revision", "2025-11-25")), rpc.get("method", "tools/call")
    params = dict(rpc.get("params", {}))
    if "call" in rpc:
        params |= {"name": rpc["call"], "arguments": rpc.get("arguments", {})}
    meta = own_meta(revision, rpc) | rpc.get("meta", {})
    if meta:
        params["_meta"] = meta
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if (id := rpc.get("id", 1)) is not None:
        message["id"] = id
    rest = {name: value for name, value in written.items() if name != "rpc"}
    headers = own_headers(revision, method, params, rpc.get("session"))
    return {"send": "POST /mcp", **rest, "headers": headers | written.get("headers", {}), "json": message}


def own_meta(revision: str, rpc: Mapping[str, Any]) -> dict[str, Any]:
    if revision != MODERN:
        return {}
    return {
        PREFIX + "protocolVersion": revision,
        PREFIX + "clientInfo": {"name": "rows", "version": "1"},
        PREFIX + "clientCapabilities": rpc.get("capabilities", {}),
    }


def own_headers(revision: str, method: str, params: Mapping[str, Any], session: str | None) -> dict[str, Any]:
    headers: dict[str, Any] = {"Accept": "application/json, text/event-stream"}
    if method != "initialize":
        headers["MCP-Protocol-Version"] = revision
    if session is not None:
        headers["Mcp-Session-Id"] = session
    if revision == MODERN:
        headers["Mcp-Method"] = method
        if method in NAMED:
            headers["Mcp-Name"] = params[NAMED[method]]
    return headers
