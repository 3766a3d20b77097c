"""What the OpenAPI document can say of a route, as values: each wire writes its own, and `document` puts them
together."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

Responses = dict[int, tuple[str, tuple[Any, ...]]]
"""Maps a status to its meaning and the types its body may have."""


ANYTHING = "*/*"
"""The media type of a body that is of several."""


class ApiParameter(Struct, frozen=True):
    """A parameter of a route: in the query, in a header, or a variable part of the path, as `where` says."""

    name: str
    where: str
    meaning: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


class Doc(Struct, frozen=True):
    """What the OpenAPI document says of a route. `request` has the types that the request's body may have."""

    summary: str
    responses: Responses
    tag: str = "server"
    request: tuple[Any, ...] = ()
    parameters: tuple[ApiParameter, ...] = ()
    authenticated: bool = True
    media_type: str = "application/json"
    needs_body: bool = True
    """Whether the request must have its body."""


Docs = dict[tuple[str, str], Doc]
"""What is said of routes, by method and path."""
