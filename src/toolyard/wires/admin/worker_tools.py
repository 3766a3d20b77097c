"""The tools that workers offer now, as operators list them to lock them, in both directions."""

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
    """The definitions that the server lists, from the members of its reply."""
    return decode_definitions(encode(members), 0)
