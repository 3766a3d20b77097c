"""The operator's question why a caller may call a tool, or may not, in both directions."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...model.errors import MalformedRequest
from ...model.json_value import decode_as
from ..contract import JSON, Reply, Request
from ..errors import encode

PATH = "/v1/admin/explain"


class ExplainQuery(Struct, forbid_unknown_fields=True):
    """Which tool, and who would call it."""

    tool: str
    subject: str
    tenant: str = "default"
    key: str | None = None
    scopes: tuple[str, ...] = ()
    claims: dict[str, Any] = {}


class Explanation(Struct):
    """What would become of a call."""

    tool: str
    sees: bool
    may_call: bool
    rule: str
    lacks: Sequence[str] = ()
    requirements: dict[str, Any] = {}
    limits: Sequence[str] = ()
    spared_by: str = ""
    """The rule by which nobody has to agree."""


def decode_asked(body: bytes) -> ExplainQuery:
    try:
        return decode_as(body, ExplainQuery)
    except msgspec.DecodeError as error:
        raise MalformedRequest("The question cannot be read", developer_message=str(error)) from None


def encode_explanation(explanation: Explanation) -> Reply:
    return Reply(200, encode(explanation), [JSON])


def encode_asked(asked: ExplainQuery) -> Request:
    return Request("POST", PATH, {b"content-type": b"application/json"}, encode(asked))
