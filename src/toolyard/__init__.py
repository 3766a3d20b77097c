"""toolyard: one tool, every wire. Write a typed function once; any agent calls it.

What is public is imported when it is asked for: the command line loads the verb that it is told and no other, tool
authors need no HTTP client, and clients nothing of the tools' side.
"""

from typing import TYPE_CHECKING, Any

from .lazy import load_place

if TYPE_CHECKING:
    from .authoring.app import App
    from .authoring.content import Audio, Embedded, Image, ResourceLink
    from .authoring.context import Context, Depends, Hidden
    from .authoring.requirements import authorization, secret, user_id
    from .authoring.toolkit import Toolkit
    from .client.client import AsyncClient, Client
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
    from .model.upstream import SecretName, Upstream

__all__ = [
    "App",
    "AsyncClient",
    "Audio",
    "Busy",
    "Caller",
    "Client",
    "Context",
    "Declined",
    "Depends",
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
    "SecretName",
    "ServerError",
    "ToolError",
    "ToolNotFound",
    "Toolkit",
    "ToolyardError",
    "Upstream",
    "authorization",
    "secret",
    "user_id",
]

_PLACES = {
    "authoring.app": ["App"],
    "authoring.content": ["Audio", "Embedded", "Image", "ResourceLink"],
    "authoring.context": ["Context", "Depends", "Hidden"],
    "authoring.requirements": ["authorization", "secret", "user_id"],
    "authoring.toolkit": ["Toolkit"],
    "client.client": ["AsyncClient", "Client"],
    "model.caller": ["Caller"],
    "model.errors": [
        "Busy", "Declined", "InvalidInput", "MissingRequirements", "NotAuthenticated", "RequestError", "ServerError",
        "ToolError", "ToolNotFound", "ToolyardError",
    ],
    "model.run": ["Run"],
    "model.tool": ["Icon"],
    "model.upstream": ["SecretName", "Upstream"],
}  # fmt: skip
_PLACE = {name: f"{__name__}.{module}:{name}" for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name, and keeps it: the next look at it comes no more to this."""
    if name not in _PLACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = load_place(_PLACE[name])
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
