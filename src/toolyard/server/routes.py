"""The route table's rows. The shell dispatches by them and the OpenAPI document is written from them."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ..wires.contract import Answers, Reply
from .exchange import Exchange

Handler = Callable[[Exchange], Awaitable[Reply]]


class Parameter(Struct, frozen=True):
    """A query or header parameter, or the variable part of a path."""

    name: str
    where: str
    meaning: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


class Doc(Struct, frozen=True):
    """What the OpenAPI document says of a route. `responses` maps a status to its meaning and the types its body may
    have; `request` has those of the request's body."""

    summary: str
    responses: dict[int, tuple[str, tuple[Any, ...]]]
    tag: str = "server"
    request: tuple[Any, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    authenticated: bool = True
    media_type: str = "application/json"


class Route(Struct, frozen=True):
    """`path` may hold one `{name}`, matching one segment. `wire` answers the route's errors."""

    method: str
    path: str
    handler: Handler
    wire: Answers
    doc: Doc
    reads_json: bool = False
