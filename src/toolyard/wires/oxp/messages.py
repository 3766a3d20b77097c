"""What OXP 1.0, OTC 1.0 and the OTC draft have in common: the shapes of a call request and of its context, and
requirements as they are listed.

The shapes are typed structs (msgspec), so that `negotiation` decodes a request in one pass: this is the hot path of a
call.
"""

from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ...model.call import LONGEST_USER_ID, CallContext, CallTool, ListTools
from ...model.errors import MalformedRequest
from ...model.tool import Requirements

OTC_1_0 = "otc://1.0"
OXP_1_0 = "urn:oxp:1.0"
OXP_1_0_ADDRESS = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
OTC_DRAFT = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"


# The OpenAPI document shows the docstrings of these bodies to its readers.


class TokenMember(Struct):
    """A token of the user's at the provider `id`, for a tool that requires authorization there."""

    id: str
    token: str


class SecretMember(Struct):
    """The value of the secret `id`, for a tool that requires it."""

    id: str
    value: str


class ContextBody(Struct):
    """What a caller sends along besides input. More members are allowed, and ignored."""

    authorization: list[TokenMember] = []
    secrets: list[SecretMember] = []
    user_id: str | UnsetType = UNSET
    user_info: dict[str, Any] = {}


class CallBody(Struct, forbid_unknown_fields=True):
    """A call, as it is under `request`. `inputs` is the draft's other name for `input`."""

    tool_id: str
    call_id: str | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    input: dict[str, Any] | UnsetType = UNSET
    inputs: dict[str, Any] | UnsetType = UNSET
    context: ContextBody | UnsetType = UNSET


class FlatBody(Struct, forbid_unknown_fields=True):
    """Either form of a call: flat, or with everything under `request`."""

    tool_id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    input: dict[str, Any] | UnsetType = UNSET
    context: ContextBody | UnsetType = UNSET
    schema: str | UnsetType = msgspec.field(default=UNSET, name="$schema")
    request: CallBody | UnsetType = UNSET


def _short(name: str, text: str, longest: int) -> str:
    """What is kept with each call has a bound. Raises MalformedRequest."""
    if len(text) > longest:
        raise MalformedRequest(
            f"The {name} is not valid", developer_message=f"{name} must have at most {longest} characters"
        )
    return text


def context_of(body: ContextBody) -> CallContext:
    return CallContext(
        {token.id: token.token for token in body.authorization},
        {secret.id: secret.value for secret in body.secrets},
        None if body.user_id is UNSET else _short("user_id", body.user_id, LONGEST_USER_ID),
        body.user_info,
    )


def context_json(context: CallContext) -> dict[str, Any]:
    """The JSON of a context, which `ContextBody` reads: a client sends it, and a server gives it to workers."""
    members: dict[str, Any] = {}
    if context.tokens:
        members["authorization"] = [{"id": id, "token": token} for id, token in context.tokens.items()]
    if context.secrets:
        members["secrets"] = [{"id": id, "value": value} for id, value in context.secrets.items()]
    if context.user_id is not None:
        members["user_id"] = context.user_id
    if context.user_info:
        members["user_info"] = dict(context.user_info)
    return members


def request_json(command: CallTool) -> dict[str, Any]:
    """The JSON of a call request, flat, as a client sends it."""
    members: dict[str, Any] = {"tool_id": command.tool_id, "input": command.input}
    if command.call_id is not None:
        members["call_id"] = command.call_id
    if command.trace_id is not None:
        members["trace_id"] = command.trace_id
    if context := context_json(command.context):
        members["context"] = context
    return members


def list_query(command: ListTools, schema: str | None) -> bytes:
    """The query string of `GET /tools`."""
    versions = {"versions": "all"} if command.all_versions else {}
    return urlencode({**versions, **({"$schema": schema} if schema else {})}).encode()


def _plain(text: str) -> str:
    """msgspec's message without its backquotes, and with paths as people write them."""
    return text.replace("`", "'").replace("- at '$.", "at '").replace("- at '$'", "at the top level")


# -- what is listed ---------------------------------------------------------------------------------


def requirements_json(requirements: Requirements, *, with_user_id: bool) -> dict[str, Any]:
    """The member `requirements` of a listed tool. The draft's has no `user_id`."""
    members: dict[str, Any] = {}
    if requirements.authorization:
        members["authorization"] = [
            {"id": needed.id, "oauth2": {"scopes": list(needed.scopes)}} if needed.scopes else {"id": needed.id}
            for needed in requirements.authorization
        ]
    if requirements.secrets:
        members["secrets"] = [{"id": id} for id in requirements.secrets]
    if requirements.user_id and with_user_id:
        members["user_id"] = True
    return members
