"""Turns pydantic's errors into sentences that a model or a person can act on."""

from typing import Any

from pydantic import ValidationError

from ..model.errors import Problem, path_of

MOST_PROBLEMS = 20
"""More than these are only counted: a long list of wrong items helps nobody, and costs time and room."""


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    """A problem for each error that pydantic found."""
    if error.error_count() > MOST_PROBLEMS:
        return (Problem("", f"{error.error_count()} values are not valid"),)
    return tuple(_problem(each) for each in error.errors(include_url=False, include_context=False))


def in_one_line(error: ValidationError) -> str:
    """All problems as one line: `age: Input should be a valid integer; name: Field required`."""
    problems = problems_of(error)
    return "; ".join(f"{each.path}: {each.sentence}" if each.path else each.sentence for each in problems)


def _problem(error: Any) -> Problem:
    sentence = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return Problem(path_of(error["loc"]), sentence, got=error.get("input"), missing=error["type"] == "missing")
