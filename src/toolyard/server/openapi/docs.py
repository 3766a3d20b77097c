"""What can be said of a route."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

Responses = dict[int, tuple[str, tuple[Any, ...]]]
"""Maps a status to its meaning and the types its body may have."""


ANYTHING = "*/*"
"""The media type of a body that is of several."""


class ApiParameter(Struct, frozen=True):
    """A query or header parameter, or a variable part of a path."""

    name: str
    where: str
    meaning: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


class Doc(Struct, frozen=True):
    """What the OpenAPI document says of a route. `request` has the types its body may have."""

    summary: str
    responses: Responses
    tag: str = "server"
    request: tuple[Any, ...] = ()
    parameters: tuple[ApiParameter, ...] = ()
    authenticated: bool = True
    media_type: str = "application/json"
    needs_body: bool = True
    """Or may the request's body be left out?"""


Docs = dict[tuple[str, str], Doc]
"""By method and path."""
