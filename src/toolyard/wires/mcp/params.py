"""The parameters of MCP's requests, and the `_meta` in them, as typed structs.

Members that a struct does not name are ignored: MCP allows more of them everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...model.call import LONGEST_USER_ID
from ...model.json_value import decode, decode_as, decoder
from .envelope import INVALID_PARAMS, Id, Incoming, RpcError, decode_message

PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, CLIENT_INFO = PREFIX + "protocolVersion", PREFIX + "clientCapabilities", PREFIX + "clientInfo"
SERVER_INFO, SUBSCRIPTION, RELATED_TASK = PREFIX + "serverInfo", PREFIX + "subscriptionId", PREFIX + "related-task"
TASKS = PREFIX + "tasks"
"""The extension that is called so, in the newer era."""
Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: tuple[Level, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PER_HOP = (PREFIX, "toolyard/")
"""How members of `_meta` begin that are between two servers, and not for whoever is behind them."""
MOST_ALONG = 8 * 2**10
"""Bytes of those members of a request's `_meta` that go along to another server."""
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
    """The `_meta` of a request, as far as this server reads it: MCP's own members, and toolyard's additions."""

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
    """The parameters of any request: `_meta` alone."""

    meta: Meta | UnsetType = UNSET


class PageParams(Params):
    """The parameters of requests for one page of a list: `tools/list`, `tasks/list`."""

    cursor: str | UnsetType = UNSET


class TaskAsked(Struct):
    """The member `task` of 2025-11-25: the client wants a task, kept for so many milliseconds."""

    ttl: int | UnsetType | None = UNSET


class CallParams(Params, rename={"responses": "inputResponses", "state": "requestState"}, kw_only=True):
    """The parameters of `tools/call`. `responses` and `state` come with its next round, after `input_required`."""

    name: str
    arguments: dict[str, Any] = {}
    task: TaskAsked | UnsetType = UNSET
    responses: dict[str, Any] | UnsetType = UNSET
    state: str | UnsetType = UNSET


class _MetaAlone(Struct, rename={"meta": "_meta"}, frozen=True):
    """Parameters of which nothing but `_meta` is wanted."""

    meta: dict[str, Any] = {}


class _WithMeta(Struct):
    """A message of which nothing else is wanted."""

    params: _MetaAlone = _MetaAlone()


class Initialize(Params, rename={"version": "protocolVersion", "client": "clientInfo"}, kw_only=True):
    """The parameters of `initialize`, the handshake of the older era."""

    version: str
    capabilities: dict[str, Any]
    client: dict[str, Any]


class OfTask(Params, rename={"id": "taskId", "responses": "inputResponses"}, kw_only=True):
    """The parameters of requests about one task: `tasks/get`, `tasks/result`, `tasks/cancel`, `tasks/update`."""

    id: str
    responses: dict[str, Any] | UnsetType = UNSET


class SetLevel(Params, kw_only=True):
    """The parameters of `logging/setLevel`: the least severe level that the client wants to hear of."""

    level: Level


class OfResource(Params, kw_only=True):
    """The parameters of requests about one resource: `resources/read`, `…/subscribe`, `…/unsubscribe`."""

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
    """The changes that a subscription of the newer era wants to hear of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: Sequence[str] = ()
    tasks: tuple[str, ...] = ()


class Listen(Params, kw_only=True):
    """The parameters of `subscriptions/listen`, which opens a stream of notifications."""

    notifications: SubscriptionFilter


class Cancelled(Params, rename={"id": "requestId"}, kw_only=True):
    """The parameters of `notifications/cancelled`: the request that is not wanted any more."""

    id: int | str
    reason: str | UnsetType = UNSET


class CallMessage(Struct):
    """A `tools/call` request whose parameters were decoded together with its envelope."""

    jsonrpc: Literal["2.0"]
    id: Id
    method: Literal["tools/call"]
    params: CallParams


Message = Incoming | CallMessage
_decode_call = decoder(CallMessage)
_decode_meta = decoder(_WithMeta)


def decode_incoming(body: bytes) -> Message:
    """One message. A call, which is what most messages are, is decoded in one go. One that does not fit is decoded
    again as any other message, in two steps: those find out what is wrong with it, and say so. Raises RpcError."""
    if body.find(b'"tools/call"') >= 0:  # in half the time of `in`
        try:
            return _decode_call(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return decode_message(body)


def decode_params(message: Message, kind: type[T]) -> T:
    """The parameters of a message, decoded as this kind. Raises RpcError."""
    params = message.params
    if isinstance(params, kind):
        return params
    try:
        return decode_as(params if isinstance(params, Raw) else b"{}", kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


def raw_params(message: Message) -> dict[str, Any]:
    """The parameters of a message as plain JSON, whatever its method is. Raises RpcError."""
    params = decode(message.params) if isinstance(message.params, Raw) else {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: expected an object")
    return params


def passed_on(meta: Any) -> dict[str, Any]:
    """The members of a request's or a result's `_meta` that are not between two servers alone."""
    if not isinstance(meta, Mapping):
        return {}
    return {name: value for name, value in meta.items() if name != "progressToken" and not name.startswith(PER_HOP)}


def meta_along(meta: Any) -> dict[str, Any]:
    """The members of a request's `_meta` that go along to another server: what vendors put there, and what traces are
    made of. Raises RpcError where that is too much."""
    along = passed_on(meta)
    if along and len(msgspec.json.encode(along)) > MOST_ALONG:
        raise RpcError(
            INVALID_PARAMS,
            f"Invalid params: what _meta has for the server behind this one has at most {MOST_ALONG} bytes",
        )
    return along


def meta_in(body: bytes) -> dict[str, Any]:
    """The `_meta` of a message that was decoded before, and of which then only the members were kept that this server
    reads. It costs a second look at the message, which is for calls that go on to another server."""
    return _decode_meta(body).params.meta


def can(capabilities: Capabilities, *path: str) -> bool:
    """Whether a client declared something: `can(…, "elicitation", "url")`. An empty `elicitation` means forms."""
    there: Any = capabilities
    for step in path:
        # Clients from before modes were named declare `elicitation: {}`, and mean forms.
        if step == "form" and path[0] == "elicitation" and there == {}:
            return True
        if not isinstance(there, Mapping) or there.get(step) is None:
            return False
        there = there[step]
    return True
