"""Functions that are asked about a call's input, such as whether a person has to agree to it.

They get the input as keywords, with the tool's defaults for what a caller left out. Whether a function can be asked
about every call of a tool is known before there is a call.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .errors import SourcePlace

Predicate = Callable[..., Any]


def misfit(predicate: Predicate, schema: Mapping[str, Any]) -> str | None:
    """Why a function cannot be asked about all that a tool with this input schema takes; None where it can."""
    try:
        parameters = inspect.signature(predicate).parameters.values()
    except (TypeError, ValueError):  # of what was not written in Python
        return None
    properties = schema.get("properties", {})
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if any(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in parameters):
        return "takes a parameter by position, and the input comes by name"
    if not any(p.kind is p.VAR_KEYWORD for p in parameters) and (lacking := [n for n in properties if n not in named]):
        return f"has no parameter {lacking[0]!r}, and the tool has one"
    given = {*schema.get("required", ()), *defaults_of(schema)}
    for name in (p.name for p in named.values() if p.default is p.empty and p.name not in given):
        if name not in properties:
            return f"has a parameter {name!r}, and the tool has none"
        return f"has a parameter {name!r} without a default, and callers may leave it out"
    return None


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool takes where a caller leaves something out."""
    properties = schema.get("properties", {}).items()
    return {name: below["default"] for name, below in properties if isinstance(below, Mapping) and "default" in below}


def place_of(predicate: Predicate) -> SourcePlace | None:
    """Where it stands."""
    code = getattr(inspect.unwrap(predicate), "__code__", None)
    return None if code is None else SourcePlace(code.co_filename, code.co_firstlineno)
