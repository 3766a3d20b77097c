"""Sessions in the lifecycle API, the server's side: opening one, its status and requests, its results and its events.

Results are in the format of the model's provider, which `provider_messages` writes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from ...model.record import CallRecord
from ...model.session import Event, NewSession, RequestEvent, Session, SessionStanding, SessionTool
from ..contract import JSON, Reply
from ..errors import encode
from ..json_body import Members, an_object, matching, object_or_null, parse_or_empty, text
from .requests import standing_json

_name = matching(r"[A-Za-z0-9_.-]{1,128}", "Must have 1 to 128 letters, digits, or any of _ - .")


def decode_session(body: bytes) -> NewSession:
    """A request to open a session, with the tools that its client supplies."""
    members = parse_or_empty(body)
    given = list(members.all_below("tools")) if "tools" in members else []
    tools = [_tool(each) for each in given]
    metadata = members.maybe("metadata", an_object, {})
    known: set[str] = set()
    for each, tool in zip(given, tools, strict=True):
        if tool.name in known:
            each.refuse("name", "Is another tool's name already")
        known.add(tool.name)
    members.done()
    return NewSession(tuple(tools), metadata)


def _tool(members: Members) -> SessionTool:
    tool = SessionTool(
        members.one("name", _name),
        members.one("description", text),
        members.one("input_schema", an_object),
        members.maybe("output_schema", object_or_null, None),
    )
    members.refuse_unseen()
    members.close()
    return tool


def encode_session_created(session: Session) -> Reply:
    return Reply(201, encode({"sessionId": session.id, "status": session.status}), [JSON])


def encode_session(session: SessionStanding, metadata: bytes, requests: Sequence[RequestEvent]) -> Reply:
    body = {
        "sessionId": session.id,
        "status": session.status,
        "requests": requests,
        "metadata": Raw(metadata),
    }
    return Reply(200, encode(body), [JSON])


def encode_turn(requests: Sequence[CallRecord]) -> Reply:
    """The requests that the tool uses of a message became."""
    return Reply(200, encode({"requests": list(map(standing_json, requests))}), [JSON])


def encode_awaiting() -> Reply:
    """The answer while some requests have not ended."""
    return Reply(202, b'{"status":"awaiting_tools"}', [JSON])


def encode_ready(results: Mapping[str, Any]) -> Reply:
    """The results of all requests, as `provider_messages.encode_results` made them."""
    return Reply(200, encode({"status": "ready", **results}), [JSON])


def encode_event(event: Event) -> bytes:
    """One event of `text/event-stream`."""
    # JSON has no line breaks of its own, so that one `data:` line is enough.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.kind.encode(), event.data)
