"""toolyard: one tool, every wire. Write a typed function once; any agent calls it."""

from typing import TYPE_CHECKING, Any

from .authoring.app import App
from .authoring.content import Audio, Embedded, Image, ResourceLink
from .authoring.context import Context, Hidden
from .authoring.requirements import authorization, secret, user_id
from .authoring.toolkit import Toolkit
from .lazy import load
from .model.caller import Caller
from .model.errors import (
    Busy,
    Declined,
    InvalidInput,
    MissingRequirements,
    NotAuthenticated,
    RequestError,
    ServerError,
    ToolError,
    ToolNotFound,
    ToolyardError,
)
from .model.run import Run
from .model.tool import Icon

if TYPE_CHECKING:
    from .client.client import AsyncClient, Client

__all__ = [
    "App",
    "AsyncClient",
    "Audio",
    "Busy",
    "Caller",
    "Client",
    "Context",
    "Declined",
    "Embedded",
    "Hidden",
    "Icon",
    "Image",
    "InvalidInput",
    "MissingRequirements",
    "NotAuthenticated",
    "RequestError",
    "ResourceLink",
    "Run",
    "ServerError",
    "ToolError",
    "ToolNotFound",
    "Toolkit",
    "ToolyardError",
    "authorization",
    "secret",
    "user_id",
]

_LATE = {"Client": "client", "AsyncClient": "async_client"}


def __getattr__(name: str) -> Any:
    """The client needs an HTTP library that tool authors do not: it loads when it is asked for."""
    if name in _LATE:
        return load(_LATE[name])
    raise AttributeError(f"module 'toolyard' has no attribute {name!r}")
