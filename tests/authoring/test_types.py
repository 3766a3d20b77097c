"""Every type an author would use: what is sent, what the function sees, what goes back, and the schema of it."""

import collections
import enum
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypeVar
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    JsonValue,
    NaiveDatetime,
    SecretStr,
    StringConstraints,
    computed_field,
    field_validator,
    model_validator,
)
from typing_extensions import TypeAliasType, TypedDict

from toolyard import InvalidInput, ToolError, Toolkit
from toolyard.model.errors import DefinitionError
from toolyard.testing import call

from .trying import ask, giving, listed, named, received, schema_of, taking, tool_of, words_in

Item = TypeVar("Item")
UserId = NewType("UserId", int)
Names = TypeAliasType("Names", list[str])


class Point(BaseModel):
    x: int
    y: int = 0


class Blob(BaseModel):
    data: bytes
    parts: dict[str, bytes] = {}


class Hexed(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex", ser_json_bytes="hex")
    data: bytes


@dataclass
class Line:
    start: Point
    more: list[Point] = field(default_factory=list)


class Address(TypedDict):
    city: str
    zip: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str = "right"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    ZERO = 0
    ONE = 1


class Size(enum.StrEnum):
    SMALL = "small"


class Page(BaseModel, Generic[Item]):
    items: list[Item]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    id: UUID
    colour: Colour
    numbers: set[int]


class Renamed(BaseModel):
    first_name: str = Field(alias="firstName")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Careless(BaseModel):
    model_config = ConfigDict(extra="ignore")
    x: int


class Deep(BaseModel):
    here: Point
    listed: list[Point]
    named: dict[str, Point]
    paired: tuple[Point, Point]
    maybe: Point | None = Field(default=None, description="Perhaps a point.")


A_UUID = "123e4567-e89b-12d3-a456-426614174000"
POINT: dict[str, Any] = {"x": 1}
Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

TYPES: list[tuple[Any, Any, Any]] = [
    # type, what is sent, what the function sees
    (str, "10", "10"),
    (int, 10, 10),
    (int, 1.0, 1),
    (int, 2**70, 2**70),
    (int, 1e19, 10**19),
    (list[int | None], [None, 1e19], [None, 10**19]),
    (float, 10, 10.0),
    (float, 1e308, 1e308),
    (bool, True, True),
    (None, None, None),
    (Any, {"any": [1, None]}, {"any": [1, None]}),
    (object, "thing", "thing"),
    (JsonValue, {"any": [1, None]}, {"any": [1, None]}),
    (Point, POINT, Point(x=1)),
    (Line, {"start": POINT, "more": [POINT]}, Line(Point(x=1), [Point(x=1)])),
    (Address, {"city": "Paris"}, {"city": "Paris"}),
    (Pair, [1], Pair(1, "right")),
    (Pair, [1, "r"], Pair(1, "r")),
    (Colour, "blue", Colour.BLUE),
    (Level, 1, Level.ONE),
    (Size, "small", Size.SMALL),
    (Literal["a", 1, None], 1, 1),
    (Literal["a", 1, None], None, None),
    (Literal[Size.SMALL], "small", Size.SMALL),
    (Optional[int], None, None),  # noqa: UP045
    (Optional[int], 5, 5),  # noqa: UP045
    (int | str, "5", "5"),
    (int | str, 5, 5),
    (Cat | Dog, {"kind": "dog", "tricks": []}, Dog(kind="dog", tricks=[])),
    (Pet, {"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9)),
    (date, "2025-01-31", date(2025, 1, 31)),
    (datetime, "2025-01-31T12:00:00Z", datetime(2025, 1, 31, 12, tzinfo=UTC)),
    (AwareDatetime, "2025-01-31T12:00:00+00:00", datetime(2025, 1, 31, 12, tzinfo=UTC)),
    (NaiveDatetime, "2025-01-31T12:00:00", datetime(2025, 1, 31, 12)),
    (time, "09:30", time(9, 30)),
    (time, "09:30:00Z", time(9, 30, tzinfo=UTC)),
    (timedelta, "PT15M", timedelta(minutes=15)),
    (UUID, A_UUID, UUID(A_UUID)),
    (Decimal, "1.50", Decimal("1.50")),
    (Decimal, 1.5, Decimal("1.5")),
    (bytes, "//79", b"\xff\xfe\xfd"),
    (list[bytes | None], ["YWJj", None], [b"abc", None]),
    (Blob, {"data": "/w==", "parts": {"a": "AA=="}}, Blob(data=b"\xff", parts={"a": b"\0"})),
    (Base64Bytes, "YWJj", b"abc"),
    (Base64Bytes, "aGk=", b"hi"),
    (Path, "/tmp/x", Path("/tmp/x")),
    (AnyUrl, "https://example.com/", AnyUrl("https://example.com/")),
    (IPv4Address, "10.0.0.1", IPv4Address("10.0.0.1")),
    (SecretStr, "s", SecretStr("s")),
    (Json[list[int]], "[1]", [1]),
    (list, [1, "a"], [1, "a"]),
    (dict, {"a": 1}, {"a": 1}),
    (list[list[Point]], [[POINT]], [[Point(x=1)]]),
    (dict[str, list[Point]], {"a": [POINT]}, {"a": [Point(x=1)]}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (Sequence[int], [1, 2], [1, 2]),
    (Mapping[str, int], {"a": 1}, {"a": 1}),
    (set[int], [1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (collections.deque[int], [1], collections.deque([1])),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (Page[Point], {"items": [POINT]}, Page[Point](items=[Point(x=1)])),
    (Page[date], {"items": ["2025-01-31"]}, Page[date](items=[date(2025, 1, 31)])),
    (UserId, 7, 7),
    (Names, ["Ada"], ["Ada"]),
    (
        Strict,
        {"day": "2025-01-31", "id": A_UUID, "colour": "red", "numbers": [1]},
        Strict(day=date(2025, 1, 31), id=UUID(A_UUID), colour=Colour.RED, numbers={1}),
    ),
    (Renamed, {"firstName": "Ada"}, Renamed(firstName="Ada")),
    (Open, {"x": 1, "odd": 2}, Open.model_validate({"x": 1, "odd": 2})),
    (Careless, {"x": 1, "odd": 2}, Careless(x=1)),
    (
        Deep,
        {"here": POINT, "listed": [POINT], "named": {"a": POINT}, "paired": [POINT, POINT]},
        Deep(here=Point(x=1), listed=[Point(x=1)], named={"a": Point(x=1)}, paired=(Point(x=1), Point(x=1))),
    ),
    (Annotated[int, Field(ge=1, le=3, multiple_of=2)], 2, 2),
    (Annotated[str, StringConstraints(pattern="^a+$", max_length=3)], "aa", "aa"),
    (Annotated[list[int], Field(min_length=1)], [1], [1]),
]
"""Each goes through `received`, and its schema through the tests of schemas."""

NOT_THAT: list[tuple[Any, Any, str]] = [
    # type, what is sent, what a model is told of `value` (or of what is in it)
    (int, "10", "value: Must be a whole number"),
    (int, True, "value: Must be a whole number"),
    (int, 1.5, "value: Must be a whole number"),
    (float, "10", "value: Must be a number"),
    (bool, 1, "value: Must be true or false"),
    (str, 10, "value: Must be a string"),
    (Point, {}, "value.x: Is required"),
    (Point, {"x": "1"}, "value.x: Must be a whole number"),
    (Line, {"start": POINT, "more": [POINT, {}]}, "value.more[1].x: Is required"),
    (Point, {"x": 1, "odd": 1}, "value.odd: Is not a known parameter"),
    (Line, {"start": POINT, "odd": 1}, "value.odd: Is not a known parameter"),
    (Address, {"zip": "75001"}, "value.city: Is required"),
    (Pair, {"left": 1}, "value: Must be an array"),
    (Pair, [], "value: Must have at least 1 item"),
    (Optional[int], "x", "value: Must be a whole number or null"),  # noqa: UP045
    (date, "31.1.2025", "value: Must be a date such as 2025-01-31"),
    (datetime, "2025-01-31T12:00:00", "value: Must be a date and time such as 2025-01-31T12:00:00Z"),
    (time, "nine", "value: Input should be in a valid time format, input is too short"),
    (UUID, "7", "value: Must be a UUID"),
    (Decimal, "a lot", "value: Input should be a valid decimal"),
    (dict[int, str], {"a": "b"}, "value"),
    (dict[int, str], {"1.5": "b"}, "value"),
    (set[int], [1, 1], "value: Must not have the same item twice"),
    (tuple[int, str], [1], "value: Must have at least 2 items"),
    (Annotated[int, Field(ge=1)], 0, "value: Must be at least 1"),
    (Annotated[int, Field(gt=1)], 1, "value: Must be greater than 1"),
    (Annotated[int, Field(multiple_of=2)], 3, "value: Must be a multiple of 2"),
    (Annotated[str, Field(min_length=2)], "a", "value: Must have at least 2 characters"),
    (Annotated[str, StringConstraints(pattern="^a+$")], "b", "value: Must match the pattern ^a+$"),
    (Literal["a"], "b", "value: Must be "),
]


@pytest.mark.parametrize(("type_", "sent", "seen"), TYPES, ids=named)
def test_what_is_sent_reaches_the_function_as_its_type(type_: Any, sent: Any, seen: Any) -> None:
    got = received(type_, sent)
    assert got == seen
    assert type(got) is type(seen)


@pytest.mark.parametrize(("type_", "sent", "told"), NOT_THAT, ids=named)
def test_what_does_not_fit_its_type_is_refused_by_name(type_: Any, sent: Any, told: str) -> None:
    function, seen = taking(type_)
    with pytest.raises(InvalidInput) as refusal:
        ask(function, {"value": sent})
    assert told in [f"{p.path}: {p.sentence}"[: len(told)] for p in refusal.value.problems]
    assert seen == []


def all_types() -> list[Any]:
    return [type_ for type_, *_ in TYPES]


@pytest.mark.parametrize("type_", all_types(), ids=named)
def test_no_schema_holds_a_reference(type_: Any) -> None:
    tool = listed(taking(type_)[0])
    words = set(words_in([tool["input_schema"], listed(giving(type_, None))["output_schema"]]))
    assert not words & {"$ref", "$defs", "definitions", "discriminator"}
    assert tool["input_schema"]["additionalProperties"] is False
    assert tool["input_schema"]["required"] == ["value"]


RESULTS: list[tuple[Any, Any, Any]] = [
    # what the function says it returns, what it returns, what the client gets
    (Point, Point(x=1), {"x": 1, "y": 0}),
    (Point, {"x": 1}, {"x": 1}),
    (Line, Line(Point(x=1)), {"start": {"x": 1, "y": 0}, "more": []}),
    (Address, {"city": "Paris"}, {"city": "Paris"}),
    (Pair, Pair(1), [1, "right"]),
    (Colour, Colour.RED, "red"),
    (Level, Level.ONE, 1),
    (list[Point], [Point(x=1)], [{"x": 1, "y": 0}]),
    (Page[Point], Page[Point](items=[Point(x=1)]), {"items": [{"x": 1, "y": 0}]}),
    (Renamed, Renamed(firstName="Ada"), {"firstName": "Ada"}),
    (Cat | Dog, Dog(kind="dog", tricks=["sit"]), {"kind": "dog", "tricks": ["sit"]}),
    (date, date(2025, 1, 31), "2025-01-31"),
    (datetime, datetime(2025, 1, 31, tzinfo=UTC), "2025-01-31T00:00:00Z"),
    (NaiveDatetime, datetime(2025, 1, 31), "2025-01-31T00:00:00"),
    (time, time(9, 30), "09:30:00"),
    (timedelta, timedelta(minutes=15), "PT15M"),
    (timedelta, timedelta(seconds=0.5), "PT0.5S"),
    (timedelta, timedelta(days=-1), "-P1D"),
    (timedelta, timedelta(days=400, hours=1), "P1Y35DT1H"),
    (UUID, UUID(A_UUID), A_UUID),
    (Decimal, Decimal("1.50"), "1.50"),
    (Decimal, Decimal("1E+3"), "1E+3"),
    (bytes, b"\xff\xfe\xfd", "//79"),
    (list[bytes | None], [b"abc", None], ["YWJj", None]),
    (Blob, Blob(data=b"\xff", parts={"a": b"\0"}), {"data": "/w==", "parts": {"a": "AA=="}}),
    (Base64Bytes, b"\xff", "/w=="),
    (Path, Path("/tmp/x"), "/tmp/x"),
    (set[int], {1}, [1]),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (dict[int, date], {1: date(2025, 1, 31)}, {"1": "2025-01-31"}),
    (int | None, None, None),
    (Annotated[int, "How many."], 3, 3),
    (Any, Point(x=1), {"x": 1, "y": 0}),
    (float, 3, 3),
]


@pytest.mark.parametrize(("type_", "value", "got"), RESULTS, ids=named)
def test_a_typed_result_reaches_the_client_as_json(type_: Any, value: Any, got: Any) -> None:
    assert ask(giving(type_, value)) == got


class Doubled(BaseModel):
    x: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.x * 2


def test_a_computed_field_is_in_the_result_and_its_schema() -> None:
    assert ask(giving(Doubled, Doubled(x=2))) == {"x": 2, "twice": 4}
    assert listed(giving(Doubled, None))["output_schema"]["required"] == ["x", "twice"]


class Anything(BaseModel):
    anything: Any = None
    maybe: float | None = None


BROKEN: list[tuple[Any, Any]] = [
    (Anything, Anything(anything=[float("nan")])),
    (Anything, Anything(maybe=float("inf"))),
    (list[Anything], [Anything(anything={"deep": float("-inf")})]),
    (dict[str, Any], {"a": {"b": float("nan")}}),
    (int, "1"),
    (int, 1.5),
    (int, True),
    (str, 1),
    (bool, 1),
    (float, float("inf")),
    (list[float], [float("nan")]),
    (Any, {"deep": [float("inf")]}),
    (None, 3),
    (int | None, "x"),
    (Point, {"x": "1"}),
    (Point, None),
    (Address, {}),
    (Literal["a"], "b"),
    (Annotated[int, Field(ge=5)], 3),
    (Any, object()),
]


@pytest.mark.parametrize(("type_", "value"), BROKEN, ids=named)
def test_a_result_that_breaks_its_schema_is_a_failure_of_the_tool(type_: Any, value: Any) -> None:
    with pytest.raises(ToolError) as failure:
        ask(giving(type_, value))
    assert failure.value.message == "Kit.Tried failed unexpectedly"
    assert failure.value.can_retry is False
    assert failure.value.developer_message is None


def test_a_broken_result_is_logged_with_its_path(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ToolError):
        ask(giving(list[Point], [{"x": 1}, {"x": "two"}]))
    assert "[1].x: Must be a whole number" in caplog.text
    assert "Kit.Tried@1.0.0" in caplog.text


def test_nothing_no_type_and_a_type_are_three_output_schemas() -> None:
    def untyped():  # type: ignore[no-untyped-def]
        return {"any": "thing"}

    assert listed(giving(None, None))["output_schema"] is None
    assert listed(untyped)["output_schema"] == {}
    assert listed(giving(float, 1.0))["output_schema"] == {"type": "number"}
    assert ask(untyped) == {"any": "thing"}
    assert ask(giving(None, None)) is None


# --- constraints and validators ------------------------------------------------------------------


def test_constraints_are_in_the_schema() -> None:
    assert schema_of(Annotated[int, Field(ge=1, lt=9)]) == {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}
    assert schema_of(Annotated[str, Field(min_length=1, pattern="^a")]) == {
        "type": "string",
        "minLength": 1,
        "pattern": "^a",
    }


def test_what_a_key_must_look_like_is_in_the_schema() -> None:
    assert schema_of(dict[int, str])["propertyNames"] == {"pattern": "^-?[0-9]+$"}
    assert schema_of(dict[date, str])["propertyNames"] == {"format": "date"}
    assert "propertyNames" not in schema_of(dict[str, str])


def test_a_schema_has_no_titles_made_from_names() -> None:
    function, _ = taking(Deep)
    schema = tool_of(function).input_schema
    assert "title" not in schema
    assert "title" not in schema["properties"]["value"]["properties"]["here"]["properties"]["x"]


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


def positive(value: int) -> int:
    if value <= 0:
        raise AssertionError("must be positive")
    return value


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, value: int) -> int:
        return even(value)

    @model_validator(mode="after")
    def is_not_four(self) -> "Even":
        if self.number == 4:
            raise ValueError("four is taken")
        return self


@pytest.mark.parametrize(
    ("type_", "sent", "path", "sentence"),
    [
        (Annotated[int, AfterValidator(even)], 3, "value", "must be even"),
        (Annotated[int, AfterValidator(positive)], -3, "value", "must be positive"),
        (Even, {"number": 3}, "value.number", "must be even"),
        (Even, {"number": 4}, "value", "four is taken"),
        (list[Even], [{"number": 2}, {"number": 3}], "value[1].number", "must be even"),
        (dict[str, Even], {"a": {"number": 3}}, "value.a.number", "must be even"),
    ],
)
def test_an_authors_validator_refuses_input_by_name(type_: Any, sent: Any, path: str, sentence: str) -> None:
    function, seen = taking(type_)
    with pytest.raises(InvalidInput) as refusal:
        ask(function, {"value": sent})
    assert [(p.path, p.sentence) for p in refusal.value.problems] == [(path, sentence)]
    assert seen == []


# --- types that contain themselves ---------------------------------------------------------------


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


Nested = TypeAliasType("Nested", "list[Nested] | int")


@pytest.mark.parametrize(("type_", "name"), [(Tree, "Tree"), (list[Tree], "Tree"), (Nested, "Nested")])
def test_a_recursive_type_is_refused_by_its_name(type_: Any, name: str) -> None:
    for function in (taking(type_)[0], giving(type_, None)):
        with pytest.raises(DefinitionError, match=f"uses the type {name}, which contains itself.*recursion"):
            tool_of(function)


def test_a_recursive_type_may_be_left_open() -> None:
    function, seen = taking(Tree)
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": []}]}]}
    ask(function, {"value": tree}, recursion="open")
    assert seen == [Tree.model_validate(tree)]
    schema = tool_of(function, recursion="open").input_schema["properties"]["value"]
    assert schema["properties"]["children"]["items"] == {}
    assert ask(giving(Tree, Tree(name="a")), recursion="open") == {"name": "a", "children": []}


def test_the_same_type_twice_is_not_recursive() -> None:
    function, _ = taking(tuple[Point, Point])
    assert tool_of(function).input_schema["properties"]["value"]["prefixItems"][1]["title"] == "Point"


# --- names in a schema that look like its keywords -----------------------------------------------


class Keywords(BaseModel):
    default: Point
    enum: Point
    const: Point
    examples: list[Point]
    discriminator: Point
    reference: Point = Field(alias="$ref")
    definitions: Point = Point(x=0)


def test_a_members_name_may_be_a_keyword_of_json_schema() -> None:
    names = ("default", "enum", "const", "discriminator", "$ref")
    sent = dict.fromkeys(names, POINT) | {"examples": [POINT]}
    assert received(Keywords, sent).discriminator == Point(x=1)
    properties = schema_of(Keywords)["properties"]
    assert all(properties[name]["title"] == "Point" for name in names)
    assert properties["examples"]["items"]["title"] == "Point"


def test_data_in_a_schema_is_left_as_it_is() -> None:
    data = {"discriminator": "kind", "$ref": "#/$defs/None", "properties": 3}
    schema = schema_of(Annotated[dict[str, Any], Field(examples=[data])])
    assert schema["examples"] == [data]


class Standard(typing.TypedDict):
    city: str


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on, typing's own is fine")
def test_typings_own_typed_dict_is_refused_in_one_sentence() -> None:
    cases = ((taking(list[Standard])[0], "for parameter 'value'"), (giving(Standard, {}), "as its result"))
    for function, where in cases:
        with pytest.raises(DefinitionError, match=rf"{where}: .*typing_extensions\.TypedDict") as refusal:
            tool_of(function)
        assert "\n" not in str(refusal.value)


def test_a_subclass_of_a_plain_type_is_a_result() -> None:
    kit = Toolkit("Subclasses")

    class Colour(enum.StrEnum):
        RED = "red"

    class Metres(float):
        pass

    @kit.tool
    async def colour() -> str:
        """Returns a string that is more than one."""
        return Colour.RED

    @kit.tool
    async def metres() -> float:
        """Returns a float that is more than one."""
        return Metres(1.5)

    assert call(kit, "Subclasses.Colour") == "red"
    assert call(kit, "Subclasses.Metres") == 1.5


# --- bytes ---------------------------------------------------------------------------------------


def test_bytes_are_base64_by_their_schema() -> None:
    kit = Toolkit("Kit")

    @kit.tool
    def turn(data: Annotated[bytes, Field(min_length=1, max_length=4)], more: bytes = b"\xff") -> bytes:
        """Turns them around."""
        return (data + more)[::-1]

    tool = kit.tools[0]
    assert tool.input_schema["properties"] == {
        "data": {"type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 8},
        "more": {"type": "string", "contentEncoding": "base64", "default": "/w=="},
    }
    assert tool.output_schema == {"type": "string", "contentEncoding": "base64"}
    assert call(kit, "Kit.Turn", {"data": "AAE="}) == "/wEA"
    for wrong, said in (("AAEAA", "Base64"), ("A-_=", "Base64"), ("not it!!", "Base64"), ("AAECAwQF", "4 bytes")):
        with pytest.raises(InvalidInput) as refused:
            call(kit, "Kit.Turn", {"data": wrong})
        assert said in refused.value.problems[0].sentence


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [(Hexed, {"data": "ff"}, Hexed(data=b"\xff")), (Base64Bytes, "YWJj", b"abc")],
)
def test_who_says_how_bytes_look_is_heard(type_: Any, text: Any, value: Any) -> None:
    kit = Toolkit("Kit")

    def same(a: Any) -> Any:
        """Gives it back."""
        assert a == value
        return a

    same.__annotations__ = {"a": type_, "return": type_}
    kit.tool(same)
    assert str(call(kit, "Kit.Same", {"a": text})).strip() in (str(text), f"{text}\n")
