"""The requests of an MCP client over HTTP.

In the newer era every request says who asks, in `_meta` and in headers. In the older one a handshake says it once, and
each later request names the revision and the session that were agreed on.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ...model.call import CallContext, CallTool
from ...model.errors import RequestError
from ...version import VERSION as TOOLYARD
from ..contract import JSON, Request
from .client_results import Listed
from .envelope import Id, encode_notification, encode_request
from .headers import METHOD_HEADER, NAME_HEADER, NAMED, PARAMETER, SESSION_HEADER, VERSION_HEADER, encoded, value_at
from .params import CAPABILITIES, CLIENT_INFO, TASKS, VERSION
from .revisions import R_2025_11_25, R_2026_07_28, Revision

INFO = {"name": "toolyard", "title": "toolyard", "version": TOOLYARD}
MODERN_META: dict[str, Any] = {
    VERSION: R_2026_07_28.name,
    CLIENT_INFO: INFO,
    CAPABILITIES: {"extensions": {TASKS: {}}},
}
"""This client waits for tasks. It has nobody to answer questions, so it declares no other capability."""
_ACCEPT = (b"accept", b"application/json, text/event-stream")
_trace = re.compile(r"(?!0{32})[0-9a-f]{32}").fullmatch


class ServerAddress(Struct, frozen=True):
    """A server as a client speaks to it: its path, and the revision and session that were agreed on."""

    path: str
    revision: Revision = R_2026_07_28
    session: str | None = None


def encode(
    server: ServerAddress, id: Id, method: str, params: Mapping[str, Any], more: Mapping[bytes, bytes]
) -> Request:
    """A request. `more` are further headers of this very request."""
    headers = dict([JSON, _ACCEPT])
    if server.revision.is_modern:
        # Every request says who asks: there was no handshake to remember it from.
        params = {**params, "_meta": {**MODERN_META, **params.get("_meta", {})}}
        headers[METHOD_HEADER] = method.encode()
        if method in NAMED:
            headers[NAME_HEADER] = encoded(params[NAMED[method]])
    return Request("POST", server.path, {**headers, **_agreed(server), **more}, encode_request(id, method, params))


def encode_initialize(path: str, id: Id, version: str = R_2025_11_25.name) -> Request:
    """The first request of the older era's handshake."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
    return Request("POST", path, dict([JSON, _ACCEPT]), encode_request(id, "initialize", params))


def encode_initialized(server: ServerAddress) -> Request:
    """The notification that ends the handshake."""
    headers = {**dict([JSON, _ACCEPT]), **_agreed(server)}
    return Request("POST", server.path, headers, encode_notification("notifications/initialized"))


def encode_resume(server: ServerAddress, last_event: str) -> Request:
    """Asks for the rest of a stream that ended before its response."""
    headers = {b"accept": b"text/event-stream", **_agreed(server), b"last-event-id": last_event.encode()}
    return Request("GET", server.path, headers)


def encode_goodbye(server: ServerAddress) -> Request:
    """Ends a session."""
    return Request("DELETE", server.path, _agreed(server))


def _agreed(server: ServerAddress) -> dict[bytes, bytes]:
    headers = {VERSION_HEADER: server.revision.name.encode()}
    if server.session is not None:
        headers[SESSION_HEADER] = server.session.encode("latin-1")
    return headers


# --- calls ---------------------------------------------------------------------------------------


def call_params(command: CallTool, tool: Listed, version: str | None) -> dict[str, Any]:
    """The parameters of `tools/call`. Raises RequestError for what MCP has no place for."""
    _check(command.context)
    hidden = {name: value for name, value in command.input.items() if name in tool.hidden}
    meta = {
        "toolyard/callId": command.call_id,
        "toolyard/version": version,
        "toolyard/arguments": hidden or None,
        "traceparent": _traceparent(command.trace_id),
    }
    return {
        "name": tool.name,
        "arguments": {name: value for name, value in command.input.items() if name not in hidden},
        "_meta": {name: value for name, value in meta.items() if value is not None},
    }


def mirrored_headers(tool: Listed, arguments: Mapping[str, Any]) -> dict[bytes, bytes]:
    """The headers that repeat a tool's arguments; an argument that is absent or null has none."""
    headers = {}
    for header, path in tool.mirrored.items():
        value = _header_value(value_at(arguments, path))
        if value is not None:
            headers[PARAMETER + header.lower().encode()] = encoded(value)
    return headers


def _header_value(value: Any) -> str | None:
    """An argument as a header's text; None for one that no header is made of."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | str) else None


def _check(context: CallContext) -> None:
    """Raises RequestError for a context that MCP has no members for: better than to call without a secret."""
    given = {"secrets": context.secrets, "tokens": context.tokens, "user_id": context.user_id}
    for name, value in {**given, "user_info": context.user_info}.items():
        if value:
            raise RequestError(f"MCP has no place for {name}; call the server over OXP, at its address without /mcp")


def _traceparent(trace_id: str | None) -> str | None:
    """W3C's `traceparent` for a trace id; None for an id of any other form, which cannot be sent."""
    # The client has no span of its own, so the second half of the trace id stands for one. Zeros are no valid span.
    return f"00-{trace_id}-{trace_id[16:]}-01" if trace_id and _trace(trace_id) and _span(trace_id) else None


def _span(trace_id: str) -> bool:
    return trace_id[16:] != "0" * 16
