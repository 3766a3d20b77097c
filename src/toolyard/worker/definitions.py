"""A worker's tools as the definitions that it registers at a server."""

from ..model.tool import Tool
from ..model.worker import ToolDefinition


def definition_of(tool: Tool) -> ToolDefinition:
    """All that a server needs to list a tool, check its input and call it. How the tool runs is the worker's matter."""
    return ToolDefinition(
        id=tool.id,
        version=str(tool.version),
        wire_name=tool.wire_name,
        description=tool.description,
        input_schema=tool.input_schema,
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
