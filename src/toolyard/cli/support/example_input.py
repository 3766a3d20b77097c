"""An input that fits a tool's schema, so that `toolyard serve` can print a first call that works."""

import operator
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
    """1 where the schema allows it, else a number at or between its limits."""
    edges = [schema[keyword] for keyword in _LIMITS if keyword in schema]
    step = schema.get("multipleOf", 1)
    steps = [edge // step * step + more for edge in edges for more in (0, step, -step)]
    middle = [sum(edges) / len(edges)] if edges and schema["type"] == "number" else []
    return next((n for n in [1, *edges, step, *steps, *middle] if _fits(n, schema, step)), 1)


def _fits(number: Any, schema: dict[str, Any], step: Any) -> bool:
    within = all(is_within(number, schema[keyword]) for keyword, is_within in _LIMITS.items() if keyword in schema)
    return within and ("multipleOf" not in schema or number % step == 0)


_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}


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
    text = formats.get(schema.get("format", ""), "hello").ljust(schema.get("minLength", 0), "o")
    return text[: schema.get("maxLength")]


def _array(schema: dict[str, Any]) -> list[Any]:
    first = [example(item) for item in schema.get("prefixItems", ())]
    return first or [example(schema.get("items", {}))] * max(1, schema.get("minItems", 1))


_TYPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "number": _number,
    "integer": _number,
    "string": _text,
    "boolean": lambda schema: True,
    "null": lambda schema: None,
    "array": _array,
    "object": example_input,
}
