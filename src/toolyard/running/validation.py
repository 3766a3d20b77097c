"""Input and output against JSON Schemas, compiled once a tool.

jsonschema-rs with a linear-time regex engine and no retrieval: a pattern cannot be made to hang, and a `$ref` is
never fetched. What it finds becomes one sentence a model can act on, for each parameter.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationErrorKind as Kind

from ..model.errors import DefinitionError, InvalidInput, Problem, path_of
from ..model.tool import Tool

MOST_PROBLEMS = 20
SMALL = 1000
"""How many parts a value may have to be explained in full."""
MOST_PARTS = 50_000
_LINEAR = jsonschema_rs.RegexOptions()


def compile_schema(schema: dict[str, Any], tool: Tool) -> Any:
    """A validator. Raises DefinitionError for a schema that cannot be checked safely."""
    try:
        return _validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DefinitionError(
            f"{tool.id} has a schema that cannot be checked: {reason}", tool.code.origin.place
        ) from None


DIALECTS = {
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}


def weight(schema: Any) -> int:
    """How many parts it has when each reference within it stands for what it refers to: a short schema can be made to
    double at every step. What refers to itself counts once."""
    known: dict[str, int] = {}

    def of(part: Any) -> int:
        if isinstance(part, dict):
            named = part.get("$ref")
            here = referred(named) if isinstance(named, str) else 0
            return 1 + here + sum(map(of, part.values()))
        return 1 + sum(map(of, part)) if isinstance(part, list) else 1

    def referred(pointer: str) -> int:
        if pointer not in known:
            known[pointer] = 1
            known[pointer] = min(of(_at(schema, pointer)), MOST_PARTS + 1)
        return known[pointer]

    whole = {name: part for name, part in schema.items() if name not in ("$defs", "definitions")}
    return of(whole) if isinstance(schema, dict) else 1


def _at(schema: Any, pointer: str) -> Any:
    """What a reference within a schema is to; nothing for any other."""
    if not pointer.startswith("#/"):
        return None
    for step in pointer[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, dict) else None
    return schema


def _validator(schema: dict[str, Any]) -> Any:
    """In the dialect that the schema names; without one, 2020-12. Raises ValueError for one that is not known."""
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    dialect = DIALECTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if dialect is None:
        raise ValueError(f"$schema {named!r} is not supported; supported: {', '.join(DIALECTS)}")
    if weight(schema) > MOST_PARTS:
        raise ValueError(f"it has more than {MOST_PARTS} parts, counting each as often as it is referred to")
    return dialect(
        schema,
        validate_formats=True,
        pattern_options=_LINEAR,
        offline=True,
        keywords={"uniqueItems": UniqueItems},
    )


@lru_cache(maxsize=1024)
def _compiled(schema: bytes) -> Any:
    return _validator(msgspec.json.decode(schema))


def checked(schema: dict[str, Any]) -> Any:
    """A validator for a schema that comes from a caller. Raises ValueError with the reason."""
    try:
        return _compiled(msgspec.json.encode(schema))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise ValueError(str(error).splitlines()[0]) from None


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value fits a schema that comes from a caller."""
    return bool(checked(schema).is_valid(value))


class UniqueItems:
    """`uniqueItems`, by hash. The library's own gives all integers of more than 64 bits the same hash, and so compares
    each with all the others: 20,000 of them take a minute."""

    def __init__(self, parent: dict[str, Any], wanted: bool, path: list[str | int]) -> None:
        self._wanted = wanted

    def validate(self, value: Any) -> None:
        if self._wanted and isinstance(value, list) and len(set(map(_hashable, value))) < len(value):
            raise ValueError("Must not have the same item twice")


def _hashable(item: Any) -> Any:
    """Equal where JSON Schema says so: 1 is 1.0 and not true. A number is hashed by its digits, because whoever sends
    them can choose numbers of the same hash."""
    if isinstance(item, dict):
        return frozenset((name, _hashable(value)) for name, value in item.items())
    if isinstance(item, list):
        return tuple(map(_hashable, item))
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    if isinstance(item, int | float) and not isinstance(item, bool):
        return repr(item).encode()
    return item


def explain(validator: Any, schema: dict[str, Any], input: dict[str, Any]) -> InvalidInput:
    """What is wrong with the input, up to a limit. The validator collects every error before it gives the first, so
    that a large input could keep the server busy for seconds: there, only the parameters are named."""
    problems = _in_full(validator, input) if _is_small(input) else _briefly(schema, input)
    return InvalidInput(tuple(islice(problems, MOST_PROBLEMS)) or (Problem("", "Does not fit its schema"),))


def _in_full(validator: Any, input: dict[str, Any]) -> Iterator[Problem]:
    for error in validator.iter_errors(input):
        yield from problems_of(error)


def first_difference(validator: Any, value: Any) -> str:
    """Where a tool's result leaves its own schema: for the log."""
    if not _is_small(value):
        return "the result: too large to say where"
    error = next(validator.iter_errors(value))
    return f"{path_of(error.instance_path) or 'the result'}: {_sentence(error.kind)}"


def _briefly(schema: dict[str, Any], input: dict[str, Any]) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in input:
            yield Problem(name, "Is required", missing=True)
    for name, value in input.items():
        if name not in properties and schema.get("additionalProperties") is False:
            yield Problem(name, "Is not a known parameter")
        elif name in properties and not _validator(properties[name]).is_valid(value):
            yield Problem(name, "Does not fit its schema")


def _is_small(value: Any) -> bool:
    """Whether a value has few parts. Looks at no more than it allows."""
    pending, seen = [value], 0
    while pending:
        item = pending.pop()
        if isinstance(item, dict | list | tuple):
            seen += len(item)
            if seen > SMALL:
                return False
            pending.extend(item.values() if isinstance(item, dict) else item)
    return True


def problems_of(error: Any) -> Iterator[Problem]:
    path, kind = error.instance_path, error.kind
    if isinstance(kind, Kind.Required):
        yield Problem(path_of([*path, kind.property]), "Is required", missing=True)
    elif isinstance(kind, Kind.AdditionalProperties | Kind.UnevaluatedProperties):
        instance = error.instance
        for name in kind.unexpected:
            yield Problem(path_of([*path, name]), "Is not a known parameter", got=instance.get(name))
    else:
        yield Problem(path_of(path), _sentence(kind), got=error.instance)


def _sentence(kind: Any) -> str:
    for class_, sentence in _SENTENCES:
        if isinstance(kind, class_):
            return sentence(kind)
    return "Is not valid"


_TYPE_NAMES = {
    "number": "a number",
    "integer": "a whole number",
    "string": "a string",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_FORMAT_NAMES = {
    "date": "a date such as 2025-01-31",
    "date-time": "a date and time such as 2025-01-31T12:00:00Z",
    "time": "a time such as 12:00:00Z",
    "duration": "a duration such as PT15M",
    "uuid": "a UUID",
    "email": "an e-mail address",
    "uri": "an absolute URI",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
}


def _one_of(options: list[Any]) -> str:
    shown = ", ".join(map(_shown, options[:20]))
    return f"Must be one of {shown}{', …' if len(options) > 20 else ''}"


def _shown(value: Any) -> str:
    """As JSON, shortened."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."


def _or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _types(kind: Any) -> str:
    return f"Must be {_or([_TYPE_NAMES.get(name, name) for name in kind.types])}"


def _any_of(kind: Any) -> str:
    """Each alternative's first objection, once: `Must be a number or null`."""
    firsts = [_sentence(errors[0].kind) for errors in kind.context if errors]
    wanted = [s.removeprefix("Must be ") for s in dict.fromkeys(firsts) if s.startswith("Must be ")]
    return f"Must be {_or(wanted)}" if wanted and len(wanted) <= 6 else "Fits none of the forms it may have"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_SENTENCES: list[tuple[Any, Callable[[Any], str]]] = [
    (Kind.Type, _types),
    (Kind.Enum, lambda kind: _one_of(kind.options)),
    (Kind.Constant, lambda kind: f"Must be {_shown(kind.expected_value)}"),
    (Kind.AnyOf | Kind.OneOfNotValid, _any_of),
    (Kind.Format, lambda kind: f"Must be {_FORMAT_NAMES.get(kind.format, f'in the format {kind.format}')}"),
    (Kind.Pattern, lambda kind: f"Must match the pattern {kind.pattern}"),
    (Kind.Minimum, lambda kind: f"Must be at least {kind.limit}"),
    (Kind.Maximum, lambda kind: f"Must be at most {kind.limit}"),
    (Kind.ExclusiveMinimum, lambda kind: f"Must be greater than {kind.limit}"),
    (Kind.ExclusiveMaximum, lambda kind: f"Must be less than {kind.limit}"),
    (Kind.MultipleOf, lambda kind: f"Must be a multiple of {kind.multiple_of}"),
    (Kind.MinLength, lambda kind: f"Must have at least {_plural(kind.limit, 'character')}"),
    (Kind.MaxLength, lambda kind: f"Must have at most {_plural(kind.limit, 'character')}"),
    (Kind.MinItems, lambda kind: f"Must have at least {_plural(kind.limit, 'item')}"),
    (Kind.MaxItems | Kind.AdditionalItems, lambda kind: f"Must have at most {_plural(kind.limit, 'item')}"),
    (Kind.MinProperties, lambda kind: f"Must have at least {_plural(kind.limit, 'member')}"),
    (Kind.MaxProperties, lambda kind: f"Must have at most {_plural(kind.limit, 'member')}"),
    (Kind.Custom, lambda kind: kind.message),
    (Kind.Required, lambda kind: f"Must have the member {kind.property}"),
]
