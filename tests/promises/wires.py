"""How a call is made over each wire, and what an answer says. Written from the protocols, not from the server."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .world import Heard, Told

META = "io.modelcontextprotocol/"
NEWER, OLDER = "2026-07-28", "2025-11-25"
TASKS = META + "tasks"
CAN: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
FAMILY = ("oxp", "otc", "draft")
MCP = ("mcp-new", "mcp-new-tasks", "mcp-old", "mcp-old-task")
WIRES = (*FAMILY, *MCP)
LIMIT = "Too many calls"
"""How whoever has made too many of them is refused, on every wire."""


@dataclass
class Request:
    """A request, before anybody's credentials are added."""

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def call(
    wire: str,
    tool: str,
    input: dict[str, Any],
    key: str | None,
    user: str | None,
    session: str = "",
    brought: dict[str, str] | None = None,
) -> Request:
    """`session` is that of an MCP client of the older era; `brought` are secrets, which only one family can pass."""
    if wire in FAMILY:
        return _family(wire, tool, input, key, user, brought or {})
    meta: dict[str, Any] = {}
    if key is not None:
        meta["toolyard/callId"] = key
    if user is not None:
        meta["toolyard/userId"] = user
    params: dict[str, Any] = {"name": tool.replace(".", "_"), "arguments": input, "_meta": meta}
    if wire == "mcp-old-task":
        params["task"] = {"ttl": 60000}
    if wire.startswith("mcp-old"):
        return older("tools/call", params, session)
    return newer("tools/call", params, params["name"], has_tasks=wire.endswith("tasks"))


def _family(
    wire: str, tool: str, input: dict[str, Any], key: str | None, user: str | None, brought: dict[str, str]
) -> Request:
    context: dict[str, Any] = {"secrets": [{"id": id, "value": value} for id, value in brought.items()]}
    if user is not None:
        context["user_id"] = user
    said: dict[str, Any] = {"tool_id": tool, "input": input, "context": context}
    if key is not None:
        said["call_id"] = key
    if wire == "oxp":
        return Request("POST", "/tools/call", said)
    return Request("POST", "/otc/tools/call" if wire == "otc" else "/otc/draft/call", {"request": said})


def newer(method: str, params: dict[str, Any], name: str | None, *, has_tasks: bool = False) -> Request:
    can = {**CAN, "extensions": {TASKS: {}}} if has_tasks else CAN
    about = {f"{META}protocolVersion": NEWER, f"{META}clientCapabilities": can, f"{META}clientInfo": {}}
    headers = {"mcp-protocol-version": NEWER, "mcp-method": method}
    if name is not None:
        headers["mcp-name"] = name
    said = {**params, "_meta": {**params.get("_meta", {}), **about}}
    return Request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": said}, headers)


def older(method: str, params: dict[str, Any], session: str) -> Request:
    headers = {"mcp-protocol-version": OLDER, "accept": "application/json, text/event-stream"}
    if session:
        headers["mcp-session-id"] = session
    return Request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers)


def hello() -> Request:
    said = {"protocolVersion": OLDER, "capabilities": CAN, "clientInfo": {"name": "t", "version": "1"}}
    return older("initialize", said, "")


def answer(session: str, id: Any, content: dict[str, Any]) -> Request:
    """Of a client of the older era, to what it was asked."""
    said = {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": content}}
    return Request("POST", "/mcp", said, older("ping", {}, session).headers)


# -- what answers say ------------------------------------------------------------------------------


def told(wire: str, heard: Heard) -> Told | None:
    """None while there is no answer yet."""
    if not heard.done.is_set():
        return None
    return _family_told(heard) if wire in FAMILY else _mcp_told(heard)


def _family_told(heard: Heard) -> Told:
    body = heard.json
    if heard.status != 200 or not isinstance(body, dict):
        return _refused(body if isinstance(body, dict) else {})
    said = body.get("result", body)
    output = said.get("output", said)
    call_id = said.get("call_id")
    if said["success"]:
        return Told("success", call_id, output.get("value"))
    return _failed(output["error"], call_id)


def _refused(body: dict[str, Any]) -> Told:
    message, missing = str(body.get("message", "")), body.get("missing_requirements") or {}
    links = [each["url"] for each in missing.get("authorization", ())]
    code = re.search(r"the code for the page of \S+ is (\S+)", message)
    return Told(
        "waiting" if missing.get("approval") or "waits for approval" in message else "refused",
        link=links[0] if links else _link_in(message + str(body.get("developer_message", ""))),
        code=code[1] if code else None,
        is_limit=LIMIT in message,
        message=message,
    )


def _failed(error: dict[str, Any], call_id: str | None) -> Told:
    message = str(error.get("message", ""))
    kind: Any = "running" if "still running" in message else "failure"
    if "waits for approval" in message:
        kind = "waiting"
    return Told(kind, call_id, None, bool(error.get("can_retry")), message=message, link=_link_in(message))


def _link_in(text: str) -> str | None:
    found = re.search(r"https?://\S+/approvals/[0-9A-Za-z_=-]+", text)
    return found[0] if found else None


def rpc(heard: Heard) -> Any:
    """The answer itself, also where it is the last event of a stream."""
    if heard.json is not None:
        return heard.json
    answers = [event for event in heard.events() if "result" in event or "error" in event]
    return answers[-1] if answers else {}


def _mcp_told(heard: Heard) -> Told:
    said = rpc(heard)
    if not isinstance(said, dict) or "result" not in said:
        error = said.get("error", said) if isinstance(said, dict) else {}
        message, data = str(error.get("message", "")), error.get("data") or {}
        links = [each["url"] for each in data.get("elicitations", ())] if isinstance(data, dict) else []
        is_approval = any("/approvals/" in link for link in links)
        return Told(
            "waiting" if is_approval else "refused", link=links[0] if links else None, message=message,
            is_limit=LIMIT in message,
        )  # fmt: skip
    return _result_told(said["result"])


def _result_told(result: dict[str, Any]) -> Told:
    task = result.get("task") or (result if result.get("resultType") == "task" else None)
    if task is not None:
        return Told("accepted", task["taskId"])
    if result.get("resultType") == "input_required":
        asked = result.get("inputRequests") or {}
        links = [each["params"].get("url") for each in asked.values() if each.get("params", {}).get("url")]
        is_approval = any("/approvals/" in str(link) for link in links)
        kind: Any = "waiting" if is_approval else "refused" if links else "asked"
        return Told(kind, link=links[0] if links else None, state=result.get("requestState"))
    text = " ".join(str(each.get("text", "")) for each in result.get("content", ()))
    if result.get("isError"):
        flags = result.get("_meta", {}).get("toolyard/error", {})
        kind = "running" if "still running" in text else "waiting" if "waits for approval" in text else "failure"
        return Told(
            kind, None, None, bool(flags.get("can_retry")), link=_link_in(text), is_limit=LIMIT in text, message=text
        )
    value = result.get("structuredContent")
    return Told("success", None, json.loads(text) if value is None and text.startswith("{") else value)
