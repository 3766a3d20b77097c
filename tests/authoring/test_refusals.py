"""What cannot be a tool is refused when it is defined: one sentence, the author's file and line."""

import functools
import inspect
import math
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Never

import pytest
from pydantic import AliasPath, BaseModel, ConfigDict, Field, WithJsonSchema

from toolyard import Context, Toolkit
from toolyard.model.errors import DefinitionError
from toolyard.testing import client

from .trying import giving, kit_of, named, taking, tool_of


class Arbitrary:
    """Nothing pydantic knows."""


class OfObjects(Enum):
    A = object()


class Unfinished(BaseModel):
    later: "NeverDefined"  # type: ignore[name-defined]  # noqa: F821


@dataclass
class HoldsASocket:
    link: socket.socket


class Machine:
    def method(self, a: int) -> int:
        """A method, not of an object."""
        return a

    def __call__(self, a: int) -> int:
        return a


def untyped(a, b: int):  # type: ignore[no-untyped-def]
    """Has a parameter without a type."""


def partly_untyped(a: int, *, b="x"):  # type: ignore[no-untyped-def]
    """Has a default, which is no type."""


def positional_only(a: int, /, b: int) -> None:
    """Has a positional-only parameter."""


def variadic(*numbers: int) -> None:
    """Takes any number."""


def keywords(**options: int) -> None:
    """Takes any name."""


def generator() -> Iterator[int]:
    """Yields."""
    yield 1


async def async_generator() -> AsyncIterator[int]:
    """Yields."""
    yield 1


def two_contexts(a: Context, b: Context) -> None:
    """Wants two."""


def unknown_name(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Names what is not there."""


def unknown_result() -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
    """Names what is not there."""


def unknown_member(a: "threading.Nothing") -> None:  # type: ignore[name-defined]
    """Names what a module does not have."""


def not_an_expression(a: "int or") -> None:  # type: ignore[valid-type]  # noqa: F722
    """Has half an annotation."""


def not_a_type(a: 1) -> None:  # type: ignore[valid-type]
    """Has a number for a type."""


def carelessly_wrapped() -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        """Forgot functools.wraps."""

    return wrapper


FUNCTIONS: list[tuple[Callable[..., Any], str]] = [
    (untyped, "untyped has a parameter 'a' without a type; write for example a: str"),
    (partly_untyped, "partly_untyped has a parameter 'b' without a type"),
    (positional_only, "positional_only has a positional-only parameter 'a'"),
    (variadic, r"variadic takes \*numbers: int; a tool names each of its parameters"),
    (keywords, r"keywords takes \*\*options: int; a tool names each of its parameters"),
    (carelessly_wrapped(), r"wrapper takes \*args"),
    (generator, "generator is a generator"),
    (async_generator, "async_generator is a generator"),
    (two_contexts, "two_contexts has two parameters for the Context, 'a' and 'b'"),
    (Machine.method, "Machine.method is a method; add it from an object"),
    (unknown_name, "unknown_name has a type that cannot be found: name 'Nowhere' is not defined"),
    (unknown_result, "unknown_result has a type that cannot be found: name 'Nowhere' is not defined"),
    (unknown_member, "unknown_member has a type that cannot be read: .*no attribute 'Nothing'"),
    (not_an_expression, "not_an_expression has a type that cannot be read: "),
    (not_a_type, "not_a_type cannot have that type for parameter 'a'"),
]


@pytest.mark.parametrize(("function", "sentence"), FUNCTIONS, ids=lambda case: getattr(case, "__name__", ""))
def test_a_function_that_cannot_be_a_tool_is_refused_with_its_line(function: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence) as refusal:
        tool_of(function)
    place = refusal.value.place
    assert place is not None
    assert (place.file, place.line) == (__file__, inspect.unwrap(function).__code__.co_firstlineno)
    assert "\n" not in str(refusal.value)


TYPES: list[tuple[Any, str]] = [
    (Arbitrary, "Arbitrary'>; use a plain type, a dataclass or a pydantic model$"),
    (list[Arbitrary], "Arbitrary'>; use a plain type, a dataclass or a pydantic model$"),
    (HoldsASocket, "socket'>; use a plain type, a dataclass or a pydantic model$"),
    (Callable[[int], int], "CallableSchema"),
    (type, "class 'type'"),
    (Never, "Never; use a plain type"),
    (Awaitable[int], "Awaitable"),
    (OfObjects, "Unable to serialize unknown type: <class 'object'>"),
    (Unfinished, "not fully defined; define every type it names$"),
    (Annotated[str, Field(pattern="(?=a)b")], "its pattern cannot be used, look-around, .* is not supported$"),
    (Annotated[str, Field(pattern=r"(a)\1")], "its pattern cannot be used, backreferences are not supported$"),
    (Annotated[str, Field(pattern="(")], "its pattern cannot be used, unclosed group$"),
    (Annotated[int, Field(multiple_of=0)], "its constraint cannot be used, .*multiple_of"),
]


@pytest.mark.parametrize(("type_", "reason"), TYPES, ids=str)
def test_a_type_without_a_schema_is_refused_by_where_it_stands(type_: Any, reason: str) -> None:
    for function, where in ((taking(type_)[0], "for parameter 'value'"), (giving(type_, None), "as its result")):
        with pytest.raises(DefinitionError, match=f"cannot have that type {where}: .*{reason}") as refusal:
            tool_of(function)
        assert refusal.value.place is not None
        assert refusal.value.place.file.endswith("trying.py")
        assert "\n" not in str(refusal.value)
        assert "arbitrary_types_allowed" not in str(refusal.value)


class Lookahead(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    password: str = Field(pattern=r"^(?=.*\d).+$")


def test_a_pattern_that_only_python_could_check_is_refused_when_it_is_served() -> None:
    kit = kit_of(taking(Lookahead)[0])
    with (
        pytest.raises(DefinitionError, match=r"Kit\.Tried has a schema that cannot be checked: .*\?=") as refusal,
        client(kit),
    ):
        pass
    assert refusal.value.place is not None


def test_an_alias_that_is_a_path_is_refused() -> None:
    def tried(value: Annotated[int, Field(validation_alias=AliasPath("a", 0))]) -> None:
        """Tries."""

    with pytest.raises(DefinitionError, match=r"AliasPath.*a parameter's alias is a name"):
        tool_of(tried)


@pytest.mark.parametrize(
    "thing",
    [functools.partial(divmod, 1), Machine(), Machine, len, 3, "text", None, functools.lru_cache(generator)],
    ids=named,
)
def test_what_is_not_a_function_is_refused_where_it_was_given(thing: Any) -> None:
    kit = Toolkit("Kit")
    with pytest.raises(DefinitionError, match="is not a function; decorate a function or a bound method") as refusal:
        kit.tool()(thing)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__
    assert refusal.value.place.line
    assert kit.tools == ()


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match=r"cannot be named '<lambda>'; .*name="):
        Toolkit("Kit").tool(lambda: 1)


def test_a_lambda_with_a_parameter_has_no_type_for_it() -> None:
    with pytest.raises(DefinitionError, match="has a parameter 'a' without a type"):
        tool_of(lambda a: a)


def test_a_refused_function_leaves_the_toolkit_as_it_was() -> None:
    kit = kit_of(taking(int)[0])
    with pytest.raises(DefinitionError):
        kit.tool(untyped)
    assert [tool.id for tool in kit.tools] == ["Kit.Tried"]


def test_a_reference_to_elsewhere_is_refused_and_not_followed() -> None:
    def foreign(a: Annotated[int, WithJsonSchema({"$ref": "https://example.com/schema"})]) -> None:
        """Has a schema that lives somewhere else."""

    with pytest.raises(DefinitionError, match="a reference to https://example"):
        Toolkit("Foreign").tool(foreign)


# --- defaults ------------------------------------------------------------------------------------


def of_two(a: Literal["x", "y"] = "z") -> None:  # type: ignore[assignment]
    """Has a default that is neither."""


def in_quotes(n: int = "5") -> None:  # type: ignore[assignment]
    """Has a text for a number."""


def too_small(n: Annotated[int, Field(ge=1)] = 0) -> None:
    """Has a default that is too small."""


def nothing(a: str = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
    """Has no text for a default."""


def in_a_field(n: Annotated[int, Field(alias="number")] = Field(default="5")) -> None:  # type: ignore[assignment]
    """Has its default elsewhere."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (of_two, "has the default 'z' for 'a', which its type does not allow: Input should be 'x' or 'y'"),
        (in_quotes, "has the default '5' for 'n', which its type does not allow: Input should be a valid integer"),
        (
            too_small,
            "has the default 0 for 'n', which its type does not allow: Input should be greater than or equal to 1",
        ),
        (nothing, "has the default None for 'a', which its type does not allow: Input should be a valid string"),
        (in_a_field, "has the default '5' for 'number', which its type does not allow"),
    ],
    ids=named,
)
def test_a_default_that_its_own_type_does_not_allow_is_refused(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Toolkit("Kit").tool(function)
    place = f"{__file__}:{function.__code__.co_firstlineno}"
    assert str(refused.value).startswith(f"{place}: {function.__name__} {said}")


def test_a_default_may_be_what_the_type_makes_of_it() -> None:
    @Toolkit("Kit").tool
    def many(
        a: float = 1,
        b: Decimal = 0,  # type: ignore[assignment]
        c: date = date(2025, 1, 31),
        d: list[str] = (),  # type: ignore[assignment]
        e: str | None = None,
        f: Annotated[list[int], Field(default_factory=list)] = Field(default_factory=list),  # noqa: B008
        g: float = math.inf,
        h: tuple[int, ...] = (1, 2),
        i: bytes = b"\xff",
    ) -> None:
        """Takes what it gets."""


@pytest.mark.parametrize("style", ["Args:\n        {}: What it is.", ":param {}: What it is."])
def test_a_parameter_that_only_the_docstring_has_is_warned_of(style: str, caplog: pytest.LogCaptureFixture) -> None:
    def there(a: int, ctx: Context) -> int:
        return a

    for name, warnings in (("a", 0), ("ctx", 0), ("b", 1)):
        caplog.clear()
        there.__doc__ = f"Does it.\n\n    {style.format(name)}\n    "
        Toolkit("Kit").tool(there)
        said = [record.getMessage() for record in caplog.records if record.name == "toolyard.authoring"]
        assert len(said) == warnings
    assert said[0].startswith(f"{__file__}:{there.__code__.co_firstlineno}: ")
    assert said[0].endswith("there describes the parameter 'b', and has none of that name")
