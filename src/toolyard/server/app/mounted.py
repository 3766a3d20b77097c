"""A yard inside another ASGI application: `api.mount("/yard", tools)`.

The outer application has the socket, TLS and the names of hosts; everything else is as in a server of its own.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any

from ...model.run import Source
from ..http.reply_line import Receive, Scope, Send
from ..settings.table import load_settings
from .compose import Yard


class Mounted:
    """A yard as an ASGI application to mount. It starts with its first request, or with the outer application if that
    is given `lifespan`: `FastAPI(lifespan=tools.lifespan)`."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.yard.asgi(scope, receive, send)

    def lifespan(self, outer: Any = None) -> AbstractAsyncContextManager[Any]:
        """The life of the yard, as frameworks take it: they call this with their application."""
        return self.yard.lifetime()


def asgi(source: Source, **settings: Any) -> Mounted:
    """An app as an ASGI application; settings also come from the environment and `toolyard.toml`."""
    return Mounted(Yard([source], load_settings(settings)))
