"""The question why a caller may or may not call a tool, as `toolyard explain` asks it, in both directions."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...model.errors import MalformedRequest
from ...model.json_value import decode_as
from ..contract import JSON, Reply, Request
from ..errors import encode

PATH = "/v1/admin/explain"


class ExplainQuery(Struct, forbid_unknown_fields=True):
    """Which tool is asked about, and who would call it with which credentials."""

    tool: str
    subject: str
    tenant: str = "default"
    key: str | None = None
    scopes: tuple[str, ...] = ()
    claims: dict[str, Any] = {}


class Explanation(Struct):
    """What would become of a call, and the rules that say so."""

    tool: str
    sees: bool
    may_call: bool
    rule: str
    lacks: Sequence[str] = ()
    requirements: dict[str, Any] = {}
    limits: Sequence[str] = ()
    spared_by: str = ""
    """The rule by which calls need no approval."""


def decode_asked(body: bytes) -> ExplainQuery:
    try:
        return decode_as(body, ExplainQuery)
    except msgspec.DecodeError as error:
        raise MalformedRequest("The question cannot be read", developer_message=str(error)) from None


def encode_explanation(explanation: Explanation) -> Reply:
    return Reply(200, encode(explanation), [JSON])


def decode_explanation(members: Mapping[str, Any]) -> Explanation:
    """From the members of the reply."""
    return msgspec.convert(members, Explanation)


def encode_asked(asked: ExplainQuery) -> Request:
    return Request("POST", PATH, {b"content-type": b"application/json"}, encode(asked))
