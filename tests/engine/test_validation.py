"""The sentences about input that does not fit."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic.functional_validators import AfterValidator

from toolyard import InvalidInput, Toolkit
from toolyard.runners.validation import MOST_PROBLEMS, SMALL
from toolyard.testing import call

kit = Toolkit("Kit")


class Address(BaseModel):
    city: str
    zip: Annotated[str, Field(pattern=r"^\d{5}$")] = "00000"


def even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


@kit.tool
async def order(
    address: Address | None = None,
    items: list[Address] | None = None,
    amount: Annotated[int, Field(ge=1, lt=10)] = 1,
    kind: Literal["a", 1] = "a",
    flag: bool = False,
    evens: list[Annotated[int, AfterValidator(even)]] | None = None,
    name: Annotated[str, Field(min_length=1, max_length=5)] = "x",
    numbers: list[int] | int | None = None,
) -> str:
    """Takes an order."""
    return "taken"


def problems(**input: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refusal:
        call(kit, "Kit.Order", input)
    return {problem.path: problem.sentence for problem in refusal.value.problems}


@pytest.mark.parametrize(
    ("input", "said"),
    [
        ({"amount": "10"}, {"amount": "Must be a whole number"}),
        ({"amount": True}, {"amount": "Must be a whole number"}),
        ({"amount": 1.5}, {"amount": "Must be a whole number"}),
        ({"amount": 0}, {"amount": "Must be at least 1"}),
        ({"amount": 10}, {"amount": "Must be less than 10"}),
        ({"kind": "b"}, {"kind": 'Must be one of "a", 1'}),
        ({"kind": True}, {"kind": 'Must be one of "a", 1'}),
        ({"flag": 1}, {"flag": "Must be true or false"}),
        ({"name": ""}, {"name": "Must have at least 1 character"}),
        ({"name": "longer"}, {"name": "Must have at most 5 characters"}),
        ({"unknown": 1, "other": 2}, {"unknown": "Is not a known parameter", "other": "Is not a known parameter"}),
        ({"address": "Paris"}, {"address": "Must be an object or null"}),
        ({"evens": [2, 3]}, {"evens[1]": "must be even"}),
    ],
)
def test_a_sentence_says_what_is_expected(input: dict[str, Any], said: dict[str, str]) -> None:
    assert problems(**input) == said


def test_a_whole_number_may_be_written_as_a_float() -> None:
    assert call(kit, "Kit.Order", {"amount": 2.0}) == "taken"


def test_many_problems_are_cut_short() -> None:
    assert len(problems(**{f"unknown{number}": 1 for number in range(100)})) == MOST_PROBLEMS


def test_a_large_input_is_refused_quickly_by_naming_the_parameter() -> None:
    wrong = ["x"] * (SMALL * 200)
    assert problems(numbers=wrong) == {"numbers": "Does not fit its schema"}
    assert problems(items=[{"city": 1}] * (SMALL * 100), nonsense=1) == {
        "items": "Does not fit its schema",
        "nonsense": "Is not a known parameter",
    }


def test_a_large_input_that_fits_is_taken() -> None:
    assert call(kit, "Kit.Order", {"numbers": list(range(SMALL * 10))}) == "taken"


def test_many_values_that_the_authors_validator_refuses_are_counted() -> None:
    assert problems(evens=[1] * 5000) == {"input": "5000 values are not valid"}
