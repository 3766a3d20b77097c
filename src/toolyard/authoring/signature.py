"""Reads a function's signature and docstring as those of a tool: which parameters, of which types, described how.

What cannot be a tool is refused here with a sentence that says what to write instead, and the author's file and line.
"""

import inspect
import logging
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Never, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from pydantic import AliasChoices, AliasPath
from pydantic.fields import Field, FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import TypeAliasType

from ..model.errors import DefinitionError, SourcePlace
from ..model.tool import Origin
from .context import Context, Depends, Hidden
from .docstrings import describe

UNTYPED = inspect.Parameter.empty
"""Stands for a type or default that the author did not write; None may be one."""
_log = logging.getLogger("toolyard.authoring")


class Parameter(Struct, frozen=True):
    """One parameter of a tool. `type` is annotated with its default and description, so that pydantic puts both into
    the schema."""

    name: str
    type: Any
    required: bool
    hidden: bool
    property: str
    """Its name in the schema, which differs where the author gave an alias."""
    default: Any = UNTYPED
    """The default itself. That of a `default_factory` is not known, as the factory is the author's code."""
    factory: Callable[..., Any] | None = None
    """The `default_factory`, if there is one."""


class Signature(Struct, frozen=True):
    """All that a tool's schemas and description are made from."""

    parameters: tuple[Parameter, ...]
    context: str | None
    """The name of the parameter that gets the Context, if there is one."""
    returns: Any
    summary: str
    returns_summary: str | None
    injected: dict[str, Callable[..., Any]] = {}
    """The parameters that are given what a function makes, and the functions: `Depends`."""
    takes_more: bool = False
    """Whether the function has `**more`, which takes what the author's own input schema allows besides."""


def read_signature(function: Callable[..., Any], *, has_own_schema: bool = False) -> Signature:
    """The signature of a function as a tool. Raises DefinitionError, with file and line, for what cannot be a tool."""
    _refuse_what_cannot_be_a_tool(function)
    hints, described = type_hints(function), describe(function)
    context, parameters, injected, takes_more = None, [], {}, False
    for name, parameter in inspect.signature(function).parameters.items():
        if has_own_schema and parameter.kind is parameter.VAR_KEYWORD:
            takes_more = True
            continue
        _refuse_what_has_no_schema(function, parameter)
        if (maker := dependency_in(function, parameter, hints[name])) is not None:
            injected[name] = maker
        elif not is_context(hints[name]):
            parameters.append(
                _parameter(function, name, hints[name], parameter.default, described.parameters.get(name))
            )
        elif context is None:
            context = name
        else:
            refuse(function, f"has two parameters for the Context, {context!r} and {name!r}; one is enough")
    # Most likely a parameter was renamed and its description forgotten, which no longer reaches any model.
    for name in described.parameters.keys() - inspect.signature(function).parameters.keys():
        _log.warning(
            "%s: %s describes the parameter %r, and has none of that name",
            origin_of(function).place, function.__qualname__, name,
        )  # fmt: skip
    return Signature(
        parameters=tuple(parameters),
        context=context,
        returns=hints.get("return", UNTYPED),
        summary=described.summary,
        returns_summary=described.returns,
        injected=injected,
        takes_more=takes_more,
    )


def refuse(function: Any, sentence: str) -> Never:
    """Raises DefinitionError: the author's function, what is wrong with it, and where it is defined."""
    name = getattr(function, "__qualname__", repr(function))
    place = origin_of(function).place
    raise DefinitionError(f"{name} {sentence}", place if place.line else author_place())


def origin_of(function: Any) -> Origin:
    """Where a function is defined; unknown for one that was not written in Python."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if code is None:
        return Origin(module=getattr(function, "__module__", "?"), file="?", line=0)
    return Origin(module=function.__module__, file=code.co_filename, line=code.co_firstlineno)


def author_place() -> SourcePlace:
    """The author's line that called into this package: the nearest frame outside it."""
    frame = inspect.currentframe()
    # By package and not by depth: how many of our own frames there are depends on how the decorator was used.
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return SourcePlace(frame.f_code.co_filename, frame.f_lineno) if frame else SourcePlace("?")


def _refuse_what_cannot_be_a_tool(function: Any) -> None:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        refuse(function, "is not a function; decorate a function or a bound method")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        refuse(function, "is a generator; a tool returns one value (Context.progress reports on the way)")


def _refuse_what_has_no_schema(function: Any, parameter: inspect.Parameter) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        allowed = ", or has an input_schema" if parameter.kind is parameter.VAR_KEYWORD else ""
        refuse(function, f"takes {parameter}; a tool names each of its parameters{allowed}")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        refuse(function, f"has a positional-only parameter {name!r}; a tool's arguments come by name")
    if parameter.annotation is UNTYPED and name in ("self", "cls"):
        refuse(function, "is a method; add it from an object: toolkit.tool(thing.method)")
    if parameter.annotation is UNTYPED:
        refuse(function, f"has a parameter {name!r} without a type; write for example {name}: str")


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's parameters and result, by name. Raises DefinitionError."""
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        refuse(function, f"has a type that cannot be found: {error}; define it at the top of the module")
    except Exception as error:  # an annotation is an author's code too
        refuse(function, f"has a type that cannot be read: {error}")


def _parameter(function: Any, name: str, type_: Any, default: Any, documented: str | None) -> Parameter:
    """A parameter from its annotation, its default and its description in the docstring. Of several descriptions the
    one nearest to the parameter counts: `Field(description=…)`, then a text in `Annotated`, then the docstring."""
    metadata = list(get_args(type_)[1:]) if get_origin(type_) is Annotated else []
    fields = [m for m in metadata if isinstance(m, FieldInfo)]
    # What is written besides the annotation is added to it as further Fields, which pydantic merges.
    extra: list[FieldInfo] = []
    if isinstance(default, FieldInfo):
        extra.append(default)
    elif default is not UNTYPED:
        extra.append(Field(default=default))
    everywhere = list(_metadata(type_))
    descriptions = [m for m in everywhere if isinstance(m, str)] + ([documented] if documented else [])
    if descriptions and not any(field.description for field in fields + extra):
        extra.append(Field(description=descriptions[0]))
    annotated = type_
    for field in extra:
        annotated = Annotated[annotated, field]
    return Parameter(
        name=name,
        type=annotated,
        # Required where no Field has a default: a default may be in the annotation, or behind the equals sign.
        required=all(field.is_required() for field in fields + extra),
        hidden=any(m is Hidden or isinstance(m, Hidden) for m in everywhere),
        property=next(filter(None, (_alias(function, field) for field in fields + extra)), name),
        default=next((field.default for field in fields + extra if _has_default(field)), UNTYPED),
        factory=next((field.default_factory for field in reversed(fields + extra) if field.default_factory), None),
    )


def _has_default(field: FieldInfo) -> bool:
    return field.default is not PydanticUndefined and field.default is not ...


def _metadata(type_: Any) -> Iterator[Any]:
    """A type's metadata, also where it is inside a union (`Annotated[str, Hidden] | None`) or behind a type alias."""
    if isinstance(type_, TypeAliasType):
        yield from _metadata(type_.__value__)
    elif get_origin(type_) is Annotated:
        yield from get_args(type_)[1:]
        yield from _metadata(get_args(type_)[0])
    elif get_origin(type_) in (Union, types.UnionType):
        for option in get_args(type_):
            yield from _metadata(option)


def _alias(function: Any, field: FieldInfo) -> str | None:
    """The parameter's name in the input, which pydantic calls the validation alias."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    if isinstance(alias, AliasPath):
        refuse(function, f"has a parameter with {alias}; a parameter's alias is a name")
    return alias


def is_context(type_: Any) -> bool:
    """Whether a parameter of that type is given the call's Context."""
    if get_origin(type_) is Annotated:
        return is_context(get_args(type_)[0])
    # `ctx: Context | None = None`, for a function that is also called without a server.
    if get_origin(type_) in (Union, types.UnionType):
        return any(is_context(option) for option in get_args(type_))
    return type_ is Context or get_origin(type_) is Context


def dependency_in(function: Any, parameter: inspect.Parameter, type_: Any) -> Callable[..., Any] | None:
    """The function that makes what a parameter is given, where the author wrote `Depends`."""
    name = parameter.name
    if isinstance(parameter.default, Depends):
        refuse(
            function, f"has {name}=Depends(…); write {name}: Annotated[…, Depends(…)], which type checkers understand"
        )
    metadata = list(_metadata(type_))
    if any(each is Depends for each in metadata):
        refuse(function, f"has Depends without a function at {name!r}; write Depends(function)")
    found = [each for each in metadata if isinstance(each, Depends)]
    return found[0].maker if found else None
