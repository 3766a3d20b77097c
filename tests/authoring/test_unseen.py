"""Tools with characters that nobody sees are refused where they are written."""

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from toolyard import Icon, Toolkit, authorization, secret
from toolyard.model.errors import DefinitionError
from toolyard.runners.loader import load

from ..runners.imports import forgetting
from ..text.hidden import HIDDEN, SEEN

BAD = "\u202e"
SAID = "U+202E RIGHT-TO-LEFT OVERRIDE, character 1"


class Inner(BaseModel):
    deep: Annotated[int, Field(description=BAD)] = 0


class Odd(enum.Enum):
    BAD = BAD


def plain(a: int) -> int:
    """A plain tool."""
    return a


def described(a: Annotated[int, BAD]) -> int:
    """Has a parameter with a description."""
    return a


def aliased(a: Annotated[int, Field(alias=BAD)]) -> int:
    """Has a parameter with another name."""
    return a


def chosen(a: Literal["x", "\u202e"]) -> str:
    """Has a choice."""
    return a


def defaulted(a: str = BAD) -> str:
    """Has a default."""
    return a


def nested(a: list[Inner]) -> int:
    """Has it in a model."""
    return len(a)


def returned() -> Odd:
    """Has it in its result."""
    return Odd.BAD


@pytest.mark.parametrize(
    ("function", "options", "member"),
    [
        (plain, {"name": BAD}, "name"),
        (plain, {"wire_name": BAD}, "wire_name"),
        (plain, {"title": BAD}, "title"),
        (plain, {"description": BAD}, "description"),
        (plain, {"tags": ["fine", BAD]}, "tags[1]"),
        (plain, {"annotations": {"audience": [BAD]}}, "annotations.audience[0]"),
        (plain, {"annotations": {BAD: True}}, "annotations.\\u{202E}"),
        (plain, {"icons": [Icon("https://a.example/i.png", mime_type=BAD)]}, "icons[0].mimeType"),
        (plain, {"requires": secret(BAD)}, "requirements.secrets[0]"),
        (plain, {"requires": authorization("google", scopes=[BAD])}, "requirements.authorization[0].scopes[0]"),
        (
            plain,
            {"input_schema": {"type": "object", "properties": {"a": {"examples": [{"x": BAD}]}}}},
            "input_schema.properties.a.examples[0].x",
        ),
        (described, {}, "input_schema.properties.a.description"),
        (aliased, {}, "input_schema.properties.\\u{202E}"),
        (chosen, {}, "input_schema.properties.a.enum[1]"),
        (defaulted, {}, "input_schema.properties.a.default"),
        (nested, {}, "input_schema.properties.a.items.properties.deep.description"),
        (returned, {}, "output_schema.enum[0]"),
    ],
)
def test_wherever_it_hides_it_is_refused(function: Callable[..., Any], options: dict[str, Any], member: str) -> None:
    kit = Toolkit("Kit")
    with pytest.raises(DefinitionError) as refused:
        kit.tool(**options)(function)
    assert f"has a hidden character in its {member}: {SAID}; " in refused.value.message
    assert function.__code__.co_firstlineno <= (refused.value.place.line or 0)  # type: ignore[union-attr]
    assert kit.tools == ()


@pytest.mark.parametrize("case", HIDDEN)
def test_a_description_with_any_of_them_is_refused(case: str) -> None:
    text, character, _ = HIDDEN[case]
    with pytest.raises(DefinitionError, match=character.replace("+", r"\+")):
        Toolkit("Kit").tool(description=text)(plain)
    with pytest.raises(DefinitionError, match=character.replace("+", r"\+")):
        Toolkit("Kit", description=text)


@pytest.mark.parametrize("case", SEEN)
def test_a_description_that_people_write_is_taken(case: str) -> None:
    kit = Toolkit("Kit", description=SEEN[case])
    kit.tool(description=SEEN[case])(plain)
    assert kit.tools[0].description == SEEN[case]


def test_a_toolkit_is_refused_by_its_name() -> None:
    with pytest.raises(DefinitionError, match=r"its name: U\+200B ZERO WIDTH SPACE, character 4") as refused:
        Toolkit("Kit\u200b")
    assert refused.value.place is not None
    assert refused.value.place.file == __file__


@pytest.mark.parametrize(("written", "line"), [("\u202e", 8), ("\\u202e", 5)])
def test_the_line_is_named_where_the_character_can_be_found(written: str, line: int, tmp_path: Path) -> None:
    """Else the one where the tool begins."""
    file = tmp_path / "odd.py"
    file.write_text(
        "from toolyard import Toolkit\n\nkit = Toolkit('Kit')\n\n@kit.tool\ndef add(a: int) -> int:\n"
        f'    """Adds.\n{written}\n    """\n    return a\n',
        encoding="utf-8",
    )
    with forgetting(tmp_path), pytest.raises(DefinitionError) as refused:
        load(str(file))
    assert str(refused.value).startswith(f"{file}:{line}: Kit.Add has a hidden character in its description: ")
