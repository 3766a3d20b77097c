"""Escapes of addresses are undone as the standard library does it, and quickly whatever the text is."""

import sys
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.text.percent import MOST_PARAMETERS, MOST_UNSURE, parameters, unescaped

PARTS = ("%", "%2", "%2f", "%C3", "%A9", "%zz", "\\", "\\x41", "\\u0041", "u", "x", "a", "4", "é", "😀", "/", "\n")


@given(st.lists(st.sampled_from(PARTS), max_size=MOST_UNSURE).map("".join))
def test_it_is_what_unquote_gives(text: str) -> None:
    assert unescaped(text) == unquote(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_quoted_comes_back(text: str) -> None:
    assert unescaped(quote(text, safe="")) == text


@pytest.mark.parametrize("part", ["%41", "/%41", "%C3", "%C3%A9", "%zz", "%", "%4", "\\", "é%41"])
def test_the_steps_are_the_same_however_long_the_text_is(part: str) -> None:
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal steps
        steps += 1

    text = part * 4000
    sys.setprofile(count)
    unescaped(text)
    sys.setprofile(None)
    assert steps < 50


def test_a_text_of_many_percent_signs_that_begin_nothing_is_left_as_it_is() -> None:
    assert unescaped("%" * (MOST_UNSURE + 1) + "%41") == "%" * (MOST_UNSURE + 1) + "%41"
    assert unescaped("%41" * 1000) == "A" * 1000


@given(st.lists(st.sampled_from((*PARTS, "=", "&", "+", "%26", "%3D", "%2B", "+")), max_size=MOST_UNSURE).map("".join))
def test_parameters_are_those_of_a_query(query: str) -> None:
    assert parameters(query) == parse_qsl(query, keep_blank_values=True)


def test_there_are_not_many_parameters() -> None:
    assert len(parameters("&".join(["a"] * MOST_PARAMETERS))) == MOST_PARAMETERS
    with pytest.raises(ValueError, match="at most 100 parameters"):
        parameters("&" * MOST_PARAMETERS)
