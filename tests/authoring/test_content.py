"""Pictures, sound, links and resources as results: what the JSON is, what the schema says, what is refused."""

from base64 import b64encode
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypeAliasType

from toolyard import Audio, Embedded, Image, ResourceLink
from toolyard.authoring.content_block import Content
from toolyard.authoring.function import Function
from toolyard.model.errors import DefinitionError
from toolyard.runners.validation import compiled

from .trying import giving, named, taking, tool_of, words_in

PNG = b"\x89PNG\r\n\xff"
PNG_TEXT = b64encode(PNG).decode()
IMAGE = {"type": "image", "data": PNG_TEXT, "mimeType": "image/png"}
NOTES = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
Pictures = TypeAliasType("Pictures", list[Image])


def written(type_: Any, value: Any) -> Any:
    """A result as JSON, which the tool's own schema describes."""
    function = Function(giving(type_, value))
    made = function.dump(value)
    assert function.output_schema is not None
    assert compiled(function.output_schema).is_valid(made)
    assert "$ref" not in set(words_in(function.output_schema))
    return made


BLOCKS: list[tuple[Content, dict[str, Any]]] = [
    (Image(PNG, "image/png"), IMAGE),
    (Image(PNG_TEXT, "image/png"), IMAGE),
    (Image(data=PNG, mime_type="image/png", annotations=NOTES), {**IMAGE, "annotations": NOTES}),
    (Audio(PNG, "audio/wav"), {"type": "audio", "data": PNG_TEXT, "mimeType": "audio/wav"}),
    (
        Audio(PNG, "audio/wav", {"priority": 1}),
        {"type": "audio", "data": PNG_TEXT, "mimeType": "audio/wav", "annotations": {"priority": 1}},
    ),
    (ResourceLink("file:///a", "a"), {"type": "resource_link", "uri": "file:///a", "name": "a"}),
    (
        ResourceLink("file:///a", "a", "A", "The letter.", "text/plain", 0, NOTES),
        {
            "type": "resource_link",
            "uri": "file:///a",
            "name": "a",
            "title": "A",
            "description": "The letter.",
            "mimeType": "text/plain",
            "size": 0,
            "annotations": NOTES,
        },
    ),
    (Embedded("file:///a", ""), {"type": "resource", "resource": {"uri": "file:///a", "text": ""}}),
    (
        Embedded("file:///a", data=PNG, mime_type="image/png", annotations=NOTES),
        {
            "type": "resource",
            "resource": {"uri": "file:///a", "mimeType": "image/png", "blob": PNG_TEXT},
            "annotations": NOTES,
        },
    ),
]


@pytest.mark.parametrize(("content", "block"), BLOCKS, ids=named)
def test_content_is_written_as_a_block_of_mcp(content: Content, block: dict[str, Any]) -> None:
    made = written(type(content), content)
    assert made == block
    assert list(made) == list(block)


@pytest.mark.parametrize(
    ("type_", "value", "json"),
    [
        (list[Image], [Image(PNG, "image/png")] * 2, [IMAGE, IMAGE]),
        (tuple[str, Image], ("a", Image(PNG, "image/png")), ["a", IMAGE]),
        (Audio | Image, Image(PNG, "image/png"), IMAGE),
        (Image | str, "a", "a"),
        (
            list[str | Image | Embedded],
            [Embedded("a:b", "c"), "d", Image(PNG, "image/png")],
            [{"type": "resource", "resource": {"uri": "a:b", "text": "c"}}, "d", IMAGE],
        ),
        (dict[str, Any], {"picture": Image(PNG, "image/png")}, {"picture": IMAGE}),
        (Any, [Image(PNG, "image/png")], [IMAGE]),
    ],
    ids=named,
)
def test_content_stands_wherever_a_result_has_it(type_: Any, value: Any, json: Any) -> None:
    assert written(type_, value) == json


def test_the_schema_holds_for_what_is_a_block_and_for_nothing_else() -> None:
    schema = Function(giving(list[Image | Embedded], [])).output_schema
    assert schema is not None
    resource = {"uri": "a:b", "text": "c"}
    assert compiled(schema).is_valid([IMAGE, {"type": "resource", "resource": resource}])
    for wrong in (
        {**IMAGE, "type": "audio"},
        {"type": "image", "mimeType": "image/png"},
        {**IMAGE, "annotations": {"priority": 2}},
        {"type": "resource", "resource": {"uri": "a:b"}},
        "text",
    ):
        assert not compiled(schema).is_valid([wrong])


def test_a_result_that_is_something_else_breaks_the_schema() -> None:
    function = Function(giving(Image, None))
    assert function.output_schema is not None
    assert not compiled(function.output_schema).is_valid(function.dump("not a picture"))
    assert not compiled(function.output_schema).is_valid(function.dump(Audio(PNG, "audio/wav")))


@pytest.mark.parametrize(
    "type_",
    [
        Image,
        Audio | Embedded,
        str | Image,
        list[Image],
        list[str | ResourceLink],
        tuple[str, Image],
        tuple[Image, ...],
        Image | list[Image | str],
        Annotated[Image, "a chart"],
        Pictures,
    ],
    ids=named,
)
def test_a_result_of_blocks_and_texts_is_content(type_: Any) -> None:
    assert tool_of(giving(type_, None)).returns_content is True


@pytest.mark.parametrize(
    "type_",
    [str, list[str], Any, None, Image | None, Image | int, list[list[Image]], dict[str, Image], list[Any], list],
    ids=named,
)
def test_any_other_result_is_not(type_: Any) -> None:
    assert tool_of(giving(type_, None)).returns_content is False


def test_a_tool_that_says_nothing_of_its_result_does_not_return_content() -> None:
    def untyped():  # type: ignore[no-untyped-def]
        """Returns something."""

    assert tool_of(untyped).returns_content is False


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Image("not base64!", "image/png"), r"data is a text that is not base64 \(.*\); give bytes as they are"),
    (lambda: Image("abc", "image/png"), "not base64"),
    (lambda: Audio("image/png", "YWJj"), "not base64"),
    (lambda: Image(None, "image/png"), "data is bytes, or text in base64, not NoneType"),  # type: ignore[arg-type]
    (lambda: Image(PNG, "png"), "mime_type='png' is not a media type; write for example 'image/png'"),
    (lambda: Image(PNG, None), "mime_type=None is not a media type"),  # type: ignore[arg-type]
    (lambda: Audio(PNG, "wav"), "mime_type='wav' is not a media type"),
    (lambda: ResourceLink("notes.txt", "notes"), "'notes.txt' is not a URI; it begins with a scheme"),
    (lambda: ResourceLink("file:///a", "a", mime_type="text"), "mime_type='text' is not"),
    (lambda: Embedded("file:///a"), "'file:///a' has neither text nor data; give either text or data"),
    (lambda: Embedded("file:///a", "a", b"a"), "'file:///a' has both text and data; give either text or data"),
    (lambda: Embedded("a", "a"), "'a' is not a URI"),
    (lambda: Embedded("file:///a", data="?"), "not base64"),
    (lambda: Embedded("file:///a", "a", mime_type="text"), "mime_type='text' is not"),
    (lambda: Image(PNG, "image/png", {"priority": 2}), "annotations cannot be used: priority: .* less than or equal"),
    (lambda: Audio(PNG, "audio/wav", {"priority": "1"}), "annotations cannot be used: priority: "),
    (lambda: ResourceLink("a:b", "c", annotations={"audience": ["me"]}), r"annotations cannot be used: audience\[0\]"),
    (lambda: Embedded("a:b", "c", annotations={"last_modified": "x"}), "annotations cannot be used: last_modified"),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG)
def test_what_cannot_be_content_is_refused_where_it_is_made(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refusal:
        make()
    assert "\n" not in str(refusal.value)


def test_content_cannot_be_a_parameter() -> None:
    with pytest.raises(
        DefinitionError, match="parameter 'value': Image is a result; take what it is made of as parameters"
    ):
        tool_of(taking(Image)[0])
