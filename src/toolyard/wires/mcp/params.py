"""What requests carry: their parameters, and `_meta`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...model.call import LONGEST_USER_ID
from ...model.json_value import decode, decode_as
from .envelope import INVALID_PARAMS, Id, Incoming, RpcError

PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, CLIENT_INFO = PREFIX + "protocolVersion", PREFIX + "clientCapabilities", PREFIX + "clientInfo"
SERVER_INFO, SUBSCRIPTION, RELATED_TASK = PREFIX + "serverInfo", PREFIX + "subscriptionId", PREFIX + "related-task"
TASKS = PREFIX + "tasks"
"""The extension."""
Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: tuple[Level, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
Capabilities = Mapping[str, Any]
T = TypeVar("T")


class Meta(
    Struct,
    rename={
        "version": VERSION,
        "capabilities": CAPABILITIES,
        "log_level": PREFIX + "logLevel",
        "progress_token": "progressToken",
        "call_id": "toolyard/callId",
        "tool_version": "toolyard/version",
        "arguments": "toolyard/arguments",
        "user_id": "toolyard/userId",
    },
):
    """`_meta`, as far as anybody here looks at it."""

    version: str | UnsetType = UNSET
    capabilities: dict[str, Any] | UnsetType = UNSET
    log_level: Level | UnsetType = UNSET
    progress_token: Id | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    tool_version: str | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    user_id: Annotated[str, msgspec.Meta(max_length=LONGEST_USER_ID)] | UnsetType = UNSET
    traceparent: str | UnsetType = UNSET


class Params(Struct, rename={"meta": "_meta"}):
    """Of any request."""

    meta: Meta | UnsetType = UNSET


class PageParams(Params):
    """`tools/list`, `tasks/list`."""

    cursor: str | UnsetType = UNSET


class TaskAsked(Struct):
    """2025-11-25: the client wants a task, kept for so many milliseconds."""

    ttl: int | UnsetType | None = UNSET


class CallParams(Params, rename={"responses": "inputResponses", "state": "requestState"}, kw_only=True):
    """`tools/call`."""

    name: str
    arguments: dict[str, Any] = {}
    task: TaskAsked | UnsetType = UNSET
    responses: dict[str, Any] | UnsetType = UNSET
    state: str | UnsetType = UNSET


class Initialize(Params, rename={"version": "protocolVersion", "client": "clientInfo"}, kw_only=True):
    """`initialize`."""

    version: str
    capabilities: dict[str, Any]
    client: dict[str, Any]


class OfTask(Params, rename={"id": "taskId", "responses": "inputResponses"}, kw_only=True):
    """`tasks/get`, `tasks/result`, `tasks/cancel`, `tasks/update`."""

    id: str
    responses: dict[str, Any] | UnsetType = UNSET


class SetLevel(Params, kw_only=True):
    """`logging/setLevel`."""

    level: Level


class OfResource(Params, kw_only=True):
    """`resources/read`, `resources/subscribe`, `resources/unsubscribe`."""

    uri: str


class SubscriptionFilter(
    Struct,
    rename={
        "tools": "toolsListChanged",
        "prompts": "promptsListChanged",
        "resources": "resourcesListChanged",
        "uris": "resourceSubscriptions",
        "tasks": "taskIds",
    },
    omit_defaults=True,
):
    """What a subscription wants to hear of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: Sequence[str] = ()
    tasks: tuple[str, ...] = ()


class Listen(Params, kw_only=True):
    """`subscriptions/listen`."""

    notifications: SubscriptionFilter


class Cancelled(Params, rename={"id": "requestId"}, kw_only=True):
    """`notifications/cancelled`."""

    id: int | str
    reason: str | UnsetType = UNSET


def decode_params(message: Incoming, kind: type[T]) -> T:
    """Once: what was decoded takes the place of the bytes. Raises RpcError."""
    params: Any = message.params
    if type(params) is kind:
        return params
    try:
        decoded = decode_as(b"{}" if params is UNSET else params, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
    if kind is CallParams:
        message.params = decoded  # type: ignore[assignment]
    return decoded


def raw_params(message: Incoming) -> dict[str, Any]:
    """As they are. Raises RpcError."""
    params = decode(message.params) if isinstance(message.params, Raw) else {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: expected an object")
    return params


def can(capabilities: Capabilities, *path: str) -> bool:
    """Whether a client declared something: `can(…, "elicitation", "url")`. An empty `elicitation` means forms."""
    there: Any = capabilities
    for step in path:
        if step == "form" and path[0] == "elicitation" and there == {}:
            return True
        if not isinstance(there, Mapping) or there.get(step) is None:
            return False
        there = there[step]
    return True
