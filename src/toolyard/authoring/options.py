"""The options of `@toolkit.tool(…)`, checked, and the check of a whole definition for hidden characters.

Both refuse with a sentence that says what to write instead, and with the file and line where the author wrote it.
"""

import inspect
import linecache
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Never, get_args

import msgspec

from ..model.channel import Asks
from ..model.definition_text import Unseen, unseen_in
from ..model.errors import DefinitionError, SourcePlace
from ..model.json_value import decode_as
from ..model.predicate import misfit
from ..model.tool import NAME, WIRE_NAME, WIRE_NAME_FORM, OnDisconnect, OnLost, TaskUse, Tool, ToolHints, Version
from .function import Function

Runs = Literal["inline", "thread", "process"]
"""The runners that an author can choose from."""
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}\.[0-9]{1,9})?").fullmatch
_KNOWN = frozenset(
    {
        "name", "wire_name", "version", "title", "description", "annotations", "requires", "timeout", "concurrency",
        "idempotent", "read_only", "destructive", "on_lost", "on_disconnect", "runs", "tags", "icons", "recursion",
        "input_schema", "task", "asks", "approval",
    }
)  # fmt: skip


class ToolOptions:
    """The options that an author gave to one `@toolkit.tool(…)`. Each is checked when it is read; what is wrong raises
    DefinitionError with the line of the function."""

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
        return default if given is None else version_of(given, self._code.origin.place)

    @property
    def annotations(self) -> dict[str, Any]:
        return self.json("annotations") or {}

    @property
    def input_schema(self) -> dict[str, Any]:
        """The author's own schema, or else the one made from the signature. The author's must have the parameters of
        the signature, whatever it says about them."""
        derived, own = self._code.input_schema, self.json("input_schema")
        if own is None:
            return derived
        parameters = own.get("properties", {})
        if own.get("type") != "object" or not isinstance(parameters, dict):
            self._refuse("has an input_schema that is not one of an object; write 'type': 'object' and 'properties'")
        differing = sorted(derived["properties"].keys() - parameters.keys())
        if not self._code.signature.takes_more:
            differing += sorted(parameters.keys() - derived["properties"].keys())
        if differing:
            where = "signature" if differing[0] in parameters else "input_schema"
            self._refuse(f"has the parameter {differing[0]!r} not in its {where}")
        # The mark of a hidden parameter is put into the derived schema; the author's own is listed as it is.
        if self._code.hidden:
            self._refuse("cannot have both an input_schema and a Hidden parameter")
        return own

    @property
    def hints(self) -> ToolHints:
        get = self._options.get
        if get("read_only") and get("destructive"):
            self._refuse("cannot be both read_only and destructive")
        return ToolHints(
            read_only=bool(get("read_only")),
            idempotent=bool(get("idempotent")),
            destructive=get("destructive"),
        )

    @property
    def on_lost(self) -> OnLost:
        can_rerun = self._options.get("idempotent") or self._options.get("read_only")
        chosen: OnLost = self._one_of("on_lost", ("rerun", "unknown"), "rerun" if can_rerun else "unknown")
        return chosen

    @property
    def on_disconnect(self) -> OnDisconnect | None:
        given = self._options.get("on_disconnect")
        chosen: OnDisconnect = self._one_of("on_disconnect", ("cancel", "continue"), "cancel")
        return None if given is None else chosen  # None is a third choice: it depends on whether the call has a key

    @property
    def runs(self) -> Runs:
        chosen: Runs = self._one_of("runs", get_args(Runs), "inline" if self._code.is_async else "thread")
        if chosen == "thread" and self._code.is_async:
            self._refuse('is async, which does not run in a thread; use runs="inline" or "process"')
        dependencies = self._code.dependencies
        if dependencies is None or self._code.is_async or chosen == "thread":
            return chosen
        if (maker := dependencies.first_async) is not None:
            self._refuse(
                f"is not async and has runs={chosen!r}, where its dependency {maker.__name__}, which is async, cannot "
                'be awaited; make the tool async def, or use runs="thread"'
            )
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
        """The option's JSON object, as a copy that the author's code cannot change later."""
        given = self._options.get(option)
        if given is None:
            return None
        try:
            copied: dict[str, Any] = decode_as(msgspec.json.encode(given), dict[str, Any])
        except (TypeError, ValueError):  # msgspec's errors are ValueErrors
            self._refuse(f"has {option}={given!r}; it must be a dict of JSON values")
        return copied

    def several(self, option: str, kind: Any, wanted: str) -> tuple[Any, ...]:
        """An option that is one value of a kind, or an iterable of them. A text is iterable, too: alone it is one
        value, and not its letters."""
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


def version_of(text: str, place: SourcePlace) -> Version:
    """The version that an author wrote. Raises DefinitionError, pointing to `place`."""
    if not isinstance(text, str) or not _VERSION(text):
        raise DefinitionError(f"{text!r} is not a version; write three numbers such as '1.2.3'", place)
    return Version.parse(text)


def refuse_unseen(who: str, members: dict[str, Any], place: SourcePlace, last_line: int | None = None) -> None:
    """Raises DefinitionError for the first hidden character in these members of a definition. `place` is where the
    definition begins."""
    for found in unseen_in(members):
        raise DefinitionError(
            f"{who} has a hidden character in its {found.member}: {found}; people do not see it and models do, "
            "so take it out",
            _line_of(found, place, last_line or place.line),
        )


def members_of(tool: Tool) -> dict[str, Any]:
    """Every member of a definition that is text, or has text in it."""
    return {
        "name": tool.name,
        "wire_name": tool.wire_name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
        "requirements": msgspec.to_builtins(tool.requirements),
        "tags": tool.tags,
        "icons": msgspec.to_builtins(tool.icons),
    }


def _line_of(found: Unseen, place: SourcePlace, last_line: int | None) -> SourcePlace:
    """The line that the hidden character is on, where the author typed it and did not write an escape."""
    if place.line is None or last_line is None:
        return place
    for number in range(place.line, last_line + 1):
        if found.character in linecache.getline(place.file, number).rstrip("\r\n"):
            return SourcePlace(place.file, number)
    return place
