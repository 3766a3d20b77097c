"""Tools as MCP lists them, each revision with what it knows."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...model.tool import Schema, Tool
from .revisions import Revision

NO_PARAMETERS: Schema = {"type": "object", "additionalProperties": False}
LIST_TTL_MS = 300_000
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
    if annotations := annotations_of(tool):
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


def annotations_of(tool: Tool) -> dict[str, Any]:
    """What its author says that it does."""
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
        made |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private", "_meta": revision.server_info}
    return _encode(made)
