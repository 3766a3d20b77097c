"""Refuses a definition with characters that nobody sees, and says where in the author's file they stand."""

import linecache
from typing import Any

import msgspec

from ..model.errors import DefinitionError, Place
from ..model.tool import Tool
from ..model.unseen import Unseen, unseen_in


def refuse_unseen(who: str, members: dict[str, Any], place: Place, last_line: int | None = None) -> None:
    """Raises DefinitionError for the first one. `place` is where the definition begins."""
    for found in unseen_in(members):
        raise DefinitionError(
            f"{who} has a hidden character in its {found.member}: {found}; people do not see it and models do, "
            "so take it out",
            _line_of(found, place, last_line or place.line),
        )


def members_of(tool: Tool) -> dict[str, Any]:
    """Everything in a definition that is text, or has text in it."""
    return {
        "name": tool.name,
        "wire_name": tool.wire_name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
        "requirements": msgspec.to_builtins(tool.requirements),
        "tags": tool.tags,
        "icons": msgspec.to_builtins(tool.icons),
    }


def _line_of(found: Unseen, place: Place, last_line: int | None) -> Place:
    """The line it stands on, if it is written there as it is and not as an escape."""
    if place.line is None or last_line is None:
        return place
    for number in range(place.line, last_line + 1):
        if found.character in linecache.getline(place.file, number).rstrip("\r\n"):
            return Place(place.file, number)
    return place
