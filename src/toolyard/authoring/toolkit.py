"""A toolkit: a named, versioned collection of tools, and the decorator that adds to it."""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Literal, Never, TypeVar, get_args, overload

import msgspec

from ..model.errors import DefinitionError, Place
from ..model.predicate import misfit
from ..model.running import Asks, Host
from ..model.tool import (
    NAME,
    WIRE_NAME,
    WIRE_NAME_FORM,
    Hints,
    Icon,
    OnDisconnect,
    OnLost,
    Requirements,
    Runs,
    TaskUse,
    Tool,
    ToolkitInfo,
    Version,
)
from .function import Function
from .requirements import combine
from .schemas import Recursion
from .signature import author_place
from .unseen import members_of, refuse_unseen

F = TypeVar("F", bound=Callable[..., Any])
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}\.[0-9]{1,9})?").fullmatch


class Toolkit:
    """`calculator = Toolkit("Calculator", version="1.0.0")`, then `@calculator.tool`."""

    def __init__(self, name: str, *, version: str = "0.1.0", description: str = "") -> None:
        place = author_place()
        refuse_unseen("The toolkit", {"name": name, "description": description}, place)
        if not isinstance(name, str) or not NAME(name):
            raise DefinitionError(f"{name!r} cannot name a toolkit; use letters, digits and underscores", place)
        self.info = ToolkitInfo(name, description, _version(version, place))
        self.host = Host()
        self._tools: list[Tool] = []
        self._listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Toolkit {self.info.name} {self.info.version}, {len(self._tools)} tools>"

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools)

    def running(self) -> AbstractAsyncContextManager[Any]:
        """A toolkit by itself shares nothing; an `App` has a lifespan."""
        return nullcontext()

    def remove(self, name: str) -> None:
        """Takes a tool away, all its versions, also while it is served. Raises LookupError where there is none."""
        kept = [tool for tool in self._tools if tool.name != name]
        if len(kept) == len(self._tools):
            raise LookupError(f"{self.info.name} has no tool {name!r}")
        self._tools = kept
        self._changed()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever a tool was added or removed, until what this returns is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _changed(self) -> None:
        for listener in list(self._listeners):
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
        has_own_schema = options.get("input_schema") is not None
        code = Function(function, options.get("recursion") or "refuse", has_own_schema=has_own_schema)
        checked = _Options(function.__name__, code, options)
        name = checked.name
        made = Tool(
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
        refuse_unseen(made.id, members_of(made), code.origin.place, code.last_line)
        self._tools = [*self._tools, made]
        try:
            self._changed()
        except DefinitionError:
            self._tools = self._tools[:-1]
            raise


_KNOWN = frozenset(
    {
        "name", "wire_name", "version", "title", "description", "annotations", "requires", "timeout", "concurrency",
        "idempotent", "read_only", "destructive", "on_lost", "on_disconnect", "runs", "tags", "icons", "recursion",
        "input_schema", "task", "asks", "approval",
    }
)  # fmt: skip


class _Options:
    """What the author gave to `@toolkit.tool(…)`, checked, with a refusal that names the line."""

    def __init__(self, function_name: str, code: Function, options: Mapping[str, Any]) -> None:
        self._function_name, self._code, self._options = function_name, code, options
        unknown = sorted(options.keys() - _KNOWN)
        if unknown:
            self._refuse(f"has no option {unknown[0]!r}; the options are {', '.join(sorted(_KNOWN))}")
        self._one_of("recursion", ("refuse", "open"), "refuse")

    @property
    def name(self) -> str:
        name = self.text("name") or camel_case(self._function_name)
        if not NAME(name):
            self._refuse(f"cannot be named {name!r}; use letters, digits and underscores: name=…")
        return name

    def wire_name(self, default: str) -> str:
        name = self.text("wire_name") or default
        if not WIRE_NAME(name):
            self._refuse(
                f"cannot have the wire name {name!r} ({len(name)} characters); use {WIRE_NAME_FORM}: wire_name=…"
            )
        return name

    def version(self, default: Version) -> Version:
        given = self._options.get("version")
        return default if given is None else _version(given, self._code.origin.place)

    @property
    def annotations(self) -> dict[str, Any]:
        return self.json("annotations") or {}

    @property
    def input_schema(self) -> dict[str, Any]:
        """The author's own has the signature's parameters, whatever else it says of them."""
        made, own = self._code.input_schema, self.json("input_schema")
        if own is None:
            return made
        parameters = own.get("properties", {})
        if own.get("type") != "object" or not isinstance(parameters, dict):
            self._refuse("has an input_schema that is not one of an object; write 'type': 'object' and 'properties'")
        differing = sorted(made["properties"].keys() - parameters.keys())
        if not self._code.signature.takes_more:
            differing += sorted(parameters.keys() - made["properties"].keys())
        if differing:
            where = "signature" if differing[0] in parameters else "input_schema"
            self._refuse(f"has the parameter {differing[0]!r} not in its {where}")
        if self._code.hidden:
            self._refuse("cannot have both an input_schema and a Hidden parameter")
        return own

    @property
    def hints(self) -> Hints:
        get = self._options.get
        if get("read_only") and get("destructive"):
            self._refuse("cannot be both read_only and destructive")
        return Hints(
            read_only=bool(get("read_only")),
            idempotent=bool(get("idempotent")),
            destructive=get("destructive"),
        )

    @property
    def on_lost(self) -> OnLost:
        harmless = self._options.get("idempotent") or self._options.get("read_only")
        chosen: OnLost = self._one_of("on_lost", ("rerun", "unknown"), "rerun" if harmless else "unknown")
        return chosen

    @property
    def on_disconnect(self) -> OnDisconnect | None:
        given = self._options.get("on_disconnect")
        chosen: OnDisconnect = self._one_of("on_disconnect", ("cancel", "continue"), "cancel")
        return None if given is None else chosen

    @property
    def runs(self) -> Runs:
        chosen: Runs = self._one_of(
            "runs", ("inline", "thread", "process"), "inline" if self._code.is_async else "thread"
        )
        if chosen == "thread" and self._code.is_async:
            self._refuse('is async, which does not run in a thread; use runs="inline" or "process"')
        return chosen

    @property
    def task(self) -> TaskUse:
        chosen: TaskUse = self._one_of("task", get_args(TaskUse), "optional")
        return chosen

    @property
    def asks(self) -> tuple[Asks, ...]:
        choices = get_args(Asks)
        given = tuple(dict.fromkeys(self.several("asks", str, ", ".join(choices))))
        if wrong := [each for each in given if each not in choices]:
            self._refuse(f"has asks={wrong[0]!r}; choose from {', '.join(choices)}")
        if given and not self._code.is_async:
            self._refuse("is not async, and only an async tool can ask: async def")
        if given and self.runs == "process":
            self._refuse('cannot ask from a child process; use runs="inline"')
        return given

    @property
    def approval(self) -> Literal["always"] | Callable[..., Any] | None:
        given = self._options.get("approval")
        if given not in (None, "always") and (not callable(given) or inspect.iscoroutinefunction(given)):
            self._refuse(f'has approval={given!r}; it must be "always", or a function of the input that is not async')
        if callable(given) and (why := misfit(given, self.input_schema)):
            self._refuse(f"has an approval function that cannot be asked about its input: it {why}")
        return given

    def text(self, option: str) -> str | None:
        value = self._options.get(option)
        if value is not None and not isinstance(value, str):
            self._refuse(f"has {option}={value!r}; it must be text")
        refuse_unseen(self._function_name, {option: value}, self._code.origin.place, self._code.last_line)
        return value

    def json(self, option: str) -> dict[str, Any] | None:
        """A copy, as it goes over a wire."""
        given = self._options.get(option)
        if given is None:
            return None
        try:
            made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given), type=dict[str, Any])
        except (TypeError, ValueError):  # msgspec's errors are ValueErrors
            self._refuse(f"has {option}={given!r}; it must be a dict of JSON values")
        return made

    def several(self, option: str, kind: Any, wanted: str) -> tuple[Any, ...]:
        """One or several of a kind. A text alone would be taken for its letters, so it counts as one."""
        value = self._options.get(option)
        if value is None or isinstance(value, kind):
            return () if value is None else (value,)
        values = tuple(value) if isinstance(value, Iterable) else (None,)
        if not all(isinstance(each, kind) for each in values):
            self._refuse(f"has {option}={value!r}; it must be one or a list of {wanted}")
        return values

    def positive(self, option: str, kind: type[int] | type[float]) -> Any:
        value = self._options.get(option)
        is_number = isinstance(value, int | kind) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 < value < math.inf):
            self._refuse(f"has {option}={value!r}; it must be a {'whole ' if kind is int else ''}number greater than 0")
        return value

    def _one_of(self, option: str, choices: tuple[str, ...], default: str) -> Any:
        value = self._options.get(option) or default
        if value not in choices:
            self._refuse(f"has {option}={value!r}; choose one of {', '.join(choices)}")
        return value

    def _refuse(self, sentence: str) -> Never:
        raise DefinitionError(f"{self._function_name} {sentence}", self._code.origin.place)


def camel_case(name: str) -> str:
    """`get_emails` becomes `GetEmails`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _version(text: str, place: Place) -> Version:
    if not isinstance(text, str) or not _VERSION(text):
        raise DefinitionError(f"{text!r} is not a version; write three numbers such as '1.2.3'", place)
    return Version.parse(text)
