"""Which characters are hidden, where they are not, and how they are spelled out."""

import json
import re
import sys
import unicodedata

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolyard.model.definition_text import first_unseen
from toolyard.text.hidden import (
    _FINE_SOMEWHERE,
    FINE,
    RANGES,
    escaped,
    escaped_json,
    has_hidden,
    is_hidden_in,
    kinds_of,
    may_be_hidden_in,
)

from .hidden import HIDDEN, SEEN

DRAWN = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
"""Formats that are seen: marks around numbers."""
LINES = {"\n", "\t"}
IN_THE_TABLE = st.sampled_from(RANGES).flatmap(lambda row: st.integers(row[0], row[1])).map(chr)
WRITTEN = st.sampled_from(sorted({letter for text in SEEN.values() for letter in text}))
TEXTS = st.lists(IN_THE_TABLE | WRITTEN | st.characters() | st.sampled_from(sorted(SEEN.values()))).map("".join)
WHOLE = TEXTS.map(lambda text: text.encode(errors="ignore").decode())
"""Without halves of characters, which no JSON can have."""


def test_every_control_and_format_character_of_unicode_is_hidden() -> None:
    unseen = [
        chr(number)
        for number in range(sys.maxunicode + 1)
        if unicodedata.category(chr(number)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and number not in DRAWN
    ]
    assert len(unseen) > 2000
    assert [character for character in unseen if not has_hidden(character)] == sorted(LINES)


def test_tags_variation_selectors_and_fillers_are_hidden_too() -> None:
    for first, last in ((0xE0000, 0xE007F), (0xE0100, 0xE01EF), (0xFE00, 0xFE0F), (0x3164, 0x3164), (0x115F, 0x1160)):
        assert all(has_hidden(chr(number)) for number in range(first, last + 1))


@pytest.mark.parametrize("text", ["", "<script>alert(1)</script>", "Ελληνικά", *SEEN.values()])
def test_what_is_seen_is_left_as_it_is(text: str) -> None:
    assert not has_hidden(text)
    assert escaped(text) is text
    assert kinds_of(text) == []


@pytest.mark.parametrize(
    ("text", "spelled", "kinds"),
    [
        ("\x1b[2J", "\\u{1B}[2J", ["control"]),
        ("a\rb", "a\\u{D}b", ["control"]),
        ("\x85\u2028", "\\u{85}\\u{2028}", ["control"]),
        ("a\u202eb", "a\\u{202E}b", ["direction"]),
        ("a\u200bb\u200d", "a\\u{200B}b\\u{200D}", ["invisible"]),
        ("a\ufe0f", "a\\u{FE0F}", ["invisible"]),
        ("\U000e0041", "\\u{E0041}", ["tag"]),
        ("\ud800", "\\u{D800}", ["surrogate"]),
        ("a\ue000\U00100000", "a\\u{E000}\\u{100000}", ["private"]),
        ("\ufdd0\U0001ffff", "\\u{FDD0}\\u{1FFFF}", ["noncharacter"]),
        ("\u26a0\ufe0f\ufe0f", "\u26a0\ufe0f\\u{FE0F}", ["invisible"]),
        ("\U0001f469\u200dx", "\U0001f469\\u{200D}x", ["invisible"]),
    ],
)
def test_what_is_hidden_is_spelled_out(text: str, spelled: str, kinds: list[str]) -> None:
    assert has_hidden(text)
    assert escaped(text) == spelled
    assert kinds_of(text) == kinds


@pytest.mark.parametrize("case", HIDDEN)
def test_what_definitions_are_refused_for_is_spelled_out_in_output(case: str) -> None:
    text, named, position = HIDDEN[case]
    spelled = f"\\u{{{named.split()[0].removeprefix('U+').lstrip('0') or '0'}}}"
    assert escaped(text).startswith(text[: position - 1] + spelled)


@settings(deadline=None)
@given(TEXTS)
@example("a\ufe0f\u200d\U0001f469")
@example("\u0645\u200c\u200c\u0645")
def test_nothing_is_hidden_in_what_was_spelled_out(text: str) -> None:
    assert not has_hidden(escaped(text))
    assert first_unseen(escaped(text)) is None


@settings(deadline=None)
@given(TEXTS)
def test_definitions_and_output_agree_on_every_text(text: str) -> None:
    assert (first_unseen(text) is None) == (not has_hidden(text)) == (kinds_of(text) == [])


@settings(deadline=None)
@given(TEXTS)
def test_what_the_table_does_not_have_is_never_touched(text: str) -> None:
    """Character by character, by the table alone."""
    plain = "".join(each for each in text if not any(first <= ord(each) <= last for first, last, _ in RANGES))
    assert escaped(plain) == plain


def test_every_place_where_such_a_character_is_fine_is_in_a_real_text() -> None:
    for why, pattern in FINE.items():
        assert any(not has_hidden(text) and re.search(pattern, text) for text in SEEN.values()), why


def test_no_place_is_about_a_character_that_is_never_looked_around() -> None:
    said = "".join(re.sub(r"\(\?<?=\[.*?\]\)|\(\?<=.*?\)|\(\?=.*?\)", "", pattern) for pattern in FINE.values())
    about = re.compile(f"[{said.replace('[', '').replace(']', '')}]")
    below = {chr(number) for first, last, _ in RANGES for number in range(first, last + 1) if number < 0x10000}
    assert {each for each in below if about.match(each)} == _FINE_SOMEWHERE


def test_the_quick_look_misses_nothing_of_the_table_and_finds_nothing_else() -> None:
    table = {number for first, last, _ in RANGES for number in range(first, last + 1)}
    others = "".join(chr(number) for number in range(sys.maxunicode + 1) if number not in table)
    assert escaped(others) is others
    edges = {number for first, last, _ in RANGES for number in (*range(first, last)[:300], last)}
    for number in edges:
        text = f"~{chr(number)}~"
        assert has_hidden(text), hex(number)
        assert len(escaped(text)) > 3, hex(number)
        if not 0xD800 <= number <= 0xDFFF:
            value = msgspec.json.encode(text)
            assert may_be_hidden_in(value), hex(number)
            assert is_hidden_in(value), hex(number)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(WHOLE, WHOLE))
@example({"a\u200b": "\u202e\U000e0041\x7f\x1b"})
def test_json_says_the_same_afterwards(given: dict[str, str]) -> None:
    text = msgspec.json.encode(given).decode()
    assert not has_hidden(escaped_json(text))
    assert json.loads(escaped_json(text)) == given


def test_ordinary_json_needs_no_look() -> None:
    assert not may_be_hidden_in(b'{"a":"say \\"hello\\"\\n","b":[1,2.5,null]}')
