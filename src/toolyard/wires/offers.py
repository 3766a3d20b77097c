"""The operator's question which tools the workers offer, in both directions."""

from collections.abc import Iterable

from ..model.request import Definition
from .contract import JSON, Reply, Request
from .family import encode
from .lifecycle import LIFECYCLE
from .workers import decode_definitions, definition_json

PATH = "/v1/admin/offers"


def encode_offers(offered: Iterable[Definition]) -> Reply:
    return Reply(200, encode({"tools": list(map(definition_json, offered))}), [JSON])


def encode_ask() -> Request:
    return Request("GET", PATH)


def decode_offers(reply: Reply) -> list[Definition]:
    """Raises what the server refused with."""
    return decode_definitions(encode(LIFECYCLE.decode(reply)), 0)
