"""Input and output against JSON Schemas, compiled once a tool.

jsonschema-rs with a linear-time regex engine and no retrieval: a pattern cannot be made to hang, and a `$ref` is
never fetched. What it finds becomes one sentence a model can act on, for each parameter.
These are schemas that the server's own authors wrote. Those that strangers bring go through `sandbox`.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationErrorKind as Kind
from msgspec import Struct

from ..model.errors import DefinitionError, InvalidInput, Problem, path_of
from ..model.json_value import canonical_number
from ..model.tool import Tool
from .schema_cost import MOST_STEPS, Cost, NotPlain, Outside, bounded, measured

MOST_PROBLEMS = 20
SMALL = 1000
"""How large a value may be to be explained in full: its parts, and eight characters of text count as one."""
CLIENT_STEPS = 5_000_000
_LINEAR = jsonschema_rs.RegexOptions()
DIALECTS = {
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}


def compile_schema(schema: dict[str, Any], tool: Tool) -> Any:
    """A validator. Raises DefinitionError for a schema that cannot be checked safely."""
    try:
        bounded(schema)
        levels = _most_levels(schema)
        validator = compiled(schema)
    except ValueError as error:
        raise DefinitionError(
            f"{tool.id} has a schema that cannot be checked: {error}", tool.code.origin.place
        ) from None
    return validator if levels is None else Shallow(validator, levels)


def compiled(schema: dict[str, Any], patterns: jsonschema_rs.RegexOptions = _LINEAR) -> Any:
    """In the dialect that the schema names; without one, 2020-12. Raises ValueError with the reason."""
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    dialect = DIALECTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if dialect is None:
        raise ValueError(f"$schema {named!r} is not supported; supported: {', '.join(DIALECTS)}")
    try:
        return dialect(
            schema,
            validate_formats=True,
            pattern_options=patterns,
            offline=True,
            keywords={"uniqueItems": UniqueItems},
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _most_levels(schema: dict[str, Any]) -> int | None:
    """An author may write what is not plain: who calls the tool cannot change it."""
    try:
        return Cost(schema).most_levels()
    except NotPlain:
        return None


class Shallow:
    """A validator for values of so many levels at most."""

    def __init__(self, validator: Any, levels: int) -> None:
        self.levels, self.iter_errors, self._is_valid = levels, validator.iter_errors, validator.is_valid

    def takes(self, value: Any) -> bool:
        return measured(value, MOST_STEPS)[1] <= self.levels

    def is_valid(self, value: Any) -> bool:
        return self.takes(value) and bool(self._is_valid(value))


def checked(schema: dict[str, Any]) -> "OutputCheck":
    """For a client, of a schema that a server lists. Raises ValueError for one that is none."""
    bounded(schema)
    try:
        cost = Cost(schema)
    except Outside as error:
        raise ValueError(f"it refers to {error}, which is not in it") from None
    except NotPlain:
        return OutputCheck(None, None)
    return OutputCheck(compiled(schema), cost) if cost.steps(1) <= MOST_STEPS else OutputCheck(None, None)


class OutputCheck:
    """A server's word for its results, as far as a client can check it in a second or so: what would take longer is
    believed, as it is by clients that check nothing."""

    def __init__(self, validator: Any, cost: Cost | None) -> None:
        self._validator, self._cost = validator, cost

    def iter_errors(self, value: Any) -> Iterator[Any]:
        size, depth = measured(value, CLIENT_STEPS)
        if self._cost is None or self._cost.steps(depth) * size > CLIENT_STEPS or self._validator.is_valid(value):
            return
        yield from self._validator.iter_errors(value) if is_small(value) else [Misfit()]


class Misfit(Struct, frozen=True):
    """Somewhere in a value that is too large to say where."""

    instance_path: tuple[str | int, ...] = ()
    message: str = "it is too large to say where"


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
    if isinstance(item, int | float) and not isinstance(item, bool):
        return repr(canonical_number(item)).encode()
    return item


def explain(validator: Any, schema: dict[str, Any], input: dict[str, Any]) -> InvalidInput:
    """What is wrong with the input, up to a limit. The validator collects every error before it gives the first, each
    with a copy of the value that it is about, so that a large input could keep the server busy for seconds and take
    gigabytes: there, only the parameters are named."""
    if isinstance(validator, Shallow) and not validator.takes(input):
        return InvalidInput((Problem("", f"Must not be nested more than {validator.levels} levels deep"),))
    return InvalidInput(problems_with(validator, schema, input))


def problems_with(validator: Any, schema: dict[str, Any], value: Any) -> tuple[Problem, ...]:
    """At least one, of a value that does not fit."""
    found: Iterator[Problem]
    if is_small(value):
        found = (problem for error in validator.iter_errors(value) for problem in problems_of(error))
    else:
        found = _briefly(schema, value) if isinstance(value, dict) else iter(())
    return tuple(islice(found, MOST_PROBLEMS)) or (Problem("", "Does not fit its schema"),)


def is_small(value: Any) -> bool:
    """Whether a value may be explained in full."""
    return measured(value, SMALL)[0] <= SMALL


def first_difference(validator: Any, value: Any) -> str:
    """Where a tool's result leaves its own schema: for the log."""
    if not is_small(value):
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
        elif name in properties:
            yield from _of_parameter(schema, name, value)


def _of_parameter(schema: dict[str, Any], name: str, value: Any) -> Iterator[Problem]:
    """What is wrong with one parameter of many, or of a large one: in full where its own value is small."""
    named = {keyword: part for keyword, part in schema.items() if keyword in ("$schema", "$defs", "definitions")}
    try:
        validator = compiled({**named, "properties": {name: schema["properties"][name]}})
    except ValueError:
        return  # it refers to another parameter
    if validator.is_valid({name: value}):
        return
    if is_small(value):
        yield from (problem for error in validator.iter_errors({name: value}) for problem in problems_of(error))
    else:
        yield Problem(name, "Does not fit its schema")


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
