"""An app: toolkits with shared resources and hooks around every call.

`App(toolkit, …, lifespan=…)` is what a server serves. The lifespan runs once where the tools run: what it
yields is `Context.resources`, and it is closed when the server stops.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isasyncgenfunction
from typing import Any

from msgspec.structs import replace

from ..doors import open_door
from ..model.errors import DefinitionError
from ..model.running import Hook, Host
from ..model.tool import Tool
from .signature import author_place
from .toolkit import Toolkit

Lifespan = Callable[[], AbstractAsyncContextManager[Any] | AsyncIterator[Any]]


class App:
    """Toolkits, what they share, and what happens around their calls."""

    def __init__(self, *toolkits: Toolkit, lifespan: Lifespan | None = None) -> None:
        for toolkit in toolkits:
            if not isinstance(toolkit, Toolkit):
                raise DefinitionError(f"App takes toolkits, not {toolkit!r}", author_place(1))
        self.toolkits = list(toolkits)
        self.host = Host()
        self._lifespan = asynccontextmanager(lifespan) if isasyncgenfunction(lifespan) else lifespan

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(replace(tool, host=self.host) for toolkit in self.toolkits for tool in toolkit.tools)

    def around(self, hook: Hook) -> Hook:
        """Decorates `async def hook(run, proceed)`: called around each call; `await proceed()` runs the tool."""
        self.host.around.append(hook)
        return hook

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Makes the shared resources, and closes them."""
        if self._lifespan is None:
            yield
            return
        async with self._lifespan() as resources:  # type: ignore[union-attr]
            self.host.resources = resources
            try:
                yield
            finally:
                self.host.resources = None

    def asgi(self, **settings: Any) -> Any:
        """This app as an ASGI application, to mount into a FastAPI or Starlette app."""
        return open_door("asgi")(self, **settings)
