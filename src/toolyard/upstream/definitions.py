"""Tools of an upstream's list as tools of this server. The upstream is a stranger: whatever stands in its list is held
to bounds here, and one definition that cannot be served takes none of the others with it.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct

from ..model.definition_text import unseen_in
from ..model.errors import InternalError
from ..model.run import Run
from ..model.tool import Host, Icon, OnLost, Origin, Schema, Tool, ToolHints, ToolkitInfo, Version
from ..model.upstream import Upstream
from ..model.worker import offer_of
from ..wires.mcp.client_results import Listed
from ..wires.mcp.headers import mirrored_of
from ..wires.mcp.revisions import Revision
from .connection import UpstreamInfo
from .names import served_names

RUNNER = "upstream"
"""The name of the runner of these tools."""
ANYTHING: Schema = {}
"""The output schema of a tool that promises nothing about its result."""
MOST_TOOLS = 5_000
LARGEST_DEFINITION, LARGEST_LIST = 256 * 2**10, 16 * 2**20
LONGEST_OWN_NAME = 256
MOST_ICONS = 8
_encode = msgspec.json.Encoder(order="sorted").encode
_version = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})").fullmatch
_HINTS = {"readOnlyHint", "idempotentHint", "destructiveHint", "openWorldHint", "title"}
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


class UpstreamListing(Struct):
    """An upstream's list, as it was last heard and is kept in the ledger."""

    revision: str
    info: UpstreamInfo
    tools: list[dict[str, Any]]


class MadeTools(Struct):
    """What became of a list: the tools, and those that cannot be served, with the reasons."""

    tools: list[Tool]
    rejected: dict[str, str]


class UpstreamCode:
    """Stands for the function of an upstream's tool. Its input goes there as it is."""

    is_async, has_validators = True, False

    def __init__(self, upstream: Upstream, listed: Listed, *, knows_keys: bool) -> None:
        self.upstream, self.listed, self.knows_keys = upstream.name, listed, knows_keys
        self.origin = Origin("", f"upstream {upstream.name}", 0)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        return dict(input)

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        raise InternalError(f"{run.tool.id} runs at its upstream")

    def dump(self, value: Any) -> Any:
        return value


def tools_of(upstream: Upstream, listing: UpstreamListing, revision: Revision) -> MadeTools:
    """In a thread where the list is large. What the settings do not ask for is left out without a word."""
    wanted = [each for each in listing.tools if _is_wanted(upstream, each.get("name"))]
    made = MadeTools([], {})
    names = served_names(upstream, (each["name"] for each in wanted))
    version = _version_of(listing.info.version)
    toolkit = ToolkitInfo(upstream.name, _plain_text(listing.info.instructions), version)
    seen: set[str] = set()
    for definition in wanted:
        own = definition["name"]
        if own in seen:
            continue
        seen.add(own)
        try:
            made.tools.append(_tool(upstream, toolkit, names[own].name, names[own].wire_name, definition, revision))
        except UNREADABLE as error:
            made.rejected[own] = _why(error)
    return made


def _is_wanted(upstream: Upstream, name: Any) -> bool:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_OWN_NAME:
        return False
    return upstream.tools is None or any(fnmatchcase(name, pattern) for pattern in upstream.tools)


def _tool(
    upstream: Upstream,
    toolkit: ToolkitInfo,
    name: str,
    wire_name: str,
    definition: Mapping[str, Any],
    revision: Revision,
) -> Tool:
    """Raises one of UNREADABLE."""
    encoded = _encode(definition)
    if len(encoded) > LARGEST_DEFINITION:
        raise ValueError(f"its definition has {len(encoded)} bytes, of at most {LARGEST_DEFINITION}")
    hidden = next(unseen_in(definition), None)
    if hidden is not None:
        raise ValueError(f"its definition has a hidden character at {hidden.member}: {hidden}")
    schema, output = _schema(definition, "inputSchema"), definition.get("outputSchema")
    output = output if isinstance(output, dict) and output else None
    meta = _object(definition, "_meta")
    hints = _hints(definition) if upstream.trusted else ToolHints()
    knows_keys = "toolyard/id" in meta
    reference = f"{upstream.name}.{name}@{toolkit.version}"
    return Tool(
        toolkit=toolkit,
        name=name,
        version=toolkit.version,
        wire_name=wire_name,
        description=_text(definition, "description"),
        input_schema=schema,
        output_schema=ANYTHING if output is None else output,
        code=UpstreamCode(upstream, _listed(definition, meta, output, schema, revision), knows_keys=knows_keys),
        host=Host(),
        title=_text(definition, "title") or _text(_object(definition, "annotations"), "title") or None,
        hints=hints,
        annotations=_other_annotations(definition) if upstream.trusted else {},
        timeout=upstream.timeout_s,
        on_lost=_on_lost(upstream, hints, knows_keys),
        rerun_needs_key=not (hints.read_only or hints.idempotent),
        runs=RUNNER,
        icons=_icons(definition),
        returns_content=output is None,
        is_trusted=upstream.trusted,
        offer=offer_of(reference, ("upstream", upstream.name, upstream.address), encoded),
        meta={key: value for key, value in meta.items() if not key.startswith("toolyard/")},
    )


def _listed(
    definition: Mapping[str, Any], meta: Mapping[str, Any], output: Schema | None, schema: Schema, revision: Revision
) -> Listed:
    """What calling it takes."""
    execution = _object(definition, "execution")
    return Listed(
        definition["name"],
        output_schema=output,
        mirrored=mirrored_of(schema) if revision.is_modern else {},
        needs_task=revision.execution and execution.get("taskSupport") == "required",
    )


def _on_lost(upstream: Upstream, hints: ToolHints, knows_keys: bool) -> OnLost:
    """Whether a call may be made again of which nobody knows whether it was made. A stranger's word is not enough for
    that."""
    may = upstream.trusted and (hints.read_only or hints.idempotent or knows_keys)
    return "rerun" if may else "unknown"


def _schema(definition: Mapping[str, Any], member: str) -> Schema:
    schema = definition.get(member)
    if schema is None:
        return {"type": "object"}
    if not isinstance(schema, dict):
        raise ValueError(f"its {member} is no schema")
    if schema.get("type", "object") != "object":
        raise ValueError(f"its {member} must be that of an object")
    return {"type": "object", **schema}


def _hints(definition: Mapping[str, Any]) -> ToolHints:
    said = _object(definition, "annotations")
    return ToolHints(
        said.get("readOnlyHint") is True,
        said.get("idempotentHint") is True,
        _yes_or_no(said.get("destructiveHint")),
        _yes_or_no(said.get("openWorldHint")),
    )


def _other_annotations(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _object(definition, "annotations").items() if name not in _HINTS}


def _yes_or_no(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _icons(definition: Mapping[str, Any]) -> tuple[Icon, ...]:
    """Those that a client may load without asking another server than one with https."""
    listed = definition.get("icons")
    made: list[Icon] = []
    for each in listed[:MOST_ICONS] if isinstance(listed, list) else ():
        src = each.get("src") if isinstance(each, dict) else None
        if isinstance(src, str) and src.startswith(("https://", "data:image/")):
            kind, sizes = each.get("mimeType"), each.get("sizes")
            sizes = tuple(size for size in sizes if isinstance(size, str)) if isinstance(sizes, list) else ()
            made.append(Icon(src, kind if isinstance(kind, str) else None, sizes))
    return tuple(made)


def _text(definition: Mapping[str, Any], member: str) -> str:
    value = definition.get(member)
    return value if isinstance(value, str) else ""


def _plain_text(text: str) -> str:
    """What an upstream says of itself, unless something is hidden in it."""
    return "" if next(unseen_in(text), None) is not None else text


def _object(definition: Mapping[str, Any], member: str) -> dict[str, Any]:
    value = definition.get(member)
    return value if isinstance(value, dict) else {}


def _version_of(said: str) -> Version:
    matched = _version(said)
    return Version(0, 0, 0) if matched is None else Version(*map(int, matched.groups()))


def _why(error: BaseException) -> str:
    return "its definition is nested too deeply" if isinstance(error, RecursionError) else str(error)[:500]
