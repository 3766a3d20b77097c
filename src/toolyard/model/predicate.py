"""Predicates: functions of an author or operator that decide something by a call's input, such as whether a person has
to approve the call.

A predicate gets the input as keyword arguments, with the tool's defaults for what a caller left out: leaving something
out must be no way around it. Whether it fits a tool's input schema is checked before there is a call, so that no call
finds out that it cannot be asked.
"""

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from .errors import SourcePlace

Predicate = Callable[..., Any]


class Unknown(Enum):
    """Stands for a default that nobody knows before the tool runs."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


def misfit(predicate: Predicate, schema: Mapping[str, Any]) -> str | None:
    """Why a predicate cannot be called with every input that fits this schema; None where it can."""
    try:
        parameters = inspect.signature(predicate).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature: nothing can be said about it
        return None
    properties = schema.get("properties", {})
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if any(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in parameters):
        return "takes a parameter by position, and the input comes by name"
    if not any(p.kind is p.VAR_KEYWORD for p in parameters) and (lacking := [n for n in properties if n not in named]):
        return f"has no parameter {lacking[0]!r}, and the tool has one"
    # Present in every call: the caller has to give it, or the tool's default is filled in.
    given = {*schema.get("required", ()), *defaults_of(schema)}
    for name in (p.name for p in named.values() if p.default is p.empty and p.name not in given):
        if name not in properties:
            return f"has a parameter {name!r}, and the tool has none"
        return f"has a parameter {name!r} without a default, and callers may leave it out"
    return None


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that an input schema declares, by parameter."""
    properties = schema.get("properties", {}).items()
    return {name: below["default"] for name, below in properties if isinstance(below, Mapping) and "default" in below}


def with_defaults(input: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """An input with the defaults that a schema declares for what is left out. What may be left out and has no default
    there is UNKNOWN: a factory, or a function elsewhere, may put anything in its place."""
    required, declared = schema.get("required", ()), defaults_of(schema)
    optional = (name for name in schema.get("properties", {}) if name not in required)
    return {**{name: declared.get(name, UNKNOWN) for name in optional}, **input}


def with_inner_defaults(value: Any, schema: Any) -> Any:
    """A value of an input with the declared defaults of the objects within it. Where a schema has several objects to
    choose from, nothing says which one is meant, and nothing is filled in."""
    if not isinstance(schema, Mapping):
        return value
    objects = [choice for choice in schema.get("anyOf", ()) if "properties" in choice or "items" in choice]
    schema = objects[0] if len(objects) == 1 else schema
    if isinstance(value, list):
        return [with_inner_defaults(item, schema.get("items")) for item in value]
    if not isinstance(value, Mapping):
        return value
    below = schema.get("properties", {})
    return {**defaults_of(schema), **{name: with_inner_defaults(each, below.get(name)) for name, each in value.items()}}


def place_of(predicate: Predicate) -> SourcePlace | None:
    """The line where a predicate is defined; None for a builtin."""
    code = getattr(inspect.unwrap(predicate), "__code__", None)
    return None if code is None else SourcePlace(code.co_filename, code.co_firstlineno)
