"""Dependencies of a tool: what a parameter is given by a function of the author's, and not by the caller.

`db: Annotated[Database, Depends(get_db)]` has `get_db` called for each call of the tool, with what the app's lifespan
yielded (`resources`), with the call's Context, or with what other dependencies made. A generator's clean-up runs when
the tool has ended. What a dependency needs, and in which order all of them are made, is worked out once, when the tool
is defined: so what cannot work is refused there, and a call only goes down a list.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from enum import Enum
from typing import Any

from msgspec import Struct

from ..model.run import Run
from .context import Context
from .signature import dependency_in, is_context, refuse, type_hints

Maker = Callable[..., Any]
"""A function of the author's that makes a dependency."""
RESOURCES = "resources"
"""The parameter of a dependency that is given what the lifespan yielded, named as `Context.resources` is."""


class Kind(Enum):
    """How a dependency is made: what its function is."""

    PLAIN = "def"
    ASYNC = "async def"
    GENERATOR = "def with yield"
    ASYNC_GENERATOR = "async def with yield"

    @property
    def is_async(self) -> bool:
        return self in (Kind.ASYNC, Kind.ASYNC_GENERATOR)


class Dependency(Struct, frozen=True, eq=False):
    """One function that makes a dependency, and what its parameters are given."""

    maker: Maker
    kind: Kind
    open: Maker
    """Makes it: the function itself, or, of a generator, a context manager."""
    contexts: tuple[str, ...] = ()
    takes_resources: bool = False
    needs: Mapping[str, Maker] = {}
    """Its parameters that are given what other dependencies made."""

    def opened(self, made: Mapping[Maker, Any], context: Context) -> Any:
        """What the function returns: the value, an awaitable of it, or a context manager that gives it."""
        arguments: dict[str, Any] = {name: made[maker] for name, maker in self.needs.items()}
        arguments.update(dict.fromkeys(self.contexts, context))
        if self.takes_resources:
            arguments[RESOURCES] = context.resources
        return self.open(**arguments)


class Dependencies:
    """What a tool's parameters are given besides input: each dependency once a call, after those that it needs."""

    def __init__(self, tool: Callable[..., Any], injected: Mapping[str, Maker]) -> None:
        """`injected`: the tool's parameters, and which function makes each. Raises DefinitionError."""
        self._tool, self._injected = tool, injected
        self._ordered = _ordered(tool, injected.values())

    @property
    def first_async(self) -> Maker | None:
        """One that has to be awaited."""
        return next((each.maker for each in self._ordered if each.kind.is_async), None)

    async def call(self, arguments: dict[str, Any], context: Context) -> Any:
        """The result of an async tool. Its dependencies are made on the event loop."""
        made: dict[Maker, Any] = {}
        async with AsyncExitStack() as stack:
            try:
                for each in self._ordered:
                    made[each.maker] = await _made(each.kind, each.opened(made, context), stack)
                return await self._tool(**arguments, **self._given(made))
            except BaseException as raised:
                failed = raised
                raise
        raise failed  # a clean-up that caught the tool's error has not given the tool a result

    def call_plain(self, arguments: dict[str, Any], context: Context, run: Run) -> Any:
        """The result of a plain tool. Its dependencies are made where it runs; those that are async, on the event loop,
        while this thread waits."""
        made: dict[Maker, Any] = {}
        with ExitStack() as stack:
            try:
                for each in self._ordered:
                    made[each.maker] = _made_plain(each.kind, each.opened(made, context), stack, run)
                return self._tool(**arguments, **self._given(made))
            except BaseException as raised:
                failed = raised
                raise
        raise failed

    def _given(self, made: Mapping[Maker, Any]) -> dict[str, Any]:
        return {name: made[maker] for name, maker in self._injected.items()}


async def _made(kind: Kind, opened: Any, stack: AsyncExitStack) -> Any:
    if kind is Kind.ASYNC_GENERATOR:
        return await stack.enter_async_context(opened)
    if kind is Kind.GENERATOR:
        return stack.enter_context(opened)
    return await opened if kind is Kind.ASYNC else opened


def _made_plain(kind: Kind, opened: Any, stack: ExitStack, run: Run) -> Any:
    if kind is Kind.ASYNC_GENERATOR:
        value = _on_loop(opened.__aenter__(), run)
        stack.push(lambda *raised: _on_loop(opened.__aexit__(*raised), run))
        return value
    if kind is Kind.GENERATOR:
        return stack.enter_context(opened)
    return _on_loop(opened, run) if kind is Kind.ASYNC else opened


def _on_loop(awaited: Coroutine[Any, Any, Any], run: Run) -> Any:
    """Has the event loop of the call do something, and waits for it in the tool's thread."""
    assert run.loop is not None  # noqa: S101  (only a thread waits so, and it was told its loop)
    return asyncio.run_coroutine_threadsafe(awaited, run.loop).result()


# --- when a tool is defined ----------------------------------------------------------------------


def _ordered(tool: Callable[..., Any], wanted: Any) -> tuple[Dependency, ...]:
    """All that are needed for these, each once, after what it needs itself. Raises DefinitionError."""
    found: dict[Maker, Dependency] = {}

    def add(maker: Maker, within: tuple[Maker, ...]) -> None:
        if maker in within:
            circle = [*within[within.index(maker) :], maker]
            refuse(tool, f"has dependencies that need each other: {', which needs '.join(map(_name, circle))}")
        if maker not in found:
            made = _dependency(tool, maker)
            for needed in made.needs.values():
                add(needed, (*within, maker))
            found[maker] = made

    for maker in wanted:
        add(maker, ())
    return tuple(found.values())


def _dependency(tool: Callable[..., Any], maker: Any) -> Dependency:
    if not (inspect.isfunction(maker) or inspect.ismethod(maker)):
        refuse(tool, f"has Depends({_name(maker)}), which is not a function; write lambda resources: … or a def")
    hints, needs, contexts, takes_resources = type_hints(maker), {}, [], False
    for name, parameter in inspect.signature(maker).parameters.items():
        needed = dependency_in(maker, parameter, hints.get(name))
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            refuse(maker, f"has a positional-only parameter {name!r}; a dependency's arguments come by name")
        if needed is not None:
            needs[name] = needed
        elif name in hints and is_context(hints[name]):
            contexts.append(name)
        elif name == RESOURCES:
            takes_resources = True
        elif parameter.default is parameter.empty:
            refuse(
                maker,
                f"has a parameter {name!r} that nobody can give it; a dependency is given 'resources', what the "
                f"lifespan yielded, a Context, or {name}: Annotated[…, Depends(…)]",
            )
    kind = _kind(maker)
    return Dependency(maker, kind, _open(maker, kind), tuple(contexts), takes_resources, needs)


def _kind(maker: Maker) -> Kind:
    if inspect.isasyncgenfunction(maker):
        return Kind.ASYNC_GENERATOR
    if inspect.isgeneratorfunction(maker):
        return Kind.GENERATOR
    return Kind.ASYNC if inspect.iscoroutinefunction(maker) else Kind.PLAIN


def _open(maker: Maker, kind: Kind) -> Maker:
    if kind is Kind.ASYNC_GENERATOR:
        return asynccontextmanager(maker)
    return contextmanager(maker) if kind is Kind.GENERATOR else maker


def _name(maker: Any) -> str:
    name: str = getattr(maker, "__qualname__", None) or repr(maker)
    return name
