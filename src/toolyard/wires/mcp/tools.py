"""Tools as MCP lists them, and their outcomes as it answers them, each revision with what it knows."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...model.call import Outcome
from ...model.errors import Busy, InvalidInput, MissingRequirements, Problem, ToolError, ToolyardError
from ...model.tool import Schema, Tool
from ...version import VERSION
from .params import SERVER_INFO
from .revisions import Revision

NO_PARAMETERS: Schema = {"type": "object", "additionalProperties": False}
LIST_TTL_MS = 300_000
INFO = {"name": "toolyard", "title": "toolyard", "version": VERSION}
META = b'"_meta":' + msgspec.json.encode({SERVER_INFO: INFO})
"""On every result of the newer era."""

_encode = msgspec.json.Encoder().encode


# --- lists ---------------------------------------------------------------------------------------


def definition(tool: Tool, revision: Revision) -> dict[str, Any]:
    """A tool as a client of that revision sees it."""
    made: dict[str, Any] = {"name": tool.wire_name}
    if tool.title and revision.titles:
        made["title"] = tool.title
    made["description"] = tool.description
    made["inputSchema"] = listed_input(tool)
    if revision.titles and (output := listed_output(tool, revision)) is not None:
        made["outputSchema"] = output
    if annotations := _annotations(tool):
        made["annotations"] = annotations
    if tool.icons and revision.icons:
        made["icons"] = tool.icons
    if revision.execution:
        made["execution"] = {"taskSupport": _TASK_SUPPORT[tool.task]}
    made["_meta"] = {"toolyard/id": tool.id, "toolyard/version": str(tool.version)}
    if tool.hidden:
        made["_meta"]["toolyard/hidden"] = tool.hidden
    return made


_TASK_SUPPORT = {"forbidden": "forbidden", "optional": "optional", "preferred": "optional", "required": "required"}


def listed_output(tool: Tool, revision: Revision) -> Schema | None:
    """None where the result is not structured. Up to 2025-11-25 a result that is not an object is wrapped as one."""
    schema = tool.output_schema
    if schema is None or tool.returns_content:
        return None
    if revision.is_modern or schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def listed_input(tool: Tool) -> Schema:
    """Always an object, without what a model must not fill in; without anything, in the one way to say that."""
    schema = {"type": "object", **tool.input_schema}
    if tool.hidden:
        kept = {name: below for name, below in schema.get("properties", {}).items() if name not in tool.hidden}
        schema["properties"] = kept
        schema["required"] = [name for name in schema.get("required", ()) if name not in tool.hidden]
        if not schema["required"]:
            del schema["required"]
    return NO_PARAMETERS if schema == _EMPTY else schema


_EMPTY: Schema = {"type": "object", "properties": {}, "additionalProperties": False}


def _annotations(tool: Tool) -> dict[str, Any]:
    hints = tool.hints
    said = {
        "title": tool.title,
        "readOnlyHint": hints.read_only or None,
        "idempotentHint": hints.idempotent or None,
        "destructiveHint": hints.destructive,
        "openWorldHint": hints.open_world,
    }
    return {**{name: value for name, value in said.items() if value is not None}, **tool.annotations}


def encode_list(tools: Sequence[Tool], revision: Revision, cursor: str | None) -> bytes:
    """One page, as a result. `cursor` is where the next one begins."""
    made: dict[str, Any] = {"resultType": "complete"} if revision.is_modern else {}
    made["tools"] = [definition(tool, revision) for tool in tools]
    if cursor is not None:
        made["nextCursor"] = cursor
    if revision.is_modern:
        made |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private", "_meta": {SERVER_INFO: INFO}}
    return _encode(made)


# --- results -------------------------------------------------------------------------------------


def encode_outcome(tool: Tool | None, outcome: Outcome, revision: Revision) -> bytes:
    """A call that was made, as a result. Of a tool that is gone there is only the text."""
    if outcome.error is not None:
        return encode_failure(outcome.error, revision)
    value = bytes(outcome.value or b"null")
    if tool is not None and tool.returns_content:
        content = _encode([block(each, revision) for each in blocks_of(msgspec.json.decode(value))])
        return _finished(content, b"", revision)
    content = b'[{"type":"text","text":%b}]' % _as_text(value)
    if value == b"null" and tool is not None and tool.output_schema is None:
        return _finished(b"[]", b"", revision)
    if tool is None or tool.output_schema is None or not revision.titles:
        return _finished(content, b"", revision)
    if not revision.is_modern and tool.output_schema.get("type") != "object":
        value = b'{"result":%b}' % value
    return _finished(content, b',"structuredContent":%b' % value, revision)


def _as_text(value: bytes) -> bytes:
    """JSON as a JSON string; what is text already stays as it is, and so does what needs no escapes."""
    first = value[:1]
    if first == b'"':
        return value
    return _encode(value.decode()) if first in b"{[" else b'"%b"' % value


def encode_failure(error: ToolyardError, revision: Revision) -> bytes:
    """A call that failed, or was refused for a reason that a model can do something about."""
    content = _encode([{"type": "text", "text": sentence_of(error)}])
    more = b',"isError":true'
    if told := _told(error):
        said = {"toolyard/error": told, **({SERVER_INFO: INFO} if revision.is_modern else {})}
        return _result(content, more, b'"_meta":' + _encode(said), revision)
    return _finished(content, more, revision)


def _finished(content: bytes, more: bytes, revision: Revision) -> bytes:
    return _result(content, more, META if revision.is_modern else b"", revision)


def _result(content: bytes, more: bytes, meta: bytes, revision: Revision) -> bytes:
    if revision.is_modern:
        return b'{"resultType":"complete","content":%b%b,%b}' % (content, more, meta)
    return b'{"content":%b%b%b}' % (content, more, b"," + meta if meta else b"")


def _told(error: ToolyardError) -> dict[str, Any]:
    """The retry flags, where there are any."""
    said = {"can_retry": getattr(error, "can_retry", None), "retry_after_ms": getattr(error, "retry_after_ms", None)}
    if isinstance(error, ToolError) and error.code != ToolError.code:
        said["code"] = error.code
    elif isinstance(error, Busy):
        said |= {"code": "busy", "can_retry": True}
    return {name: value for name, value in said.items() if value is not None}


def sentence_of(error: ToolyardError) -> str:
    """What a model should read."""
    if isinstance(error, InvalidInput):
        return "\n".join(["The arguments do not fit:", *map(_line, error.problems)])
    if isinstance(error, MissingRequirements):
        return str(error)
    more = getattr(error, "additional_prompt_content", None)
    return f"{error.message}\n{more}" if more else error.message


def _line(problem: Problem) -> str:
    got = "" if problem.missing or problem.got is None else f" (got {_short(problem.got)})"
    return f"- {problem.path or 'arguments'}: {problem.sentence}{got}"


def _short(value: Any) -> str:
    try:
        text = _encode(value).decode()
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# --- content -------------------------------------------------------------------------------------


def blocks_of(value: Any) -> list[Any]:
    """Of a result that is content: one block or several."""
    return value if isinstance(value, list) else [value]


def block(value: Any, revision: Revision) -> dict[str, Any]:
    """A block as that revision has it: what is not one is its text, and a link is one where links are not known."""
    if not isinstance(value, Mapping) or value.get("type") not in _BLOCKS:
        return {"type": "text", "text": value if isinstance(value, str) else _encode(value).decode()}
    if value["type"] == "resource_link" and not revision.titles:
        return {"type": "text", "text": f"{value.get('name', 'resource')}: {value['uri']}"}
    return dict(value)


_BLOCKS = ("text", "image", "audio", "resource", "resource_link")
