"""The definitions of the tools that workers offer, in both directions.

A definition is what OXP's `GET /tools` lists of a tool, and may have more members, such as hints and a time limit.
"""

from collections.abc import Sequence
from typing import Any, cast, get_args

from ...model.tool import REFERENCE, WIRE_NAME, WIRE_NAME_FORM, Authorization, OnLost, Requirements, TaskUse, Version
from ...model.worker import ToolDefinition
from ..contract import JSON, Reply
from ..errors import encode
from ..json_body import Members, an_object, flag, matching, number_from, object_or_null, one_of, parse, text
from ..oxp.messages import requirements_json

LONGEST_ID = 256
LONGEST_RUN_S = 7 * 86400.0
_version = matching(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}", "Must be a version: 1.2.3")
_on_lost = one_of(*get_args(OnLost))
_task = one_of(*get_args(TaskUse))
_secret = matching(r"[^\x00-\x1f\x7f]{1,256}", "Must be a string of 1 to 256 characters")
FIRST = "1.0.0"


def decode_worker(body: bytes, most: int | None = None) -> list[ToolDefinition]:
    """The tools that a worker registers, at least one."""
    return decode_definitions(body, 1, most)


def decode_definitions(body: bytes, fewest: int, most: int | None = None) -> list[ToolDefinition]:
    """The definitions in a body, each tool and version once. A list of more than `most` is refused before its items are
    read: a stranger may have sent it."""
    members = parse(body)
    given = list(members.all_below("tools", fewest, most))
    tools = [_definition(each) for each in given]
    known: set[str] = set()
    for each, tool in zip(given, tools, strict=True):
        reference = f"{tool.id}@{tool.version}"
        if tool.id and reference in known:
            each.refuse("id", f"{reference} is there already")
        known.add(reference)
    members.done()
    return tools


def encode_worker(name: str, tools: Sequence[ToolDefinition], lease_ms: int) -> Reply:
    """The answer to a worker that is registered now: its tools, and how long they stay without a heartbeat."""
    body = {"name": name, "tools": [f"{tool.id}@{tool.version}" for tool in tools], "leaseMs": lease_ms}
    return Reply(200, encode(body), [JSON])


def definition_json(tool: ToolDefinition) -> dict[str, Any]:
    """The JSON of a definition, which `_definition` reads. Members with their usual value are left out."""
    members: dict[str, Any] = {
        "id": tool.id,
        "version": tool.version,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "on_lost": tool.on_lost,
    }
    optional = {
        "name": tool.wire_name,
        "requirements": requirements_json(tool.requirements, with_user_id=True),
        "title": tool.title,
        "timeout": tool.timeout,
        "read_only": tool.read_only,
        "idempotent": tool.idempotent,
        "toolkit_description": tool.toolkit_description,
        "returns_content": tool.returns_content,
        "task": tool.task if tool.task != "optional" else None,
        "tags": tool.tags,
        "approval": tool.approval,
    }
    hints = {"destructive": tool.destructive, "open_world": tool.open_world}  # here, false says something, too
    members |= {name: value for name, value in hints.items() if value is not None}
    return members | {name: value for name, value in optional.items() if value}


def _definition(members: Members) -> ToolDefinition:
    id, version = _reference(members)
    tool = ToolDefinition(
        id,
        version,
        members.maybe("name", _wire_name, None),
        members.maybe("description", text, ""),
        members.maybe("input_schema", an_object, {}),
        members.maybe("output_schema", object_or_null, {}),  # absent: any value; null: the tool returns nothing
        _requirements(members.below("requirements")) if "requirements" in members else Requirements(),
        members.maybe("title", text, None),
        members.maybe("timeout", number_from(0.001, LONGEST_RUN_S), None),
        members.maybe("on_lost", _on_lost, "unknown"),
        members.maybe("read_only", flag, False),
        members.maybe("idempotent", flag, False),
        members.maybe("toolkit_description", text, ""),
        members.maybe("returns_content", flag, False),
        cast(TaskUse, members.maybe("task", _task, "optional")),
        members.maybe("destructive", flag, None),
        members.maybe("open_world", flag, None),
        tuple(members.each("tags", text)) if "tags" in members else (),
        members.maybe("approval", flag, False),
    )
    members.refuse_unseen()
    members.close()
    return tool


def _reference(members: Members) -> tuple[str, str]:
    """A definition's id and version. The id may have the version in it, as listed ones do; then both must agree."""
    id, _, named = (members.one("id", _tool_id) or "").partition("@")
    version = members.maybe("version", _version, None) or named or FIRST
    if named and Version.parse(named) != Version.parse(version):
        members.refuse("version", f"The id says {named}")
    return id, str(Version.parse(version))


def _requirements(members: Members) -> Requirements:
    authorization = list(members.all_below("authorization")) if "authorization" in members else []
    secrets = list(members.all_below("secrets")) if "secrets" in members else []
    requirements = Requirements(
        tuple(map(_authorization, authorization)),
        tuple(map(_only_id, secrets)),
        members.maybe("user_id", flag, False),
    )
    members.close()
    return requirements


def _authorization(members: Members) -> Authorization:
    scopes: list[str] = []
    if "oauth2" in members:
        oauth2 = members.below("oauth2")
        scopes = oauth2.each("scopes", text) if "scopes" in oauth2 else []
        oauth2.close()
    return Authorization(_only_id(members), tuple(scopes))


def _only_id(members: Members) -> str:
    id = members.one("id", _secret)
    members.close()
    return id


def _tool_id(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_ID or not REFERENCE(value):
        raise ValueError("Must be a tool's id: Toolkit.Tool or Toolkit.Tool@1.2.3")
    return value


def _wire_name(value: Any) -> str:
    if not isinstance(value, str) or not WIRE_NAME(value):
        raise ValueError(f"Must have {WIRE_NAME_FORM}")
    return value
