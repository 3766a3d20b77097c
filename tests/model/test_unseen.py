"""Characters that nobody sees: which they are, where they pass, and how they are told."""

import unicodedata

import pytest

from toolyard.model.unseen import escaped, first_unseen, unseen_in

from .hidden import HIDDEN, SEEN


@pytest.mark.parametrize("case", HIDDEN)
def test_a_hidden_character_is_found_and_named(case: str) -> None:
    text, named, position = HIDDEN[case]
    (found,) = unseen_in(text, ("description",))
    assert str(found) == f"{named}, character {position}"


@pytest.mark.parametrize("case", SEEN)
def test_what_people_write_passes(case: str) -> None:
    assert first_unseen(SEEN[case]) is None


@pytest.mark.parametrize("first", range(0, 0x110000, 0x10000))
def test_every_character_that_unicode_calls_control_format_or_private_is_hidden(first: int) -> None:
    """But the few formats that show a sign."""
    shown = set("\t\n\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
    kinds = ("Cc", "Cf", "Co", "Cs")
    those = {chr(code) for code in range(first, first + 0x10000) if unicodedata.category(chr(code)) in kinds}
    assert [hex(ord(each)) for each in sorted(those - shown) if first_unseen(f"a{each}a") is None] == []


@pytest.mark.parametrize("member", ["name", "wire_name", "title", "id"])
def test_names_and_titles_have_one_line(member: str) -> None:
    assert [found.character for found in unseen_in({member: "a\nb"})] == ["\n"]
    assert [found.character for found in unseen_in({member: "a\r\nb"})] == ["\r"]
    assert list(unseen_in({"input_schema": {"properties": {member: {"default": "a\n\tb"}}}})) == []


def test_every_text_is_looked_at_all_the_way_down() -> None:
    bad = "\u200b"
    definition = {
        "tags": ["ok", bad],
        "input_schema": {
            "properties": {"a": {"enum": ["x", bad], "anyOf": [{"default": {"deep": [bad]}}]}, f"b{bad}": {}},
            "required": [bad],
        },
    }
    assert [found.member for found in unseen_in(definition)] == [
        "tags[1]",
        "input_schema.properties.a.enum[1]",
        "input_schema.properties.a.anyOf[0].default.deep[0]",
        "input_schema.properties.b\\u200b",
        "input_schema.required[0]",
    ]


def test_an_escaped_text_hides_nothing() -> None:
    assert escaped("a\u202eb\x1b\n\U000e0001c") == "a\\u202eb\\u001b\n\\U000e0001c"
