"""The bodies of the lifecycle API's requests and replies, as types, for the OpenAPI document. As in `oxp_shapes`, tests
hold the server against them; the server itself goes by `wires/lifecycle`.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ...model.writes import LONGEST_REQUEST_ID
from ...wires.oxp.messages import ContextBody
from .oxp_shapes import Failure, Shape

State = Literal["PENDING", "PROCESSING", "COMPLETE", "ERROR"]
Status = Literal["awaiting_tools", "ready"]
Reason = Literal["completed", "failed", "abandoned", "cancelled", "held", "stale_attempt", "conflict", "waiting"]
Id = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
RequestId = Annotated[str, Meta(min_length=1, max_length=LONGEST_REQUEST_ID, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
ToolName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
Attempt = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class LifecycleError(Shape):
    """Why a request was not taken."""

    message: str


class LifecycleInvalid(Shape):
    """Which parameters are not valid, and why."""

    message: str
    parameter_errors: dict[str, str]


class RefusedBody(Shape):
    """Why what a worker or a person said of a call does not count."""

    message: str
    reason: Reason


class NotOffered(Shape):
    """Why a tool cannot be offered: it is another's, or not as it was approved."""

    message: str
    reason: Literal["conflict", "locked"]


# -- calls ------------------------------------------------------------------------------------------


class Progress(Shape):
    """How far a tool has come."""

    done: float
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


class WaitingPlace(Shape):
    """Where a person has to go before the call goes on."""

    url: str
    message: str


class ListedCall(Shape, rename="camel"):
    """A call as its caller sees it: `value` once it is complete, with the `content` that came with it from another MCP
    server, if any; `error` once it has failed."""

    call_id: str
    tool: str
    wire: str
    state: State
    attempt: int
    created_at: float
    input: dict[str, Any] | UnsetType = UNSET
    code: str | UnsetType = UNSET
    waiting_for: str | UnsetType = UNSET
    waiting_at: list[WaitingPlace] | UnsetType = UNSET
    started_at: float | UnsetType = UNSET
    finished_at: float | UnsetType = UNSET
    duration_ms: float | UnsetType = UNSET
    progress: dict[str, Any] | UnsetType = UNSET
    effects: Literal["none", "unknown"] | UnsetType = UNSET
    value: Any = UNSET
    content: list[Any] | UnsetType = UNSET
    error: Failure | UnsetType = UNSET
    family: str | UnsetType = UNSET
    other_families: list[str] | UnsetType = UNSET


class Asker(Shape, rename="camel"):
    """The caller whose call waits for a person's yes."""

    tenant: str
    subject: str
    user_id: str | None


class ApprovalShape(Shape, rename="camel"):
    """A call that waits for a person's yes."""

    id: str
    url: str
    call_id: str
    tool: str
    caller: Asker
    wire: str
    input: dict[str, Any]
    created_at: float


class ApprovalShapes(Shape):
    """The calls that wait for a person's yes."""

    approvals: list[ApprovalShape]


class ReasonBody(Shape):
    """Why somebody approves or rejects a call, in their own words."""

    reason: str | UnsetType = UNSET


class DecidedCall(Shape, rename="camel"):
    """A call that was approved or rejected, and its state after that."""

    call_id: str
    approved: bool
    state: State


class ListedCalls(Shape):
    """A page of calls. `cursor` is there when there may be more."""

    calls: list[ListedCall]
    cursor: str | UnsetType = UNSET


# -- requests ---------------------------------------------------------------------------------------


class ProcessingBody(Shape, tag_field="state", tag="PROCESSING"):
    """A request is being worked on. `heartbeat` is the worker's clock, in milliseconds."""

    heartbeat: float


class ErrorBody(Shape, tag_field="state", tag="ERROR"):
    """A request has failed, and why."""

    error: str | Failure


HeartbeatBody = ProcessingBody | ErrorBody


class ResponseBody(Shape):
    """`response` has the state COMPLETE; the rest of it is the result."""

    response: Annotated[
        dict[str, Any],
        Meta(extra_json_schema={"required": ["state"], "properties": {"state": {"enum": ["COMPLETE"]}}}),
    ]


class ClaimBody(Shape):
    """What to claim: ids or names of tools, with `*` where anything may stand."""

    tools: Annotated[
        list[Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.*-]{1,128}(@[0-9]{1,9}(\.[0-9]{1,9}\.[0-9]{1,9})?)?$")]],
        Meta(min_length=1, max_length=100),
    ] | UnsetType = UNSET  # fmt: skip
    limit: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET
    wait: Annotated[float, Meta(ge=0, le=60)] | UnsetType = UNSET


class CallerShape(Shape, rename="camel"):
    """The caller whose call a worker has claimed."""

    tenant: str
    subject: str
    user_id: str | UnsetType = UNSET


class ClaimShape(Shape, rename="camel"):
    """A request that is the caller's to work on, for `leaseMs` from now or from its last heartbeat."""

    session_id: str
    request_id: str
    tool: str
    input: dict[str, Any]
    context: ContextBody
    attempt: int
    lease_ms: int
    caller: CallerShape
    trace_id: str | UnsetType = UNSET


class Claims(Shape):
    """The requests that were claimed; none where nothing waits."""

    claims: list[ClaimShape]


class RenewalBody(Shape, rename="camel"):
    """A request that its holder goes on holding, by its attempt."""

    session_id: Id
    request_id: RequestId
    attempt: Attempt
    progress: dict[str, Any] | UnsetType = UNSET


class HeartbeatsBody(Shape):
    """Heartbeats for many requests at once."""

    heartbeats: Annotated[list[RenewalBody], Meta(min_length=1, max_length=1000)]


class VerdictShape(Shape, rename="camel"):
    """What a heartbeat would have been answered by itself: its status, and why it does not count, if it does not."""

    request_id: str
    status: Literal[200, 404, 409]
    reason: Reason | UnsetType = UNSET


class Verdicts(Shape):
    """The answers to many heartbeats, in their order."""

    results: list[VerdictShape]


class Standing(Shape, rename="camel"):
    """A request in short: its state, its attempt, and what it waits for."""

    request_id: str
    tool: str
    state: State
    attempt: int
    waiting_for: str | UnsetType = UNSET
    waiting_at: list[WaitingPlace] | UnsetType = UNSET


class RequestShape(Standing, rename="camel"):
    """All that is known of a request."""

    session_id: str = ""
    input: dict[str, Any] | UnsetType = UNSET
    heartbeat: float | UnsetType = UNSET
    last_seen: float | UnsetType = UNSET
    response: Any = UNSET
    error: str | UnsetType = UNSET


class RequestShapes(Shape):
    """The requests that were asked for, the oldest first."""

    requests: list[RequestShape]


# -- sessions ---------------------------------------------------------------------------------------


class SessionToolBody(Shape):
    """A tool that the session brings with it."""

    name: ToolName
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | UnsetType | None = UNSET


class SessionBody(Shape):
    """A session to open, with the tools that it brings and whatever its client wants to keep with it."""

    tools: list[SessionToolBody] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class SessionCreated(Shape, rename="camel"):
    """A session that was opened."""

    session_id: str
    status: Status


class SessionShape(Shape, rename="camel"):
    """A session, its status, and all of its requests."""

    session_id: str
    status: Status
    requests: list[Standing]
    metadata: dict[str, Any]


class AnthropicMessage(Shape, forbid_unknown_fields=False):
    """An assistant's message with `tool_use` blocks."""

    role: Literal["assistant"]
    content: Any


class OpenAIMessage(Shape, forbid_unknown_fields=False):
    """An assistant's message with `tool_calls`."""

    role: Literal["assistant"]
    tool_calls: list[dict[str, Any]]


class Turn(Shape):
    """The tool uses of a message, as the requests that they became."""

    requests: list[Standing]


class PreviewShape(Shape):
    """A result that was too long for a model: how much there is, how much was shown, and where all of it is."""

    bytes: int
    shown: int
    content: str | UnsetType = UNSET


class NoteShape(Shape):
    """What was done to a result's text."""

    escaped: bool | UnsetType = UNSET
    hidden: list[str] | UnsetType = UNSET
    preview: PreviewShape | UnsetType = UNSET


class Ready(Shape):
    """`message` in Anthropic's shape, `messages` in OpenAI's. `notes` are by the tool use's id."""

    status: Literal["ready"]
    message: dict[str, Any] | UnsetType = UNSET
    messages: list[dict[str, Any]] | UnsetType = UNSET
    notes: dict[str, NoteShape] | UnsetType = UNSET


class Awaiting(Shape):
    """Some results of the newest message are not there yet."""

    status: Literal["awaiting_tools"]


# -- workers ----------------------------------------------------------------------------------------


class DefinitionBody(Shape):
    """A tool that a worker offers."""

    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+\.[A-Za-z0-9_]+$", max_length=256)]
    version: Annotated[str, Meta(pattern=r"^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$")] | UnsetType = UNSET
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$")] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    input_schema: dict[str, Any] | UnsetType = UNSET
    output_schema: dict[str, Any] | UnsetType | None = UNSET
    requirements: dict[str, Any] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    on_lost: Literal["rerun", "unknown"] | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET
    idempotent: bool | UnsetType = UNSET
    toolkit_description: str | UnsetType = UNSET
    returns_content: bool | UnsetType = UNSET
    task: Literal["forbidden", "optional", "preferred", "required"] | UnsetType = UNSET


class WorkerBody(Shape):
    """A worker that registers, with all tools that it offers."""

    tools: Annotated[list[DefinitionBody], Meta(min_length=1)]


class Registered(Shape, rename="camel"):
    """A worker that was registered, and for how long without a heartbeat."""

    name: str
    tools: list[str]
    lease_ms: int
