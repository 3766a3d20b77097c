"""JSON as strangers write it."""

import ast
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolyard
from toolyard.model import json_value
from toolyard.model.json_value import canonical_number, decode, decode_as

SOURCE = Path(toolyard.__file__).parent
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**320), 10**320)


@given(NUMBERS)
def test_numbers_are_read_as_msgspec_reads_them(number: int | float) -> None:
    written = msgspec.json.encode([number])
    for read in (decode(written), decode_as(written, list[Any])):
        assert read == [number] == msgspec.json.decode(written)
        assert type(read[0]) is type(number)


@pytest.mark.parametrize("written", [b"[1e999]", b'{"a":[-1e999]}', b"1e309"])
def test_what_is_no_number_is_refused_in_the_same_words(written: bytes) -> None:
    with pytest.raises(msgspec.ValidationError) as ours:
        decode(written)
    with pytest.raises(msgspec.ValidationError) as theirs:
        msgspec.json.decode(written)
    assert str(ours.value) == str(theirs.value)


@given(NUMBERS, NUMBERS)
def test_numbers_have_the_same_spelling_where_they_are_equal(one: int | float, other: int | float) -> None:
    for number in (one, other):
        if number == number // 1:
            assert repr(canonical_number(number)) == repr(canonical_number(int(number)))
    assert (repr(canonical_number(one)) == repr(canonical_number(other))) is (one == other)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_float_becomes_an_integer_of_many_digits(number: float) -> None:
    """Each of which takes time: a body of them is written out as two hundred megabytes."""
    assert len(str(canonical_number(number))) < 25


def decoders_in(path: Path) -> list[str]:
    return [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("decode", "Decoder")
        and ast.unparse(node.value) == "msgspec.json"
    ]


def test_nothing_else_decodes_json() -> None:
    """A decoder without the hook takes ten seconds for four megabytes of 1e308."""
    ours = Path(json_value.__file__)
    assert decoders_in(ours)
    assert [found for path in SOURCE.rglob("*.py") if path != ours for found in decoders_in(path)] == []
