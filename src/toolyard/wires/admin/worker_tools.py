"""The operator's question which tools the workers offer, in both directions."""

from collections.abc import Iterable, Mapping
from typing import Any

from ...model.worker import ToolDefinition
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..lifecycle.worker_tools import decode_definitions, definition_json

PATH = "/v1/admin/offers"


def encode_offers(offered: Iterable[ToolDefinition]) -> Reply:
    return Reply(200, encode({"tools": list(map(definition_json, offered))}), [JSON])


def encode_ask() -> Request:
    return Request("GET", PATH)


def decode_offers(members: Mapping[str, Any]) -> list[ToolDefinition]:
    """From the members of the reply."""
    return decode_definitions(encode(members), 0)
