"""An app: toolkits with shared resources and hooks around every call.

`App(toolkit, …, lifespan=…)` is what a server serves. The lifespan runs once in each process where tools run (the
server, a worker, a child process): what it yields is `Context.resources`, and it is closed when that process stops.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from typing import Any

from msgspec.structs import replace

from ..lazy import load
from ..model.errors import DefinitionError, SetupError
from ..model.raised import is_stopped, named
from ..model.run import Hook
from ..model.tool import Host, Tool
from .signature import author_place
from .toolkit import Toolkit

Lifespan = Callable[[], AbstractAsyncContextManager[Any] | AsyncIterator[Any]]


class App:
    """Toolkits that are served together, with the resources they share and the hooks around their calls."""

    def __init__(self, *toolkits: Toolkit, lifespan: Lifespan | None = None) -> None:
        self._place = author_place()
        for toolkit in toolkits:  # anything else, such as a list of toolkits, would fail far from here
            if not isinstance(toolkit, Toolkit):
                raise DefinitionError(f"App takes toolkits, not {toolkit!r}", self._place)
        self.toolkits = list(dict.fromkeys(toolkits))
        self.host = Host()
        self._lifespan = None if lifespan is None else self._manager(lifespan)
        self.authors_mcp: Any = None
        """The MCP SDK's server, once `mcp` was asked for."""

    @property
    def mcp(self) -> Any:
        """The official MCP SDK's server, for what is not a tool: `@app.mcp.prompt()`, `@app.mcp.resource("…")`,
        `@app.mcp.completion()`. Needs `pip install toolyard[mcp]`."""
        if self.authors_mcp is None:
            try:
                self.authors_mcp = load("mcp_server")("toolyard")
            except ImportError as error:
                raise SetupError(
                    f"app.mcp needs the MCP SDK ({error}): pip install 'mcp>=2.3,<3'", self._place
                ) from None
        return self.authors_mcp

    @property
    def tools(self) -> tuple[Tool, ...]:
        # Copies with this app as their host: a toolkit may be in several apps, each with its own hooks and resources.
        return tuple(replace(tool, host=self.host) for toolkit in self.toolkits for tool in toolkit.tools)

    def only(self, toolkit: Toolkit) -> "App":
        """This app with one of its toolkits alone: same resources, same hooks."""
        app = copy(self)
        app.toolkits = [toolkit]
        return app

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever a tool of its toolkits was added or removed. Returns a function that ends that."""
        forget = [toolkit.subscribe(listener) for toolkit in self.toolkits]

        def stop() -> None:
            for each in forget:
                each()

        return stop

    def around(self, hook: Hook) -> Hook:
        """Decorates `async def hook(run, proceed)`: called around each call; `await proceed()` runs the tool."""
        self.host.around.append(hook)
        return hook

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Makes the shared resources, and closes them. Raises SetupError when they cannot be made."""
        if self._lifespan is None:
            yield None
            return
        async with AsyncExitStack() as stack:
            try:
                resources = await stack.enter_async_context(self._lifespan())
            except BaseException as error:  # an author's code
                if is_stopped(error) or isinstance(error, KeyboardInterrupt):  # the start itself is being called off
                    raise
                sentence = f"the app's lifespan raised {named(error)}"
                raise SetupError(sentence, self._place) from error
            yield resources

    def asgi(self, **settings: Any) -> Any:
        """This app as an ASGI application, to mount into a FastAPI or Starlette app."""
        return load("asgi")(self, **settings)

    def _manager(self, lifespan: Lifespan) -> Callable[[], AbstractAsyncContextManager[Any]]:
        """The lifespan as a function that makes a context manager. What cannot be one is refused when the app is made,
        and not only when a server starts."""
        try:
            inspect.signature(lifespan).bind()
        except TypeError:
            sentence = f"a lifespan is a function without parameters, not {lifespan!r}"
            raise DefinitionError(sentence, self._place) from None
        if inspect.isgeneratorfunction(lifespan) or inspect.iscoroutinefunction(lifespan):
            raise DefinitionError(
                f"{lifespan.__name__} cannot be a lifespan; write async def, with one yield", self._place
            )
        return asynccontextmanager(lifespan) if inspect.isasyncgenfunction(lifespan) else lifespan  # type: ignore[return-value]
