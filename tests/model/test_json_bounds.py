"""What a JSON text may have a decoder build is found before it is decoded, exactly, whatever stands in its strings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.model.json_bounds import JsonBounds

VALUES = 100
DIGITS = 40
BOUNDS = JsonBounds(depth=64, values=VALUES, digits=DIGITS)
TRICKY = st.text(alphabet='[]{},:0123456789"\\ ä', max_size=200)


def what(text: str | bytes, bounds: JsonBounds = BOUNDS) -> str | None:
    excess = bounds.excess(text if isinstance(text, bytes) else text.encode())
    return None if excess is None else excess.what


@pytest.mark.parametrize("item", ["[]", "{}", "[ ]", "1", '""', "null", "0.5", '"[,]"', '"\\"[[[["'])
@pytest.mark.parametrize("separator", [",", " ,\n "])
def test_as_many_values_as_may_be_are_let_through_and_one_more_is_not(item: str, separator: str) -> None:
    assert what(f"[{separator.join([item] * (VALUES - 1))}]") is None
    assert what(f"[{separator.join([item] * VALUES)}]") == "has too many values"


@pytest.mark.parametrize("shape", ['{{"a": {}}}', "[[[{}]]]", '[{{"a": 1, "b": [2, {}]}}]'])
def test_values_count_at_every_level(shape: str) -> None:
    most = VALUES - count(json.loads(shape.format("[1]"))) + 1
    assert what(shape.format(json.dumps(list(range(most))))) is None
    assert what(shape.format(json.dumps(list(range(most + 1))))) == "has too many values"


def test_a_number_has_so_many_digits_and_a_text_any_number() -> None:
    for around in ("{}", "[1, {}]", '{{"a": -{}}}', "[" * 64 + "{}" + "]" * 64, "[0.{}]", "[1e{}]"):
        assert what(around.format("7" * DIGITS)) is None
        assert what(around.format("7" * (DIGITS + 1))) == "has a number that is too long"
    assert what(json.dumps({"text": "7" * 1000, "escaped": '"' + "7" * 1000})) is None
    assert what(json.dumps([["x"]] * 40 + ["7" * 1000])) is None


def test_what_is_nested_too_deeply_is_still_found() -> None:
    assert what("[" * 64 + "]" * 64) is None
    assert what("[" * 65 + "]" * 65) == "is nested too deeply"


def test_ordinary_large_data_is_let_through() -> None:
    row = {f"column{number}": number / 7 for number in range(10)}
    ample = JsonBounds()
    assert what(json.dumps([number / 7 for number in range(100_000)]), ample) is None
    assert what(json.dumps([row] * 20_000), ample) is None
    assert what(json.dumps({"prose": "one, two, [three], " * 200_000}), ample) is None
    assert what(b"[" + b"[]," * 1_300_000 + b"[]]", ample) == "has too many values"
    assert what(b"[" + (b"9" * 4000 + b",") * 1000 + b"9]", ample) == "has a number that is too long"


@given(st.recursive(TRICKY | st.integers(0, 10**30), lambda inner: st.lists(inner) | st.dictionaries(TRICKY, inner)))
def test_the_count_is_exact(value: Any) -> None:
    values = count(value)
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert JsonBounds(500, values).excess(text.encode()) is None
        if values > 1:
            assert what(text, JsonBounds(500, values - 1)) == "has too many values"


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))
