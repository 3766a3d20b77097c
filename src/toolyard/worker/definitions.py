"""A worker's tools as the definitions that it registers at a server."""

from typing import Any

from ..model.tool import Tool
from ..model.worker import ToolDefinition


def definition_of(tool: Tool) -> ToolDefinition:
    """All that a server needs to list a tool, check its input and call it. How the tool runs is the worker's matter."""
    return ToolDefinition(
        id=tool.id,
        version=str(tool.version),
        wire_name=tool.wire_name,
        description=tool.description,
        input_schema=_with_own_defaults(tool),
        output_schema=tool.output_schema,
        requirements=tool.requirements,
        title=tool.title,
        timeout=tool.timeout,
        on_lost=tool.on_lost,
        read_only=tool.hints.read_only,
        idempotent=tool.hints.idempotent,
        toolkit_description=tool.toolkit.description,
        returns_content=tool.returns_content,
        task=tool.task,
        destructive=tool.hints.destructive,
        open_world=tool.hints.open_world,
        tags=tool.tags,
        approval=tool.approval is not None,  # a predicate cannot be sent, so every call of such a tool needs approval
    )


def _with_own_defaults(tool: Tool) -> dict[str, Any]:
    """The tool's input schema with the defaults that its function has: the server judges by them whether a call that
    leaves something out needs an approval. One that a factory makes is not known, so the schema must not have any."""
    if tool.called_with is None:
        return tool.input_schema
    listed, own = tool.input_schema.get("properties", {}), tool.called_with["properties"]
    return {**tool.input_schema, "properties": {name: _with_default(of, own.get(name)) for name, of in listed.items()}}


def _with_default(listed: Any, own: Any) -> Any:
    """A parameter's schema with the default that the function has for it. What goes into its `**more` is left as it
    is."""
    if own is None or listed is False:
        return listed
    listed = {} if listed is True else listed
    if "default" not in own:
        return {name: value for name, value in listed.items() if name != "default"}
    return {**listed, "default": own["default"]}  # in its place, where the schema has it already
