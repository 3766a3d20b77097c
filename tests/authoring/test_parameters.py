"""How a signature becomes input: defaults, names, aliases, descriptions, kinds of parameters, hidden ones."""

import functools
from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Annotated, Any, TypeVar

import pytest
from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypeAliasType

from toolyard import Context, Hidden, InvalidInput, Toolkit
from toolyard.testing import call, client

from .trying import ask, kit_of, listed, tool_of

F = TypeVar("F", bound=Callable[..., Any])


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int = 0


class Sentinel:
    """Nothing that JSON knows."""


UNSET = Sentinel()


def properties_of(function: Callable[..., Any]) -> Any:
    return listed(function)["input_schema"]["properties"]


# --- defaults ------------------------------------------------------------------------------------


def with_defaults(
    needed: int,
    plain: int = 3,
    constrained: int = Field(default=4, ge=0),
    annotated: Annotated[int, Field(default=5)] = 6,
    made: list[int] = Field(default_factory=lambda: [7]),  # noqa: B008
    colour: Colour = Colour.RED,
    day: date = date(2025, 1, 31),
    point: Point = Point(x=8),  # noqa: B008
    maybe: str | None = None,
    unset: Any = UNSET,
    forced: int = Field(..., ge=1),
) -> str:
    """Has them all."""
    seen = (plain, constrained, annotated, made, colour, day, point, maybe, unset is UNSET, forced)
    return repr(seen)


def test_what_is_not_sent_has_its_default() -> None:
    expected = (3, 4, 6, [7], Colour.RED, date(2025, 1, 31), Point(x=8), None, True, 2)
    assert ask(with_defaults, {"needed": 1, "forced": 2}) == repr(expected)


def test_only_parameters_without_a_default_are_required() -> None:
    assert listed(with_defaults)["input_schema"]["required"] == ["needed", "forced"]
    with pytest.raises(InvalidInput) as refusal:
        ask(with_defaults)
    assert {p.path for p in refusal.value.problems} == {"needed", "forced"}


def test_defaults_are_in_the_schema_where_json_has_a_word_for_them() -> None:
    shown = {name: schema.get("default", "none") for name, schema in properties_of(with_defaults).items()}
    assert shown == {
        "needed": "none",
        "plain": 3,
        "constrained": 4,
        "annotated": 6,
        "made": "none",
        "colour": "red",
        "day": "2025-01-31",
        "point": {"x": 8},
        "maybe": None,
        "unset": "none",
        "forced": "none",
    }


def test_a_default_with_limits_keeps_them() -> None:
    with pytest.raises(InvalidInput):
        ask(with_defaults, {"needed": 1, "forced": 2, "constrained": -1})


def test_a_mutable_default_is_fresh_for_every_call() -> None:
    def collect(numbers: list[int] = [], names: dict[str, int] = {}) -> list[int]:  # noqa: B006
        """Keeps what it gets."""
        numbers.append(len(numbers))
        names[str(len(names))] = 1
        return [*numbers, len(names)]

    with client(kit_of(collect)) as yard:
        assert yard.call("Kit.Tried") == [0, 1]
        assert yard.call("Kit.Tried") == [0, 1]


# --- names ---------------------------------------------------------------------------------------

NAMES = (
    "schema", "json", "copy", "self", "cls", "class_", "model_config", "model_fields", "dict", "items", "keys", "get",
    "_private", "input", "arguments", "run", "function", "default", "const", "enum", "discriminator", "properties",
    "required", "type", "title", "returns", "été",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {"Point": Point}
    exec(f"def tried({name}: Point, other: int = 1) -> int:\n    return {name}.x + other", namespace)
    schema = listed(namespace["tried"])["input_schema"]
    assert schema["properties"][name]["properties"] == {"x": {"default": 0, "type": "integer"}}
    assert schema["required"] == [name]
    assert ask(namespace["tried"], {name: {"x": 2}}) == 3


def test_an_alias_is_the_name_that_clients_use() -> None:
    def greet(
        first_name: Annotated[str, Field(alias="firstName")],
        last_name: str = Field(default="?", validation_alias="lastName"),
        title: Annotated[str, Field(validation_alias=AliasChoices("honorific", "other"))] = "",
    ) -> list[str]:
        """Greets."""
        return [first_name, last_name, title]

    assert list(properties_of(greet)) == ["firstName", "lastName", "honorific"]
    assert ask(greet, {"firstName": "Ada", "lastName": "King", "honorific": "Dr"}) == ["Ada", "King", "Dr"]
    with pytest.raises(InvalidInput) as refusal:
        ask(greet, {"first_name": "Ada"})
    assert {p.path for p in refusal.value.problems} == {"first_name", "firstName"}


def test_an_unknown_argument_is_refused_by_name() -> None:
    def nothing() -> None:
        """Takes nothing."""

    with pytest.raises(InvalidInput) as refusal:
        ask(nothing, {"colour": 1})
    assert [(p.path, p.sentence) for p in refusal.value.problems] == [("colour", "Is not a known parameter")]


# --- descriptions --------------------------------------------------------------------------------


def described(
    documented: int,
    annotated: Annotated[int, "From the annotation."],
    by_field: Annotated[int, Field(description="From the field.")],
    both: Annotated[int, "Annotation.", Field(description="Field.")],
    by_default: Annotated[int, "Annotation."] = Field(default=1, ge=0),
    in_union: Annotated[int, "In a union."] | None = None,
    plain: int = 0,
) -> None:
    """Describes.

    Args:
        documented: From the docstring.
        annotated: From the docstring.
        by_field: From the docstring.
    """


def test_the_nearest_description_wins() -> None:
    shown = {name: schema.get("description") for name, schema in properties_of(described).items()}
    assert shown == {
        "documented": "From the docstring.",
        "annotated": "From the annotation.",
        "by_field": "From the field.",
        "both": "Field.",
        "by_default": "Annotation.",
        "in_union": "In a union.",
        "plain": None,
    }


def test_a_field_says_more_than_a_description() -> None:
    def tried(value: Annotated[int, Field(examples=[1], title="Value", json_schema_extra={"x-unit": "m"})]) -> None:
        """Tries."""

    assert properties_of(tried)["value"] == {"type": "integer", "examples": [1], "title": "Value", "x-unit": "m"}


# --- kinds of functions and parameters -----------------------------------------------------------


def test_keyword_only_parameters_are_parameters() -> None:
    def tried(a: int, *, b: int, c: int = 3) -> int:
        """Adds."""
        return a + b + c

    assert ask(tried, {"a": 1, "b": 2}) == 6


class Counter:
    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> int:
        """Counts."""
        self.total += number
        return self.total

    async def add_later(self, number: int) -> int:
        """Counts."""
        return self.add(number)

    @classmethod
    def of_class(cls, number: int) -> str:
        """Names itself."""
        return f"{cls.__name__} {number}"

    @staticmethod
    def of_nobody(number: int) -> int:
        """Doubles."""
        return number * 2


def test_methods_of_an_object_are_tools_that_share_it() -> None:
    counter, kit = Counter(), Toolkit("Counter")
    for method in (counter.add, counter.add_later, Counter.of_class, Counter.of_nobody):
        kit.tool(method)
    with client(kit) as yard:
        assert yard.call("Counter.Add", {"number": 2}) == 2
        assert yard.call("Counter.AddLater", {"number": 3}) == 5
        assert yard.call("Counter.OfClass", {"number": 1}) == "Counter 1"
        assert yard.call("Counter.OfNobody", {"number": 2}) == 4
    assert counter.total == 5


def loudly(function: F) -> F:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return f"{function(*args, **kwargs)}!"

    return wrapper  # type: ignore[return-value]


def loudly_later(function: F) -> F:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> str:
        return f"{await function(*args, **kwargs)}!"

    return wrapper  # type: ignore[return-value]


def test_a_wrapped_function_has_the_signature_of_what_it_wraps() -> None:
    @loudly
    def shout(text: str, times: int = 1) -> str:
        """Shouts.

        Args:
            text: What.
        """
        return text * times

    @loudly_later
    async def shout_later(text: str) -> str:
        """Shouts."""
        return text

    kit = Toolkit("Kit", version="1.0.0")
    kit.tool(shout)
    kit.tool(shout_later)
    assert call(kit, "Kit.Shout", {"text": "a", "times": 2}) == "aa!"
    assert call(kit, "Kit.ShoutLater", {"text": "a"}) == "a!"
    assert kit.tools[0].input_schema["properties"]["text"]["description"] == "What."
    assert kit.tools[0].code.origin.file == __file__


def test_a_named_lambda_without_parameters_is_a_tool() -> None:
    assert ask(lambda: "made") == "made"


def test_an_async_function_runs_on_the_loop_and_another_in_a_thread() -> None:
    async def later() -> None:
        """Waits."""

    def now() -> None:
        """Does not."""

    assert (tool_of(later).runs, tool_of(now).runs) == ("inline", "thread")


# --- hidden parameters ---------------------------------------------------------------------------

AdminOnly = TypeAliasType("AdminOnly", Annotated[bool, Hidden])


def with_hidden(
    shown: str,
    marked: Annotated[str, Hidden],
    instance: Annotated[str, Hidden()] = "",
    optional: Annotated[str, Hidden] | None = None,
    behind_a_name: AdminOnly = False,
    renamed: Annotated[int, Hidden, Field(alias="other")] = 0,
    elsewhere: Annotated[int, Hidden, Field(validation_alias="third")] = 0,
    choices: Annotated[int, Hidden, Field(validation_alias=AliasChoices("fourth", "fifth"))] = 0,
    many: list[Annotated[str, "each"]] = [],  # noqa: B006
) -> str:
    """Hides."""
    return marked


def test_hidden_parameters_are_marked_and_no_others() -> None:
    schemas = properties_of(with_hidden)
    hidden = {"marked", "instance", "optional", "behind_a_name", "other", "third", "fourth"}
    assert {name for name, schema in schemas.items() if schema.get("x-non-inferrable")} == hidden
    assert set(tool_of(with_hidden).hidden) == hidden


def test_a_client_may_leave_hidden_parameters_out_of_what_a_model_sees() -> None:
    with client(kit_of(with_hidden)) as yard:
        schema = yard.list(for_model=True)[0]["input_schema"]
    assert list(schema["properties"]) == ["shown", "many"]
    assert schema["required"] == ["shown"]


def test_a_hidden_parameter_is_still_an_argument() -> None:
    assert ask(with_hidden, {"shown": "a", "marked": "b"}) == "b"


# --- the context ---------------------------------------------------------------------------------


def test_the_context_is_handed_in_under_any_name_and_never_listed() -> None:
    def plain(ctx: Context, number: int) -> str:
        """Has one."""
        return ctx.call_id

    def optional(number: int, context: Context | None = None) -> str:
        """May have one."""
        assert context is not None
        return context.call_id

    def annotated(number: int, c: Annotated[Context, "the call"]) -> str:
        """Has one with words."""
        return c.call_id

    for function in (plain, optional, annotated):
        assert call(kit_of(function), "Kit.Tried", {"number": 1}, call_id="c-1") == "c-1"
        assert list(properties_of(function)) == ["number"]
        with pytest.raises(InvalidInput):
            ask(function, {"number": 1, "ctx": {}, "context": {}, "c": {}})
