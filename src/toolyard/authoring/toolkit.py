"""A toolkit: a named, versioned collection of tools, and the decorator that adds functions to it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Literal, TypeVar, overload

from ..model.channel import Asks
from ..model.errors import DefinitionError
from ..model.tool import NAME, Host, Icon, OnDisconnect, OnLost, Requirements, TaskUse, Tool, ToolkitInfo
from .function import Function
from .options import Runs, ToolOptions, members_of, refuse_unseen, version_of
from .requirements import combine
from .schemas import Recursion
from .signature import author_place

F = TypeVar("F", bound=Callable[..., Any])


class Toolkit:
    """A named, versioned collection of tools: `calculator = Toolkit("Calculator", version="1.0.0")`, then
    `@calculator.tool`."""

    def __init__(self, name: str, *, version: str = "0.1.0", description: str = "") -> None:
        place = author_place()
        refuse_unseen("The toolkit", {"name": name, "description": description}, place)
        if not isinstance(name, str) or not NAME(name):
            raise DefinitionError(f"{name!r} cannot name a toolkit; use letters, digits and underscores", place)
        self.info = ToolkitInfo(name, description, version_of(version, place))
        self.host = Host()
        self._tools: list[Tool] = []
        self._listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Toolkit {self.info.name} {self.info.version}, {len(self._tools)} tools>"

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools)

    def running(self) -> AbstractAsyncContextManager[Any]:
        """The shared resources while tools run, as `App.running`. A toolkit by itself has none."""
        return nullcontext()

    def remove(self, name: str) -> None:
        """Takes a tool away, all its versions, also while it is served. Raises LookupError where there is none."""
        kept = [tool for tool in self._tools if tool.name != name]
        if len(kept) == len(self._tools):
            raise LookupError(f"{self.info.name} has no tool {name!r}")
        self._tools = kept
        self._changed()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever a tool was added or removed. Returns a function that ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _changed(self) -> None:
        for listener in list(self._listeners):  # a copy: a listener may unsubscribe
            listener()

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        wire_name: str | None = None,
        version: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        requires: Requirements | Iterable[Requirements] | None = None,
        timeout: float | None = None,
        concurrency: int | None = None,
        idempotent: bool = False,
        read_only: bool = False,
        destructive: bool | None = None,
        on_lost: OnLost | None = None,
        on_disconnect: OnDisconnect | None = None,
        runs: Runs | None = None,
        tags: Iterable[str] = (),
        icons: Iterable[Icon | str] = (),
        recursion: Recursion = "refuse",
        input_schema: Mapping[str, Any] | None = None,
        task: TaskUse = "optional",
        asks: Asks | Iterable[Asks] = (),
        approval: Literal["always"] | Callable[..., Any] | None = None,
    ) -> Callable[[F], F]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Adds a function as a tool, and gives the function back unchanged.

        name: the tool's part of the id (default: the function's name in CamelCase).
        wire_name: what models see (default: the id with an underscore for the dot).
        version: default the toolkit's.
        timeout: seconds the tool may run without telling its progress.
        concurrency: how many of it run at once, on all nodes together.
        read_only, idempotent, destructive: hints for clients; the first two also say that a lost
        attempt may simply be run again (`on_lost="rerun"`).
        on_disconnect: whether a client that goes away ends its call ("cancel") or not ("continue"). Without it,
        calls with a key go on and others are cancelled.
        runs: "inline" on the event loop (the default of an async function), "thread" (the default
        of any other), or "process" for work that keeps a processor busy.
        input_schema: a JSON Schema of your own for the input, listed and checked as it is; what fits it is made
        into the types of the signature (default: the schema of the signature).
        task: whether MCP clients may, should or must have a call of it as a task. "optional": a client may ask for
        one, and a slow call becomes one. "preferred": whoever can have a task gets one at once. "required": others
        cannot call it. "forbidden": nobody gets one.
        asks: what its questions need of a client ("form", "url", "sampling", "roots"): a client that cannot do that
        is refused before the tool runs.
        approval: "always" where a person has to agree to each call before it runs, or a function that is given the
        input as keywords and says whether one has to.
        """
        if function is not None:
            self._add(function, options)
            return function

        def decorate(decorated: F) -> F:
            self._add(decorated, options)
            return decorated

        return decorate

    def _add(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """Makes a tool of a function and adds it, or raises DefinitionError and adds nothing."""
        has_own_schema = options.get("input_schema") is not None
        code = Function(function, options.get("recursion") or "refuse", has_own_schema=has_own_schema)
        checked = ToolOptions(function.__name__, code, options)
        name = checked.name
        tool = Tool(
            toolkit=self.info,
            name=name,
            version=checked.version(self.info.version),
            wire_name=checked.wire_name(f"{self.info.name}_{name}"),
            title=checked.text("title"),
            description=checked.text("description") or code.signature.summary,
            input_schema=checked.input_schema,
            output_schema=code.output_schema,
            code=code,
            host=self.host,
            hidden=code.hidden,
            requirements=combine(checked.several("requires", Requirements, "authorization(…), secret(…), user_id")),
            hints=checked.hints,
            annotations=checked.annotations,
            timeout=checked.positive("timeout", float),
            concurrency=checked.positive("concurrency", int),
            on_lost=checked.on_lost,
            on_disconnect=checked.on_disconnect,
            runs=checked.runs,
            tags=checked.several("tags", str, "texts"),
            icons=tuple(
                Icon(icon) if isinstance(icon, str) else icon
                for icon in checked.several("icons", Icon | str, "addresses or Icon(…)")
            ),
            returns_content=code.returns_content,
            task=checked.task,
            asks=checked.asks,
            approval=checked.approval,
        )
        refuse_unseen(tool.id, members_of(tool), code.origin.place, code.last_line)
        self._tools = [*self._tools, tool]
        # Where a server is running, its catalogue listens, and may refuse the tool: its name may be taken there.
        try:
            self._changed()
        except DefinitionError:
            self._tools = self._tools[:-1]
            raise
