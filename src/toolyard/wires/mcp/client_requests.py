"""A client's side of MCP over HTTP: what it sends.

In the newer era every request says who asks, in `_meta` and in headers. In the older one a handshake says it once, and
each request names the revision and the session that came of it.
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
"""This client waits for tasks. It has nobody to ask, so it declares nothing else."""
_ACCEPT = (b"accept", b"application/json, text/event-stream")
_trace = re.compile(r"(?!0{32})[0-9a-f]{32}").fullmatch


class ServerAddress(Struct, frozen=True):
    """Where requests go, and what was agreed on there."""

    path: str
    revision: Revision = R_2026_07_28
    session: str | None = None


def encode(
    place: ServerAddress, id: Id, method: str, params: Mapping[str, Any], more: Mapping[bytes, bytes]
) -> Request:
    """A request. `more` are headers of its own."""
    headers = dict([JSON, _ACCEPT])
    if place.revision.is_modern:
        params = {**params, "_meta": {**MODERN_META, **params.get("_meta", {})}}
        headers[METHOD_HEADER] = method.encode()
        if method in NAMED:
            headers[NAME_HEADER] = encoded(params[NAMED[method]])
    return Request("POST", place.path, {**headers, **_agreed(place), **more}, encode_request(id, method, params))


def encode_initialize(path: str, id: Id, version: str = R_2025_11_25.name) -> Request:
    """The first word of the older era."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
    return Request("POST", path, dict([JSON, _ACCEPT]), encode_request(id, "initialize", params))


def encode_initialized(place: ServerAddress) -> Request:
    """The end of the handshake."""
    headers = {**dict([JSON, _ACCEPT]), **_agreed(place)}
    return Request("POST", place.path, headers, encode_notification("notifications/initialized"))


def encode_resume(place: ServerAddress, last_event: str) -> Request:
    """The rest of a stream that ended before its response."""
    headers = {b"accept": b"text/event-stream", **_agreed(place), b"last-event-id": last_event.encode()}
    return Request("GET", place.path, headers)


def encode_goodbye(place: ServerAddress) -> Request:
    """The end of a session."""
    return Request("DELETE", place.path, _agreed(place))


def _agreed(place: ServerAddress) -> dict[bytes, bytes]:
    headers = {VERSION_HEADER: place.revision.name.encode()}
    if place.session is not None:
        headers[SESSION_HEADER] = place.session.encode("latin-1")
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
    """The arguments that a tool wants repeated in headers; one that is not there or null is left out."""
    made = {}
    for header, path in tool.mirrored.items():
        value = _header_value(value_at(arguments, path))
        if value is not None:
            made[PARAMETER + header.lower().encode()] = encoded(value)
    return made


def _header_value(value: Any) -> str | None:
    """None for what no header is made of."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | str) else None


def _check(context: CallContext) -> None:
    given = {"secrets": context.secrets, "tokens": context.tokens, "user_id": context.user_id}
    for name, value in {**given, "user_info": context.user_info}.items():
        if value:
            raise RequestError(f"MCP has no place for {name}; call the server over OXP, at its address without /mcp")


def _traceparent(trace_id: str | None) -> str | None:
    """As the W3C has it; a trace id of any other form cannot be sent."""
    return f"00-{trace_id}-{trace_id[16:]}-01" if trace_id and _trace(trace_id) and _span(trace_id) else None


def _span(trace_id: str) -> bool:
    return trace_id[16:] != "0" * 16
