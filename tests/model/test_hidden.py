"""Which characters are hidden, and how they are spelled out."""

import json
import sys
import unicodedata

import msgspec
import pytest

from toolyard.model.hidden import escaped, escaped_json, has_hidden, is_hidden_in, kinds_of, may_be_hidden_in

SEEN = {
    *range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440),
}  # fmt: skip
"""Formats that are drawn: marks around numbers, joins of hieroglyphs."""
LINES = {"\n", "\t"}


def test_every_control_and_format_character_of_unicode_is_hidden() -> None:
    unseen = [
        chr(number)
        for number in range(sys.maxunicode + 1)
        if unicodedata.category(chr(number)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and number not in SEEN
    ]
    assert len(unseen) > 2000
    assert [character for character in unseen if not has_hidden(character)] == sorted(LINES)


def test_tags_variation_selectors_and_fillers_are_hidden_too() -> None:
    for first, last in ((0xE0000, 0xE007F), (0xE0100, 0xE01EF), (0xFE00, 0xFE0F), (0x3164, 0x3164), (0x115F, 0x1160)):
        assert all(has_hidden(chr(number)) for number in range(first, last + 1))


@pytest.mark.parametrize(
    "text",
    [
        "", "plain", "two\nlines\tand\r\nmore", "Größe, naïve, Ελληνικά, עברית, العربية, 日本語, हिन्दी",
        "<script>alert(1)</script>", "\u2764\ufe0f \u26a0\ufe0f 1\ufe0f\u20e3", "\U0001f469\u200d\U0001f4bb",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
    ],
)  # fmt: skip
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
        ("\u26a0\ufe0f\ufe0f", "\u26a0\ufe0f\\u{FE0F}", ["invisible"]),
        ("\U0001f469\u200dx", "\U0001f469\\u{200D}x", ["invisible"]),
    ],
)
def test_what_is_hidden_is_spelled_out(text: str, spelled: str, kinds: list[str]) -> None:
    assert has_hidden(text)
    assert escaped(text) == spelled
    assert kinds_of(text) == kinds


def test_the_quick_look_never_misses_what_the_exact_one_finds() -> None:
    for number in range(sys.maxunicode + 1):
        text = f"a{chr(number)}b"
        assert has_hidden(text) == (escaped(text) != text), hex(number)
        if has_hidden(text) and not 0xD800 <= number <= 0xDFFF:
            value = msgspec.json.encode(text)
            assert may_be_hidden_in(value), hex(number)
            assert is_hidden_in(value), hex(number)


def test_json_says_the_same_afterwards() -> None:
    value = {"a\u200b": ["\u202e\U000e0041", "\x7f\x1b"]}
    text = msgspec.json.encode(value).decode()
    assert not has_hidden(escaped_json(text))
    assert json.loads(escaped_json(text)) == value


def test_ordinary_json_needs_no_look() -> None:
    assert not may_be_hidden_in(b'{"a":"say \\"hello\\"\\n","b":[1,2.5,null]}')
