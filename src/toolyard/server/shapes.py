"""The bodies of replies, as types, for the OpenAPI document. A test holds every reply against them."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field


class Status(Struct):
    """Whether the server takes calls."""

    status: Literal["ok", "starting", "draining"]
    schema: str | UnsetType = field(default=UNSET, name="$schema")


class Alive(Struct):
    status: Literal["ok"]


class ChallengeStatus(Struct):
    """How far an authorization has come."""

    status: Literal["pending", "completed", "failed"]


class Oauth2(Struct):
    scopes: list[str]


class RequiredAuthorization(Struct):
    id: str
    oauth2: Oauth2 | UnsetType = UNSET


class RequiredSecret(Struct):
    id: str


class Requires(Struct):
    authorization: list[RequiredAuthorization] | UnsetType = UNSET
    secrets: list[RequiredSecret] | UnsetType = UNSET
    user_id: bool | UnsetType = UNSET


class ListedTool(Struct):
    id: str
    name: str
    description: str
    version: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    requirements: Requires | UnsetType = UNSET


class DraftToolkit(Struct):
    name: str
    description: str
    version: str


class DraftInput(Struct):
    parameters: dict[str, Any]
    non_inferrable_parameters: list[str] | UnsetType = UNSET


class DraftOutputModes(Struct):
    available_modes: list[Literal["value", "error", "null"]]
    value: dict[str, Any] | UnsetType = UNSET


class DraftTool(Struct):
    id: str
    name: str
    description: str
    toolkit: DraftToolkit
    input: DraftInput
    output: DraftOutputModes
    requirements: Requires | UnsetType = UNSET


class OxpTools(Struct):
    items: list[ListedTool]


class OtcTools(Struct):
    schema: Literal["otc://1.0"] = field(name="$schema")
    tools: list[ListedTool]


class DraftTools(Struct):
    schema: str = field(name="$schema")
    tools: list[DraftTool]


class Failure(Struct):
    """Why a tool failed: `message` for people and models, `developer_message` for logs."""

    message: str
    developer_message: str | UnsetType = UNSET
    can_retry: bool | UnsetType = UNSET
    additional_prompt_content: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET


class Result(Struct):
    """How a call ended: with `value` where `success` is true, with `error` where it is not."""

    call_id: str
    duration: float
    success: bool
    value: Any = UNSET
    error: Failure | UnsetType = UNSET


class EnvelopedResult(Struct):
    schema: Literal["otc://1.0", "urn:oxp:1.0"] = field(name="$schema")
    result: Result


class DraftOutput(Struct):
    value: Any = UNSET
    error: Failure | UnsetType = UNSET


class DraftResult(Struct):
    schema: str = field(name="$schema")
    call_id: str
    success: bool
    duration: float | UnsetType = UNSET
    output: DraftOutput | UnsetType = UNSET


class AuthorizationChallenge(Struct):
    id: str
    url: str
    check_url: str


class MissingSecret(Struct):
    id: str


class MissingRequirementsBody(Struct):
    authorization: list[AuthorizationChallenge] | UnsetType = UNSET
    secrets: list[MissingSecret] | UnsetType = UNSET
    user_id: bool | UnsetType = UNSET


class ServerErrorResponse(Struct):
    """Why a request was not taken."""

    message: str
    developer_message: str | UnsetType = UNSET
    missing_requirements: MissingRequirementsBody | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET
    schema: str | UnsetType = field(default=UNSET, name="$schema")


class ValidationErrorResponse(Struct):
    """Which parameters do not fit the tool's input schema, and why."""

    message: str
    parameter_errors: dict[str, str]
    schema: str | UnsetType = field(default=UNSET, name="$schema")
