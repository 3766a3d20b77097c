"""Annotations that are text until somebody asks: `from __future__ import annotations`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from toolyard import Context, Hidden
from toolyard.model.errors import DefinitionError

from .trying import ask, listed, tool_of


class Later(BaseModel):
    day: date
    more: list[Later] | None = None


@dataclass
class Day:
    day: date


def test_postponed_annotations_are_read() -> None:
    def tried(
        ctx: Context,
        day: Day,
        secret: Annotated[str, Hidden, "Hush."],
        limit: Annotated[int, Field(ge=1)] = 3,
    ) -> Day:
        """Goes to the next day."""
        return Day(date.fromordinal(day.day.toordinal() + limit))

    assert ask(tried, {"day": {"day": "2025-01-31"}, "secret": "x"}) == {"day": "2025-02-03"}
    properties = listed(tried)["input_schema"]["properties"]
    assert list(properties) == ["day", "secret", "limit"]
    assert properties["secret"] == {"type": "string", "description": "Hush.", "x-non-inferrable": True}
    assert properties["limit"]["minimum"] == 1


def test_a_postponed_recursive_type_is_refused_too() -> None:
    def tried(value: Later) -> None:
        """Tries."""

    with pytest.raises(DefinitionError, match="Later, which contains itself"):
        tool_of(tried)


def test_a_type_of_the_enclosing_function_cannot_be_found() -> None:
    class Inner(BaseModel):
        x: int

    def tried(value: Inner) -> None:
        """Tries."""

    with pytest.raises(DefinitionError, match="'Inner' is not defined; define it at the top of the module"):
        tool_of(tried)
