"""The bodies of requests and replies, as types, for the OpenAPI document. Tests hold every reply against them, and
the server against what they allow and forbid."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...model.call import LONGEST_CALL_ID
from ...wires.oxp.messages import OTC_1_0, OTC_DRAFT, OXP_1_0, OXP_1_0_ADDRESS, ContextBody

OXP_NAMES = (OXP_1_0, OXP_1_0_ADDRESS)
NAMES = (*OXP_NAMES, OTC_1_0, OTC_DRAFT)
"""What `$schema` may be."""


def one_of(*values: str) -> Meta:
    return Meta(extra_json_schema={"enum": list(values)})


AnySchema = Annotated[str, one_of(*NAMES)]
OxpSchema = Annotated[str, one_of(*OXP_NAMES)]
OtcSchema = Annotated[str, one_of(OTC_1_0)]
DraftSchema = Annotated[str, one_of(OTC_DRAFT)]
OxpOrOtcSchema = Annotated[str, one_of(*OXP_NAMES, OTC_1_0)]
OtcOrDraftSchema = Annotated[str, one_of(OTC_1_0, OTC_DRAFT)]

_ID, _VERSION = "[A-Za-z0-9_]+", r"[0-9]+|[0-9]+\.[0-9]+\.[0-9]+"
ToolId = Annotated[str, Meta(pattern=rf"^{_ID}\.{_ID}(@({_VERSION}))?$", max_length=256)]
DraftToolId = Annotated[str, Meta(pattern=rf"^{_ID}\.{_ID}(@(latest|{_VERSION}))?$", max_length=256)]
CallId = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", min_length=1, max_length=LONGEST_CALL_ID)]


class Shape(Struct, forbid_unknown_fields=True):
    """Has these members and no others."""


# -- requests ---------------------------------------------------------------------------------------


class Call(Shape):
    """A call."""

    tool_id: ToolId
    call_id: CallId | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    input: dict[str, Any] | UnsetType = UNSET
    context: ContextBody | UnsetType = UNSET


class DraftCall(Call):
    """A call of the OTC draft. `inputs` is another name for `input`, which wins."""

    tool_id: DraftToolId
    inputs: dict[str, Any] | UnsetType = UNSET


class FlatCall(Call):
    """A call of OXP 1.0 as its pages show it."""

    schema: AnySchema | UnsetType = field(default=UNSET, name="$schema")


class OxpEnvelope(Shape):
    """A call of OXP 1.0 as its OpenAPI document has it."""

    request: Call
    schema: OxpSchema | UnsetType = field(default=UNSET, name="$schema")


class OtcEnvelope(Shape):
    """A call of OTC 1.0."""

    request: Call
    schema: OtcSchema | UnsetType = field(default=UNSET, name="$schema")


class DraftEnvelope(Shape):
    """A call of the OTC draft."""

    request: DraftCall
    schema: DraftSchema | UnsetType = field(default=UNSET, name="$schema")


class OxpOrOtcEnvelope(Shape):
    """A call of OXP 1.0 or OTC 1.0; without `$schema`, of OTC 1.0."""

    request: Call
    schema: OxpOrOtcSchema | UnsetType = field(default=UNSET, name="$schema")


class NamedOxpOrOtcEnvelope(Shape):
    """A call of OXP 1.0 or OTC 1.0."""

    request: Call
    schema: OxpOrOtcSchema = field(name="$schema")


class NamedDraftEnvelope(Shape):
    """A call of the OTC draft."""

    request: DraftCall
    schema: DraftSchema = field(name="$schema")


# -- replies ----------------------------------------------------------------------------------------


class Status(Shape):
    """Whether the server takes calls."""

    status: Literal["ok", "starting", "draining"]
    schema: OtcOrDraftSchema | UnsetType = field(default=UNSET, name="$schema")


class Alive(Shape):
    status: Literal["ok"]


class ChallengeStatus(Shape):
    """How far an authorization has come."""

    status: Literal["pending", "completed", "failed"]


class Oauth2(Shape):
    scopes: list[str]


class RequiredAuthorization(Shape):
    id: str
    oauth2: Oauth2 | UnsetType = UNSET


class RequiredSecret(Shape):
    id: str


class Requires(Shape):
    authorization: list[RequiredAuthorization] | UnsetType = UNSET
    secrets: list[RequiredSecret] | UnsetType = UNSET
    user_id: bool | UnsetType = UNSET


class ListedTool(Shape):
    id: str
    name: str
    description: str
    version: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    requirements: Requires | UnsetType = UNSET


class DraftToolkit(Shape):
    name: str
    description: str
    version: str


class DraftInput(Shape):
    parameters: dict[str, Any]
    non_inferrable_parameters: list[str] | UnsetType = UNSET


class DraftOutputModes(Shape):
    available_modes: list[Literal["value", "error", "null"]]
    value: dict[str, Any] | UnsetType = UNSET


class DraftTool(Shape):
    id: str
    name: str
    description: str
    toolkit: DraftToolkit
    input: DraftInput
    output: DraftOutputModes
    requirements: Requires | UnsetType = UNSET


class OxpTools(Shape):
    items: list[ListedTool]


class OtcTools(Shape):
    schema: OtcSchema = field(name="$schema")
    tools: list[ListedTool]


class DraftTools(Shape):
    schema: DraftSchema = field(name="$schema")
    tools: list[DraftTool]


class Failure(Shape):
    """Why a tool failed: `message` for people and models, `developer_message` for logs."""

    message: str
    developer_message: str | UnsetType = UNSET
    can_retry: bool | UnsetType = UNSET
    additional_prompt_content: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET


class Result(Shape):
    """How a call ended: with `value` where `success` is true, with `error` where it is not."""

    call_id: str
    duration: float
    success: bool
    value: Any = UNSET
    error: Failure | UnsetType = UNSET


class EnvelopedResult(Shape):
    schema: Annotated[str, one_of(OXP_1_0, OTC_1_0)] = field(name="$schema")
    result: Result


class DraftOutput(Shape):
    value: Any = UNSET
    error: Failure | UnsetType = UNSET


class DraftResult(Shape):
    schema: DraftSchema = field(name="$schema")
    call_id: str
    success: bool
    duration: float | UnsetType = UNSET
    output: DraftOutput | UnsetType = UNSET


class AuthorizationChallenge(Shape):
    id: str
    url: str
    check_url: str


class MissingSecret(Shape):
    id: str


class MissingRequirementsBody(Shape):
    authorization: list[AuthorizationChallenge] | UnsetType = UNSET
    secrets: list[MissingSecret] | UnsetType = UNSET
    user_id: bool | UnsetType = UNSET
    approval: bool | UnsetType = UNSET
    """Whether what is asked for is a person's yes to this call."""


class ServerErrorResponse(Shape):
    """Why a request was not taken."""

    message: str
    developer_message: str | UnsetType = UNSET
    missing_requirements: MissingRequirementsBody | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET
    schema: OtcOrDraftSchema | UnsetType = field(default=UNSET, name="$schema")


class ValidationErrorResponse(Shape):
    """Which parameters do not fit the tool's input schema, and why."""

    message: str
    parameter_errors: dict[str, str]
    schema: OtcOrDraftSchema | UnsetType = field(default=UNSET, name="$schema")
