"""What a client answered to a tool's question, as MCP has it. What is not that is a ValueError that says why."""

from typing import Any, Literal

from msgspec import Struct, convert

from ..model.errors import Declined

_DONE = {"decline": "declined", "cancel": "cancelled"}


class Elicited(Struct):
    """A person's answer."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Root(Struct):
    uri: str


class Roots(Struct):
    roots: list[Root]


def accepted(answer: Any, name: str) -> dict[str, Any]:
    """What was filled in. Raises Declined."""
    said = convert(answer, Elicited)
    if said.action != "accept":
        raise Declined(f"The question '{name}' was {_DONE[said.action]}", action=said.action)
    return said.content or {}


def sampled(answer: Any) -> str | dict[str, Any]:
    """The text, if it is one."""
    result = convert(answer, dict[str, Any])
    content = result.get("content")
    if isinstance(content, dict) and content.get("type") == "text":
        return str(content.get("text", ""))
    return result


def root_uris(answer: Any) -> list[str]:
    return [root.uri for root in convert(answer, Roots).roots]
