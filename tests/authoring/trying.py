"""One function as a tool, called through the whole pipeline: `Kit.Tried`."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from toolyard import Toolkit
from toolyard.model.tool import Tool
from toolyard.testing import call, client

ID = "Kit.Tried"


def named(case: Any) -> str:
    """A case's name, the same in every process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(case))[:60]


def kit_of(function: Callable[..., Any], **options: Any) -> Toolkit:
    kit = Toolkit("Kit", version="1.0.0")
    kit.tool(name="Tried", **options)(function)
    return kit


def tool_of(function: Callable[..., Any], **options: Any) -> Tool:
    return kit_of(function, **options).tools[0]


def listed(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The tool as a client sees it."""
    with client(kit_of(function, **options)) as yard:
        return yard.list()[0]


def ask(function: Callable[..., Any], input: dict[str, Any] | None = None, **options: Any) -> Any:
    """What a client gets; options are the tool's."""
    return call(kit_of(function, **options), ID, input)


def taking(type_: Any) -> tuple[Callable[..., None], list[Any]]:
    """A function with one parameter `value` of a type, and what it was called with."""
    seen: list[Any] = []

    def take(value: Any) -> None:
        seen.append(value)

    take.__annotations__["value"] = type_
    return take, seen


def giving(type_: Any, value: Any) -> Callable[[], Any]:
    """A function that returns a value and says it is of a type."""

    def give() -> Any:
        return value

    give.__annotations__["return"] = type_
    return give


def received(type_: Any, sent: Any) -> Any:
    """The argument that a parameter of a type becomes."""
    function, seen = taking(type_)
    ask(function, {"value": sent})
    return seen[0]


def schema_of(type_: Any) -> Any:
    """The schema of a parameter of a type."""
    return tool_of(taking(type_)[0]).input_schema["properties"]["value"]


def words_in(schema: Any) -> Iterator[str]:
    """Every key of every object in a schema."""
    if isinstance(schema, dict):
        yield from schema
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from words_in(below)
