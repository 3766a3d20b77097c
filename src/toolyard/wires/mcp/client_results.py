"""What a client makes of MCP's lists and results: tools, and the values they return.

The server may be anybody's. A toolyard says more in `_meta`, which is used where it is there and never needed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ...model.errors import Busy, InternalError, RequestError, ToolError
from ...model.json_value import decode
from ..model_text import PREVIEW, WRAPPED
from .headers import mirrored_of
from .revisions import Revision

Validator = Any
Compile = Callable[[dict[str, Any]], Validator]
"""Makes a validator from a schema. Raises ValueError for a schema that cannot be used."""
_LONGEST = 200


class Listed(Struct, frozen=True):
    """A listed tool, as far as calling it is concerned."""

    name: str
    id: str | None = None
    """`Toolkit.Tool`, where the server is a toolyard."""
    version: str | None = None
    output_schema: dict[str, Any] | None = None
    hidden: tuple[str, ...] = ()
    mirrored: Mapping[str, tuple[str, ...]] = {}
    """The headers that repeat arguments, and the arguments' paths."""
    needs_task: bool = False
    wraps: bool = False
    """Whether the server wraps a value that is no object as `{"result": value}`, as a toolyard does for the older
    revisions."""


class ToolListing(Struct):
    """All tools of a server. `rejected` are those that cannot be called as they are listed, and why."""

    tools: list[dict[str, Any]]
    by_name: dict[str, Listed]
    rejected: dict[str, str]

    def find(self, id: str) -> tuple[Listed, str | None] | None:
        """The tool of this name, id or reference, and the version that was asked for."""
        if id in self.by_name:
            return self.by_name[id], None
        bare, _, version = id.partition("@")
        named = self.by_name.get(bare) or self._by_id(bare) or self.by_name.get(bare.replace(".", "_"))
        # A server that is no toolyard has no versions, so one that is asked for cannot be had.
        if named is None or (version and named.id is None):
            return None
        return named, version or None

    def _by_id(self, id: str) -> Listed | None:
        return next((tool for tool in self.by_name.values() if tool.id == id), None)


def page_of(result: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """The tools of one page, and where the next one begins."""
    tools, cursor = result.get("tools"), result.get("nextCursor")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) and "name" in tool for tool in tools):
        raise broken("The server's answer is not a list of tools", result)
    return tools, cursor if isinstance(cursor, str) else None


def listing_of(tools: list[dict[str, Any]], revision: Revision) -> ToolListing:
    """The listing of these tools. One whose headers cannot be made is rejected, as 2026-07-28 wants it."""
    listing = ToolListing([], {}, {})
    for tool in tools:
        try:
            listed = _listed(tool, revision)
        except ValueError as error:
            listing.rejected[str(tool["name"])] = str(error)
            continue
        listing.tools.append(tool)
        listing.by_name[listed.name] = listed
    return listing


def _listed(tool: Mapping[str, Any], revision: Revision) -> Listed:
    meta, schema, execution = _object(tool, "_meta"), _object(tool, "inputSchema"), _object(tool, "execution")
    output = tool.get("outputSchema")
    return Listed(
        str(tool["name"]),
        meta.get("toolyard/id"),
        meta.get("toolyard/version"),
        output if isinstance(output, dict) else None,
        tuple(meta.get("toolyard/hidden", ())),
        mirrored_of(schema) if revision.is_modern else {},
        revision.execution and execution.get("taskSupport") == "required",
        "toolyard/id" in meta and not revision.is_modern,
    )


def _object(tool: Mapping[str, Any], member: str) -> dict[str, Any]:
    value = tool.get(member)
    return value if isinstance(value, dict) else {}


# --- results -------------------------------------------------------------------------------------


def kind_of(result: Mapping[str, Any]) -> str:
    """The kind of a result: `complete` or `task`. Raises for any other, which this client cannot go on with."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise asked(result)
    if kind not in ("complete", "task"):
        raise broken(f"The server's answer is of a kind that this client does not know: {kind!r}", result)
    return str(kind)


def asked(result: Mapping[str, Any]) -> RequestError:
    """The error of a call whose tool asks something: this client has nobody to ask."""
    requests = result.get("inputRequests")
    names = ", ".join(requests) if isinstance(requests, dict) else "something"
    return RequestError(
        f"The tool wants to know more ({names}), and this client can ask nobody",
        developer_message="MCP: input_required, though this client declares no capability for it",
    )


def failure_of(result: Mapping[str, Any]) -> ToolError | None:
    """The error of a call that failed; None where it did not. Raises Busy where the server could not take it now."""
    if result.get("isError") is not True:
        return None
    text = text_of(result.get("content")) or "The tool failed"
    flags = _object(_object(result, "_meta"), "toolyard/error")
    retry_after, can_retry = flags.get("retry_after_ms"), flags.get("can_retry")
    retry_after = retry_after if isinstance(retry_after, int) else None
    if flags.get("code") == "busy":
        raise Busy(text, retry_after_ms=retry_after or 0)
    return ToolError(
        text,
        can_retry=can_retry if isinstance(can_retry, bool) else None,
        retry_after_ms=retry_after,
        additional_prompt_content="" if flags.get("has_prompt_content") is True else None,  # it is in the text
    )


def value_of(result: Mapping[str, Any], tool: Listed, schema: dict[str, Any] | None, compile: Compile) -> Any:
    """The value that a tool returned. Raises ToolError for one that does not fit the tool's output schema, if any."""
    content = result.get("content")
    if not isinstance(content, list) and "structuredContent" not in result:
        raise broken("The server's answer is not a tool result", result)
    if "structuredContent" not in result:
        return _of_content(content or [], schema, compile)
    value = result["structuredContent"]
    if schema is not None:
        check(value, schema, compile)
    # Where the text was cut, or is not the value's, it cannot be compared: a note says whether the value is wrapped.
    meta = _object(result, "_meta")
    if isinstance(meta.get(WRAPPED), bool):
        return value["result"] if meta[WRAPPED] and isinstance(value, dict) and "result" in value else value
    preview = _object(meta, PREVIEW)
    if preview:
        return value["result"] if preview.get("wrapped") is True and isinstance(value, dict) else value
    return value["result"] if tool.wraps and _is_wrapped(value, schema, text_of(content)) else value


def _of_content(content: list[Any], schema: dict[str, Any] | None, compile: Compile) -> Any:
    """The value of a result that has content alone: its text, or its blocks where they are not text. With a schema, the
    text is read as JSON."""
    text = text_of(content)
    if schema is None:
        return content if text is None and content else text
    value = _json(text)
    check(value, schema, compile)
    return value


def text_of(content: Any) -> str | None:
    """The text of content that is nothing but text; None for any other."""
    if not isinstance(content, list) or not content:
        return None
    texts = [each.get("text") for each in content if isinstance(each, dict) and each.get("type") == "text"]
    return "\n".join(map(str, texts)) if len(texts) == len(content) else None


def _json(text: str | None) -> Any:
    """The value of a text that is JSON; else the text itself."""
    try:
        return decode(text or "null")
    except (msgspec.DecodeError, RecursionError):
        return text


def _is_wrapped(value: Any, schema: Mapping[str, Any] | None, text: str | None) -> bool:
    """Whether a value was wrapped in an object because the revision allows no other. A tool's own object may look the
    same, schema and all, but the text beside it is always the value that the tool returned."""
    wrapping = schema is None or (
        schema.keys() == {"type", "properties", "required"} and list(schema["properties"]) == ["result"]
    )
    return wrapping and isinstance(value, dict) and value.keys() == {"result"} and _json(text) != value


def check(value: Any, schema: dict[str, Any], compile: Compile) -> None:
    """Raises ToolError for a result that is not what its tool says it returns."""
    try:
        validator = compile(schema)
    except ValueError as error:
        raise ToolError(f"The tool's output schema cannot be used: {str(error)[:_LONGEST]}", can_retry=False) from None
    problem = next(iter(validator.iter_errors(value)), None)
    if problem is not None:
        at = ".".join(map(str, problem.instance_path))
        where = f" at {at}" if at else ""
        raise ToolError(
            f"The tool's result does not fit its own output schema{where}: {problem.message[:_LONGEST]}",
            can_retry=False,
        )


# --- tasks ---------------------------------------------------------------------------------------


def task_failure(task: Mapping[str, Any]) -> ToolError:
    """The error of a task that ended without a result."""
    if task.get("status") == "cancelled":
        return ToolError(str(task.get("statusMessage") or "The call was cancelled"), can_retry=False)
    error = _object(task, "error")
    message = error.get("message") or task.get("statusMessage") or "The task failed"
    return ToolError(str(message), developer_message=f"MCP error {error.get('code')}", can_retry=False)


def broken(sentence: str, answer: Any) -> InternalError:
    """The error for an answer that is not what MCP says it must be, with the beginning of it."""
    return InternalError(sentence, developer_message=msgspec.json.encode(answer)[:_LONGEST].decode("utf-8", "replace"))
