"""The listed schema is the rule: what it allows is taken, what it forbids is refused, and nothing else decides."""

import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from toolyard import Toolkit

from .inprocess import InProcess, inprocess

kit = Toolkit("Rich", version="1.0.0")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 0
    HIGH = 1


class Address(BaseModel):
    city: str
    zip: Annotated[str, Field(pattern=r"^[0-9]{5}$")] = "00000"
    lines: list[str] = []


class Point(TypedDict):
    x: float
    y: float


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


def even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


@kit.tool
async def take(
    text: str,
    whole: int = 0,
    number: float = 0.0,
    flag: bool = False,
    between: Annotated[int, Field(ge=-3, lt=7)] = 0,
    step: Annotated[int, Field(multiple_of=3)] = 0,
    short: Annotated[str, Field(min_length=1, max_length=3)] = "x",
    matching: Annotated[str, Field(pattern=r"^a+b?$")] = "a",
    colour: Colour = Colour.RED,
    level: Level = Level.LOW,
    choice: Literal["a", 1, True, None] = "a",
    day: date | None = None,
    moment: datetime | None = None,
    length: timedelta | None = None,
    id: UUID | None = None,
    either: int | str | None = None,
    several: Annotated[list[int], Field(max_length=3)] = [],  # noqa: B006
    once: set[str] = set(),  # noqa: B006
    pair: tuple[int, str] = (0, ""),
    named: dict[str, float] = {},  # noqa: B006
    anything: Any = None,
    address: Address | None = None,
    points: list[Point] = [],  # noqa: B006
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None,
    union: list[int] | dict[str, int] | Address = [],  # noqa: B006
) -> str:
    """Takes everything."""
    return "taken"


@kit.tool
async def take_even(number: Annotated[int, AfterValidator(even)]) -> str:
    """Takes what its author's own validator allows."""
    return "taken"


NAMES = [name for name in take.__annotations__ if name != "return"]
texts = st.sampled_from(
    ["", "a", "ab", "aab", "red", "cat", "dog", "abcd", "12345", "ä", "🙂🙂🙂", "é\u0301"]
) | st.text(max_size=6)
numbers = (
    st.sampled_from([0, 1, -1, 3, 6, 7, -3, 9, 10, 0.0, 1.0, 2.5, -0.0, 0.1, 1e22, 2**53, 2**63, -(2**64), 10**30])
    | st.integers(-20, 20)
    | st.floats(-20, 20)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
times = st.sampled_from(
    [
        "2025-01-31",
        "2025-02-30",
        "20250131",
        "2025-01-31T12:00:00Z",
        "2025-01-31T12:00:00",
        "2025-01-31T12:00:00.123456+02:00",
        "2025-01-31 12:00:00Z",
        "1738324800",
        "PT15M",
        "P1DT2H",
        "P1W",
        "15 minutes",
        "00:15:00",
        "12345678-1234-5678-1234-567812345678",
        "12345678123456781234567812345678",
        "{12345678-1234-5678-1234-567812345678}",
        "urn:uuid:12345678-1234-5678-1234-567812345678",
    ]
)
names = st.sampled_from(["city", "zip", "lines", "x", "y", "kind", "lives", "name", "a"]) | st.text(max_size=3)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | times,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=6,
)
likely = {
    "address": st.fixed_dictionaries(
        {"city": texts}, optional={"zip": texts, "lines": st.lists(texts), "more": values}
    ),
    "points": st.lists(st.fixed_dictionaries({"x": numbers, "y": numbers}, optional={"z": values}), max_size=3),
    "pet": st.fixed_dictionaries(
        {"kind": st.sampled_from(["cat", "dog", "cow"])}, optional={"lives": numbers, "name": texts}
    ),
    "pair": st.tuples(numbers, texts).map(list),
    "once": st.lists(texts, max_size=4),
    "several": st.lists(numbers, max_size=4),
    "named": st.dictionaries(texts, numbers, max_size=3),
    "union": st.lists(numbers, max_size=3) | st.dictionaries(texts, numbers, max_size=3),
    "matching": st.from_regex(r"\Aa+b?\Z"),
    "length": st.from_regex(r"\AP([1-9]D)?(T[1-9]H)?\Z") | times,
    "id": st.uuids().map(str) | times,
    "day": st.dates().map(str) | times,
    "moment": st.datetimes().map(lambda moment: moment.isoformat() + "Z") | times,
}


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, Any]:
    """A few parameters with values that may or may not be theirs."""
    chosen = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    made = {name: draw(likely.get(name, values) | values) for name in chosen}
    if draw(st.integers(0, 9)):
        made.setdefault("text", draw(texts))
    if not draw(st.integers(0, 19)):
        made[draw(st.text(max_size=3))] = draw(values)
    assume(not _is_coarse(made.get("step")))
    return made


def _is_coarse(value: Any) -> bool:
    """A float of which the judge itself does not know what it is a multiple of."""
    return isinstance(value, float) and abs(value) > 2**53


@pytest.fixture(scope="module")
def app() -> Iterator[InProcess]:
    with inprocess(kit) as app:
        yield app


@pytest.fixture(scope="module")
def listed(app: InProcess) -> dict[str, Any]:
    items = app.request("GET", "/oxp/tools").json["items"]
    return {item["name"]: jsonschema_rs.validator_for(item["input_schema"], validate_formats=True) for item in items}


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(input=inputs())
@example(input={"text": "", "whole": 1.0})
@example(input={"text": "", "choice": 1.0})
@example(input={"text": "", "level": 1.0})
@example(input={"text": "", "moment": "2025-01-31T12:00:00"})
@example(input={"text": "", "day": "1738324800"})
def test_a_call_is_refused_exactly_when_the_listed_schema_says_so(
    app: InProcess, listed: dict[str, Any], input: dict[str, Any]
) -> None:
    text = json.dumps({"tool_id": "Rich.Take", "input": input})
    allowed = listed["Rich_Take"].is_valid(json.loads(text)["input"])
    reply = app.request("POST", "/tools/call", text.encode())
    assert reply.status == (200 if allowed else 422), (input, reply.body)
    if allowed:
        assert reply.json["value"] == "taken", (input, reply.body)
    else:
        assert reply.json["parameter_errors"], (input, reply.body)


@settings(max_examples=200, deadline=None)
@given(number=st.integers(-100, 100) | numbers)
def test_an_authors_own_validator_is_the_only_other_judge(
    app: InProcess, listed: dict[str, Any], number: float
) -> None:
    reply = app.call("Rich.TakeEven", {"number": number})
    allowed = listed["Rich_TakeEven"].is_valid({"number": number})
    taken = allowed and number % 2 == 0
    assert reply.status == (200 if taken else 422), reply
    if allowed and not taken:
        assert reply.json["parameter_errors"] == {"number": "must be even"}


def known(name: str) -> str:
    return {"a": "b"}[name]


@kit.tool
async def take_these(
    whole: int = 0,
    keyed: dict[int, str] | None = None,
    name: Annotated[str, AfterValidator(known)] = "a",
) -> bool:
    """Takes what is hard to take."""
    return True


@pytest.mark.parametrize(
    ("input", "status"),
    [({"whole": 1e19}, 200), ({"keyed": {"a": "x"}}, 422), ({"keyed": {"-7": "x"}}, 200), ({"name": "c"}, 200)],
    ids=["a whole float beyond 64 bits", "a key that is no number", "a key that is one", "a validator that raises"],
)
def test_these_are_taken_as_the_schema_says(app: InProcess, input: dict[str, Any], status: int) -> None:
    """The last is a failure of the tool, and so it is the tool's answer."""
    assert app.call("Rich.TakeThese", input).status == status
