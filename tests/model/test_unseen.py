"""Characters that nobody sees: which they are, where they pass, and how they are told."""

import pytest

from toolyard.model.definition_text import first_unseen, unseen_in

from ..text.hidden import HIDDEN, SEEN


@pytest.mark.parametrize("case", HIDDEN)
def test_a_hidden_character_is_found_and_named(case: str) -> None:
    text, named, position = HIDDEN[case]
    (found,) = unseen_in(text, ("description",))
    assert str(found) == f"{named}, character {position}"


@pytest.mark.parametrize("case", SEEN)
def test_what_people_write_passes(case: str) -> None:
    assert first_unseen(SEEN[case]) is None


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
        "input_schema.properties.b\\u{200B}",
        "input_schema.required[0]",
    ]
