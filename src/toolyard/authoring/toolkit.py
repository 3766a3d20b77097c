"""A toolkit: a named, versioned collection of tools, and the decorator that adds functions to it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Literal, TypeVar, overload

from ..model.channel import Asks
from ..model.errors import DefinitionError
from ..model.tool import NAME, Host, Icon, OnDisconnect, OnLost, Requirements, TaskUse, Tool, ToolkitInfo
from ..model.upstream import Upstream
from .function import Function
from .options import Runs, ToolOptions, members_of, refuse_unseen, version_of
from .requirements import combine
from .schemas import Recursion
from .signature import author_place

F = TypeVar("F", bound=Callable[..., Any])


class Toolkit:
    """A named, versioned collection of tools. Its decorator `tool` makes a tool of a function; a server serves toolkits
    as they are, or an `App` of them.

    Args:
        name: The first part of the tools' ids (`Calculator` in `Calculator.Add`): letters, digits and underscores.
        version: The version of each tool that has none of its own: `"1.2.3"`.
        description: What the tools are about, for people and models.

    Raises:
        DefinitionError: The name or the version cannot be used. The message begins with the file and line.

    >>> from toolyard.testing import call
    >>> calculator = Toolkit("Calculator", version="1.0.0")
    >>> @calculator.tool
    ... def add(a: int, b: int) -> int:
    ...     '''Adds two numbers.'''
    ...     return a + b
    >>> call(calculator, "Calculator.Add", {"a": 10, "b": 5})
    15
    """

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
    def upstreams(self) -> tuple[Upstream, ...]:
        """None: an app has upstreams, a toolkit has tools."""
        return ()

    @property
    def inner(self) -> tuple[()]:
        """No app is inside a toolkit."""
        return ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order in which they were added, every version of each."""
        return tuple(self._tools)

    def running(self) -> AbstractAsyncContextManager[Any]:
        """What a server enters while it serves the tools, as `App.running`. A toolkit by itself shares nothing, so this
        gives None."""
        return nullcontext()

    def remove(self, name: str) -> None:
        """Takes a tool away, with all its versions. Where a server is running, its clients are told that the list has
        changed.

        Args:
            name: The tool's part of the id: `Add`, and not `Calculator.Add`.

        Raises:
            LookupError: There is no such tool.
        """
        kept = [tool for tool in self._tools if tool.name != name]
        if len(kept) == len(self._tools):
            raise LookupError(f"{self.info.name} has no tool {name!r}")
        self._tools = kept
        self._changed()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener`, without arguments, each time a tool was added or removed. Returns a function that ends
        this."""
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
        """Makes a tool of a function, and returns the function unchanged. The parameters' types become the input
        schema, the return type the output schema, and the docstring what a model reads. A running
        server lists the tool at once.

        It is written without parentheses, `@toolkit.tool`, or with options: `@toolkit.tool(read_only=True)`.

        Args:
            name: The tool's part of the id. Default: the function's name in CamelCase.
            wire_name: What models see. Default: the id with an underscore for the dot.
            version: The tool's version. Default: the toolkit's.
            title: A name for people.
            description: What the tool does, for models. Default: the docstring's text.
            annotations: Further hints for clients, sent as they are.
            requires: What it needs besides input: `authorization`, `secret`, `user_id`, one or a list.
            timeout: Seconds that it may run without reporting progress. Default: the setting `call_timeout_s`.
            concurrency: How many of it may run at once, on all nodes together.
            idempotent: Calling it twice has the same effect as once. A lost attempt is then run again.
            read_only: It changes nothing. A lost attempt is then run again.
            destructive: It may destroy something, so that clients ask first.
            on_lost: What becomes of a call whose attempt was lost, by a crash for instance: `"rerun"`, or `"unknown"`,
                which leaves it to a person. Default: by the two hints above.
            on_disconnect: What becomes of a call whose client goes away: `"cancel"` or `"continue"`. Default: calls
                with a key go on, others are cancelled.
            runs: `"inline"`, on the event loop, the default of an async function; `"thread"`, the default of any other;
                or `"process"`, for work that keeps a processor busy or that must be stoppable.
            tags: Words to group tools by; access rules can name them.
            icons: Pictures that clients may show: addresses, or `Icon`.
            recursion: What to do with a type that contains itself, for which the protocols have no exact schema:
                `"refuse"` it, or leave the schema `"open"` where it would repeat.
            input_schema: A JSON Schema of your own, listed and checked as it is. What fits it is then made into the
                types of the signature. Default: the schema of the signature.
            task: Whether MCP clients get a call of it as a task. `"optional"`: where they ask, and where it is slow.
                `"preferred"`: at once, if they can. `"required"`: those that cannot, cannot call it. `"forbidden"`:
                never.
            asks: What its questions need of a client: `"form"`, `"url"`, `"sampling"`, `"roots"`. A client that cannot
                do that is refused before the tool runs.
            approval: `"always"` where a person has to agree to each call before it runs, or a function that is given
                the input as keywords and says whether one has to.

        Raises:
            DefinitionError: The function cannot be a tool as it is written, or an option does not fit. The message
                begins with the file and line, and says what to write instead.
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
            called_with=code.called_with,
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
