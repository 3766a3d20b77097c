"""An input that fits a schema, to show how a tool is called."""

from collections.abc import Callable
from typing import Any


def example_input(schema: dict[str, Any]) -> dict[str, Any]:
    """The required parameters, each with some value that fits."""
    properties = schema.get("properties", {})
    return {name: example(properties[name]) for name in schema.get("required", ()) if name in properties}


def example(schema: Any) -> Any:
    """A value that fits, as far as types and simple limits go."""
    if not isinstance(schema, dict):
        return "text"
    for keyword in ("default", "const"):
        if keyword in schema:
            return schema[keyword]
    for keyword in ("examples", "enum"):
        if schema.get(keyword):
            return schema[keyword][0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return example(options[0])
    kind = schema.get("type")
    make = _TYPES.get(kind, _text) if isinstance(kind, str) else _text
    return make(schema)


def _number(schema: dict[str, Any]) -> Any:
    lowest = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return min(lowest, schema.get("maximum", lowest))


def _text(schema: dict[str, Any]) -> str:
    formats = {
        "date": "2025-01-31",
        "date-time": "2025-01-31T12:00:00Z",
        "time": "12:00:00Z",
        "uuid": "123e4567-e89b-12d3-a456-426614174000",
        "email": "ada@example.com",
        "uri": "https://example.com",
        "duration": "PT15M",
    }
    return formats.get(schema.get("format", ""), "hello").ljust(schema.get("minLength", 0), "o")


_TYPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "number": _number,
    "integer": _number,
    "string": _text,
    "boolean": lambda schema: True,
    "null": lambda schema: None,
    "array": lambda schema: [example(schema.get("items", {}))] * max(1, schema.get("minItems", 1)),
    "object": example_input,
}
