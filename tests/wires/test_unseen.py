"""Definitions that come over HTTP: what nobody sees is refused by its path."""

from typing import Any

import msgspec
import pytest

from toolyard.wires.json_body import MOST_PROBLEMS
from toolyard.wires.lifecycle.sessions import decode_session
from toolyard.wires.lifecycle.worker_tools import decode_worker

from ..text.hidden import HIDDEN, SEEN
from .refusals import problems

TOOL = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}


def body(tool: Any) -> bytes:
    return msgspec.json.encode({"tools": [tool]})


@pytest.mark.parametrize("case", HIDDEN)
def test_each_of_them_is_refused_and_named(case: str) -> None:
    text, character, position = HIDDEN[case]
    said = {"tools[0].description": f"Has a hidden character: {character}, character {position}; take it out"}
    assert problems(decode_worker, body({"id": "A.B", "description": text})) == said
    assert problems(decode_session, body(TOOL | {"description": text})) == said


@pytest.mark.parametrize("case", SEEN)
def test_what_people_write_passes(case: str) -> None:
    assert decode_worker(body({"id": "A.B", "description": SEEN[case]}))[0].description == SEEN[case]
    assert decode_session(body(TOOL | {"description": SEEN[case]})).tools[0].description == SEEN[case]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"title": "\u200b"}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"toolkit_description": "\u200b"}, "toolkit_description"),
        ({"tags": ["a", "\u200b"]}, "tags[1]"),
        ({"requirements": {"secrets": [{"id": "\u200b"}]}}, "requirements.secrets[0].id"),
        ({"input_schema": {"properties": {"\u200b": {}}}}, "input_schema.properties.\\u{200B}"),
        ({"output_schema": {"enum": [["\u200b"]]}}, "output_schema.enum[0][0]"),
    ],
)
def test_every_member_is_looked_at(change: dict[str, Any], path: str) -> None:
    assert problems(decode_worker, body({"id": "A.B"} | change)).keys() == {f"tools[0].{path}"}


def test_a_sessions_schemas_are_looked_at() -> None:
    schemas = {"input_schema": {"properties": {"a": {"description": "\u200b"}}}, "output_schema": {"title": "\u200b"}}
    assert problems(decode_session, body(TOOL | schemas)).keys() == {
        "tools[0].input_schema.properties.a.description",
        "tools[0].output_schema.title",
    }


def test_not_everything_is_told_where_everything_is_wrong() -> None:
    assert len(problems(decode_worker, body({"id": "A.B", "tags": ["\u200b"] * 1000}))) == MOST_PROBLEMS
