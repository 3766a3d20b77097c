"""What pydantic finds wrong with a value, as sentences that a model or a person can act on."""

from typing import Any

from pydantic import ValidationError

from ..model.errors import Problem, path_of

MOST_PROBLEMS = 20


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    if error.error_count() > MOST_PROBLEMS:
        return (Problem("", f"{error.error_count()} values are not valid"),)
    return tuple(_problem(each) for each in error.errors(include_url=False, include_context=False))


def in_one_line(error: ValidationError) -> str:
    """`age: Input should be a valid integer; name: Field required`."""
    problems = problems_of(error)
    return "; ".join(f"{each.path}: {each.sentence}" if each.path else each.sentence for each in problems)


def _problem(error: Any) -> Problem:
    sentence = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return Problem(path_of(error["loc"]), sentence, got=error.get("input"), missing=error["type"] == "missing")
