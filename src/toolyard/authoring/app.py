"""An app: toolkits with shared resources and hooks around every call.

`App(toolkit, …, lifespan=…)` is what a server serves. The lifespan runs once in each process where tools run (the
server, a worker, a child process): what it yields is `Context.resources`, and it is closed when that process stops.

An app may be inside another. Each tool belongs to one app, the innermost that has it: that app's resources are its
resources, and that app's hooks are around it.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from copy import copy
from typing import Any

from msgspec.structs import replace

from ..lazy import load
from ..model.errors import DefinitionError, SetupError
from ..model.raised import is_stopped, named
from ..model.run import Hook, each_once
from ..model.tool import Host, Tool
from ..model.upstream import Upstream, each_upstream_once, refuse_alike
from .signature import author_place, refuse
from .toolkit import Toolkit

Lifespan = Callable[[], AbstractAsyncContextManager[Any] | AsyncIterator[Any]]


class App:
    """Toolkits that are served together, with the resources that their tools share and the hooks around their calls.

    Args:
        *parts: Toolkits, which may be in several apps; other apps, whose tools keep the resources and the hooks of
            their own app; and upstreams, other servers whose tools are offered beside these.
        lifespan: An async generator function without parameters, or a function that returns an async context manager.
            It is entered once in each process where tools run; what it yields is `Context.resources`.

    Raises:
        DefinitionError: Something else was given, two upstreams cannot be told apart, or the lifespan cannot be one.

    >>> from toolyard import Context
    >>> from toolyard.testing import call
    >>> shop = Toolkit("Shop")
    >>> @shop.tool
    ... def price(item: str, ctx: Context) -> int:
    ...     '''Says what an item costs.'''
    ...     return ctx.resources[item]
    >>> async def prices():
    ...     yield {"tea": 3}  # open what all calls share; close it after the yield
    >>> call(App(shop, lifespan=prices), "Shop.Price", {"item": "tea"})
    3
    """

    def __init__(self, *parts: "Toolkit | App | Upstream", lifespan: Lifespan | None = None) -> None:
        self._place = author_place()
        for part in parts:  # anything else, such as a list of toolkits, would fail far from here
            if not isinstance(part, Toolkit | App | Upstream):
                raise DefinitionError(f"App takes toolkits, apps and upstreams, not {part!r}", self._place)
        self.toolkits = list(dict.fromkeys(part for part in parts if isinstance(part, Toolkit)))
        self._inner = tuple(dict.fromkeys(part for part in parts if isinstance(part, App)))
        self._upstreams = each_upstream_once(part for part in parts if isinstance(part, Upstream))
        try:
            refuse_alike(each_upstream_once(up for each in each_once([self]) for up in each.upstreams))
        except ValueError as error:
            raise DefinitionError(str(error), self._place) from None
        self.host = Host()
        self._lifespan = None if lifespan is None else self._manager(lifespan)
        self.authors_mcp: Any = None
        """The MCP SDK's server, once `mcp` was asked for."""

    @property
    def mcp(self) -> Any:
        """The official MCP SDK's server, for what is not a tool: `@app.mcp.prompt()`, `@app.mcp.resource("…")`,
        `@app.mcp.completion()`. Needs `pip install toolyard[mcp]`.

        Raises:
            SetupError: The SDK is not installed.
        """
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
        """The tools of its toolkits. Those of the apps inside it are theirs."""
        # Copies with this app as their host: a toolkit may be in several apps, each with its own hooks and resources.
        return tuple(replace(tool, host=self.host) for toolkit in self.toolkits for tool in toolkit.tools)

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """The upstreams whose tools it offers."""
        return self._upstreams

    @property
    def inner(self) -> tuple["App", ...]:
        """The apps inside it."""
        return self._inner

    def only(self, toolkit: Toolkit) -> "App":
        """This app with one of its toolkits alone, to serve or test that by itself: same resources, same hooks."""
        app = copy(self)
        app.toolkits, app._inner, app._upstreams = [toolkit], (), ()
        return app

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener`, without arguments, each time a tool of its toolkits was added or removed. Returns a
        function that ends this."""
        forget = [toolkit.subscribe(listener) for toolkit in self.toolkits]

        def stop() -> None:
            for each in forget:
                each()

        return stop

    def around(self, hook: Hook) -> Hook:
        """Decorates `async def hook(run, proceed)`, which is then called around each call of the app's tools, those of
        its upstreams included, after the input was checked and within the tool's timeout; the hook that was added first
        is the outermost. Apps inside it have hooks of their own.
        `await proceed()` runs the tool and gives its result; what the hook returns is the call's result, and what it
        raises, the call's error. `run` is a `Run`.

        >>> app = App()
        >>> @app.around
        ... async def log_calls(run, proceed):
        ...     result = await proceed()
        ...     print(run.caller.subject, run.tool.id, result)
        ...     return result

        Raises:
            DefinitionError: It is not an async function of two parameters.
        """
        _refuse_what_is_no_hook(hook)
        self.host.around.append(hook)
        return hook

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Enters the lifespan, gives what it yields, and closes it at the end. A server does this; a program that runs
        tools by itself can, too.

        Raises:
            SetupError: The lifespan raised, on the way in or out.
        """
        if self._lifespan is None:
            yield None
            return
        stack = AsyncExitStack()
        with self._told("the app's lifespan raised"):
            resources = await stack.enter_async_context(self._lifespan())
        try:
            yield resources
        except BaseException as raised:
            with self._told("while it was closed, the app's lifespan raised", raised):
                is_swallowed = await stack.__aexit__(type(raised), raised, raised.__traceback__)
            if not is_swallowed:
                raise
        else:
            with self._told("while it was closed, the app's lifespan raised"):
                await stack.aclose()

    @contextmanager
    def _told(self, what: str, besides: BaseException | None = None) -> Iterator[None]:
        """Around an author's code. What comes from elsewhere through it is `besides`. Raises SetupError."""
        try:
            yield
        except BaseException as error:
            # whoever started it does not want it any more
            if error is besides or is_stopped(error) or isinstance(error, KeyboardInterrupt):
                raise
            raise SetupError(f"{what} {named(error)}", self._place) from error

    def asgi(self, **settings: Any) -> Any:
        """This app as an ASGI application, to mount into a FastAPI or Starlette app, or to run with any ASGI server.

        Args:
            **settings: Settings by their names in `toolyard.toml`: `store="sqlite:tools.db"`. They win over the
                environment, and that over the file.

        Raises:
            SetupError: A setting does not exist or has an impossible value, or the tools cannot be served.
        """
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


def _refuse_what_is_no_hook(hook: Any) -> None:
    """Every call would fail by it. Raises DefinitionError."""
    if not callable(hook):
        refuse(hook, "cannot be called; decorate async def hook(run, proceed)")
    is_async = inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004
    if not is_async:
        refuse(hook, "is not async; write async def, with (run, proceed)")
    try:
        inspect.signature(hook).bind(None, None)
    except TypeError:
        refuse(hook, "must take two arguments: run, and proceed, which runs the tool")
