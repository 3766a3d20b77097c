"""Tools as MCP lists them, for each revision with what it knows."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...model.tool import Schema, Tool
from .revisions import Revision

NO_PARAMETERS: Schema = {"type": "object", "additionalProperties": False}
LIST_TTL_MS = 300_000
"""How long a client of the newer era may cache a list, unless it hears of a change."""
_encode = msgspec.json.Encoder().encode


def definition(tool: Tool, revision: Revision) -> dict[str, Any]:
    """A tool as a client of that revision sees it."""
    listed: dict[str, Any] = {"name": tool.wire_name}
    if tool.title and revision.titles:
        listed["title"] = tool.title
    listed["description"] = tool.description
    listed["inputSchema"] = listed_input(tool)
    if revision.titles and (output := listed_output(tool, revision)) is not None:
        listed["outputSchema"] = output
    if annotations := annotations_of(tool):
        listed["annotations"] = annotations
    if tool.icons and revision.icons:
        listed["icons"] = tool.icons
    if revision.execution:
        listed["execution"] = {"taskSupport": _TASK_SUPPORT[tool.task]}
    listed["_meta"] = {**tool.meta, "toolyard/id": tool.id, "toolyard/version": str(tool.version)}
    if tool.hidden:
        listed["_meta"]["toolyard/hidden"] = tool.hidden
    return listed


# MCP has no word for "preferred": that is between the tool and the server.
_TASK_SUPPORT = {"forbidden": "forbidden", "optional": "optional", "preferred": "optional", "required": "required"}


def listed_output(tool: Tool, revision: Revision) -> Schema | None:
    """The output schema as it is listed; None where the result is not structured. Up to 2025-11-25 structured content
    must be an object, so any other value is listed, and later sent, wrapped as `{"result": value}`."""
    schema = tool.output_schema
    if schema is None or tool.returns_content:
        return None
    if revision.is_modern or schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def listed_input(tool: Tool) -> Schema:
    """The input schema as it is listed: always one of an object, without the parameters that a model must not fill in.
    A tool without parameters has the schema that MCP recommends for that."""
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
    """MCP's annotations of a tool: its title and hints, and what else the author gave, which wins."""
    hints = tool.hints
    annotations = {
        "title": tool.title,
        "readOnlyHint": hints.read_only or None,
        "idempotentHint": hints.idempotent or None,
        "destructiveHint": hints.destructive,
        "openWorldHint": hints.open_world,
    }
    return {**{name: value for name, value in annotations.items() if value is not None}, **tool.annotations}


def encode_list(tools: Sequence[Tool], revision: Revision, cursor: str | None) -> bytes:
    """One page of the list, as a result. `cursor` is where the next page begins."""
    page: dict[str, Any] = {"resultType": "complete"} if revision.is_modern else {}
    page["tools"] = [definition(tool, revision) for tool in tools]
    if cursor is not None:
        page["nextCursor"] = cursor
    if revision.is_modern:
        # Private, because access rules may show each caller other tools.
        page |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private", "_meta": revision.server_info}
    return _encode(page)
