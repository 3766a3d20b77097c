"""The first part of JSON is JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.wires.model_text import ModelText, cut_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


@given(values, st.booleans(), st.integers(0, 400))
def test_wherever_it_is_cut_it_can_be_read(value: Any, ascii: bool, size: int) -> None:
    cut = cut_json(json.dumps(value, ensure_ascii=ascii)[:size])
    assert len(cut) <= max(4, 2 * size)
    json.loads(cut)


@pytest.mark.parametrize(
    ("start", "cut"),
    [
        ('{"a": [1, 2, 3', '{"a": [1, 2]}'),
        ('{"text":"all wo', '{"text":"all wo"}'),
        ('{"text":"all\\u00', '{"text":"all"}'),
        ('{"text":"\\ud83d\\u', '{"text":""}'),
        ('{"a": 1, "text":', '{"a": 1}'),
        ('{"a": 1, "te', '{"a": 1}'),
        ("123", "null"),
    ],
)
def test_what_was_begun_is_closed(start: str, cut: str) -> None:
    assert cut_json(start) == cut


@pytest.mark.parametrize("safe_text", ["off", "escape", "flag"])
def test_a_preview_of_json_is_json_and_says_that_it_is_one(safe_text: Any) -> None:
    text = json.dumps({"rows": ["\u202e" + "x" * 50] * 100}, ensure_ascii=False)
    told = ModelText(safe_text, 1000).text(text, is_json=True)
    shown = json.loads(told.with_end("All of it is elsewhere."))
    assert shown["toolyard/preview"].endswith(f" of {len(text.encode())} bytes. All of it is elsewhere.")
    assert shown["value"]["rows"][0] == "\u202e" + "x" * 50
    assert len(told.text.encode()) <= 1010
