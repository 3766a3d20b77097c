"""The example call that `serve` prints is one that the tool takes."""

from datetime import date, datetime, time, timedelta
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, HttpUrl, NaiveDatetime

from toolyard.cli.support.example_input import example_input

from ..authoring.trying import ask, taking, tool_of


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 0


class Point(BaseModel):
    x: int
    y: float = 0.0


class Line(BaseModel):
    start: Point
    colour: Colour
    more: list[Point]


TYPES: list[Any] = [
    str, int, float, bool, None, Any, date, datetime, NaiveDatetime, time, timedelta, UUID, HttpUrl, Colour, Level,
    Point, Line, list, dict, list[int], list[Line], dict[str, int], set[int], tuple[int, str], tuple[Point, ...],
    int | None, Point | str, Literal["it's"], Literal[1, "a"],
    Annotated[int, Field(ge=5)],
    Annotated[int, Field(gt=5)],
    Annotated[int, Field(le=-5)],
    Annotated[int, Field(lt=-5)],
    Annotated[int, Field(ge=3, le=3)],
    Annotated[int, Field(gt=0, lt=100, multiple_of=7)],
    Annotated[int, Field(ge=15, multiple_of=10)],
    Annotated[float, Field(gt=0, lt=1)],
    Annotated[float, Field(ge=0.5, le=0.7)],
    Annotated[float, Field(lt=0)],
    Annotated[str, Field(min_length=9)],
    Annotated[str, Field(max_length=2)],
    Annotated[str, Field(pattern="^[a-z]+$")],
    Annotated[str, Field(examples=["a-1"], pattern="^[a-z]-[0-9]$")],
    Annotated[list[int], Field(min_length=3)],
]  # fmt: skip


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_an_example_fits_its_schema(type_: Any) -> None:
    function, seen = taking(type_)
    ask(function, example_input(tool_of(function).input_schema))
    assert len(seen) == 1


def test_an_example_holds_what_is_required_and_no_more() -> None:
    def tried(a: int, b: str, c: int = 3) -> None:
        """Tries."""

    assert example_input(tool_of(tried).input_schema) == {"a": 1, "b": "hello"}
