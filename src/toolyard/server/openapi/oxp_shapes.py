"""The bodies of OXP's and OTC's requests and replies, as types, for the OpenAPI document. The server does not decode or
encode with them: tests hold every reply against them, and the server against what they allow and forbid.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...model.call import LONGEST_CALL_ID
from ...wires.oxp.messages import OTC_1_0, OTC_DRAFT, OXP_1_0, OXP_1_0_ADDRESS, ContextBody

OXP_NAMES = (OXP_1_0, OXP_1_0_ADDRESS)
NAMES = (*OXP_NAMES, OTC_1_0, OTC_DRAFT)
"""What `$schema` may be."""


def one_of(*values: str) -> Meta:
    """An `enum` of these texts."""
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
    """A body that has these members and no others."""


# -- requests ---------------------------------------------------------------------------------------


class Call(Shape):
    """A call of a tool, with its input and what the tool needs besides."""

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
    """The answer of a process that runs."""

    status: Literal["ok"]


class ChallengeStatus(Shape):
    """How far an authorization has come."""

    status: Literal["pending", "completed", "failed"]


class Oauth2(Shape):
    """The OAuth 2.0 scopes that an authorization must have."""

    scopes: list[str]


class RequiredAuthorization(Shape):
    """An account that a tool needs the user's authorization for, by its provider's id."""

    id: str
    oauth2: Oauth2 | UnsetType = UNSET


class RequiredSecret(Shape):
    """A secret that a tool needs, by its id."""

    id: str


class Requires(Shape):
    """What a tool needs besides its input."""

    authorization: list[RequiredAuthorization] | UnsetType = UNSET
    secrets: list[RequiredSecret] | UnsetType = UNSET
    user_id: bool | UnsetType = UNSET


class ListedTool(Shape):
    """A tool as OXP 1.0 and OTC 1.0 list it."""

    id: str
    name: str
    description: str
    version: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    requirements: Requires | UnsetType = UNSET


class DraftToolkit(Shape):
    """The toolkit that a tool belongs to, in the OTC draft."""

    name: str
    description: str
    version: str


class DraftInput(Shape):
    """What a tool takes, in the OTC draft: its parameters' JSON Schema, and which of them a model cannot infer."""

    parameters: dict[str, Any]
    non_inferrable_parameters: list[str] | UnsetType = UNSET


class DraftOutputModes(Shape):
    """What a tool may return, in the OTC draft, and the JSON Schema of its value."""

    available_modes: list[Literal["value", "error", "null"]]
    value: dict[str, Any] | UnsetType = UNSET


class DraftTool(Shape):
    """A tool as the OTC draft lists it."""

    id: str
    name: str
    description: str
    toolkit: DraftToolkit
    input: DraftInput
    output: DraftOutputModes
    requirements: Requires | UnsetType = UNSET


class OxpTools(Shape):
    """The list of tools in OXP 1.0."""

    items: list[ListedTool]


class OtcTools(Shape):
    """The list of tools in OTC 1.0."""

    schema: OtcSchema = field(name="$schema")
    tools: list[ListedTool]


class DraftTools(Shape):
    """The list of tools in the OTC draft."""

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
    """How a call that came in an envelope ended, in OXP 1.0 and OTC 1.0."""

    schema: Annotated[str, one_of(OXP_1_0, OTC_1_0)] = field(name="$schema")
    result: Result


class DraftOutput(Shape):
    """What a call gave, in the OTC draft: a value, an error, or neither."""

    value: Any = UNSET
    error: Failure | UnsetType = UNSET


class DraftResult(Shape):
    """How a call ended, in the OTC draft."""

    schema: DraftSchema = field(name="$schema")
    call_id: str
    success: bool
    duration: float | UnsetType = UNSET
    output: DraftOutput | UnsetType = UNSET


class AuthorizationChallenge(Shape):
    """Where a person gives an authorization (`url`), and where a program asks whether they have (`check_url`)."""

    id: str
    url: str
    check_url: str


class MissingSecret(Shape):
    """A secret that the call lacks, by its id."""

    id: str


class MissingRequirementsBody(Shape):
    """Everything that a call lacks before its tool can run."""

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
