"""Makes JSON Schemas from types, in the form the wires want: inlined, without `$ref`, without noise.

pydantic writes `$defs` and `$ref`. The OXP family allows neither, so every reference is replaced by the schema that it
names. A type that contains itself has no such form: it is refused by name, unless the author chose `recursion="open"`,
which leaves an open schema where the type would be repeated.
"""

from typing import Any, Literal

from pydantic import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, SchemaError, core_schema

from .binary import encoded, length_of

Recursion = Literal["refuse", "open"]
# Some versions of pydantic write a look-ahead into the pattern of a decimal, which validators that run in linear time
# do not know. These do without.
_WHOLE_TEXT = "^-?[0-9]+$"
_DECIMAL_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$"
NO_JSON_FORM = (
    PydanticSchemaGenerationError,
    PydanticSerializationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    SchemaError,
)
"""What pydantic raises for a type that it cannot validate, or cannot write as JSON."""


class RecursiveType(Exception):
    """Raised for a type that contains itself; the message is its name."""


class ForeignReference(Exception):
    """Raised for a `$ref` to something outside the schema, which is never fetched; the message is the reference."""


class Schemas(GenerateJsonSchema):
    """pydantic's generator of JSON Schemas, changed so that a schema accepts exactly what the tool takes and promises
    only what the tool returns. It makes no titles from names, and its patterns run in linear time."""

    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """As input, a model has no members that it does not declare, unless its author set `extra`."""
        made = super().model_schema(schema)
        if self.mode == "validation" and "extra" not in schema["cls"].model_config and made.get("type") == "object":
            made.setdefault("additionalProperties", False)
        return made

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """Bytes as Base64, unless the author chose another form."""
        if "serialization" in schema or {self._config.val_json_bytes, self._config.ser_json_bytes} != {"utf8"}:
            return super().bytes_schema(schema)
        made: JsonSchemaValue = {"type": "string", "contentEncoding": "base64"}
        # The author's limits count bytes, the schema's count characters of Base64.
        for name, limit in (("minLength", schema.get("min_length")), ("maxLength", schema.get("max_length"))):
            if limit is not None:
                made[name] = length_of(limit)
        return made

    def encode_default(self, dft: Any) -> Any:
        return encoded(dft) if isinstance(dft, bytes) else super().encode_default(dft)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        made = super().decimal_schema(schema)
        for option in made.get("anyOf", [made]):
            if "pattern" in option:
                option["pattern"] = _DECIMAL_TEXT
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A dictionary; with integer keys, its names must look like integers, which pydantic checks and does not
        say in its schema."""
        made = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int":
            made["propertyNames"] = {**made.get("propertyNames", {}), "pattern": _WHOLE_TEXT}
        return made

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        """A time without the format `time`, which demands a time zone: Python's `time` mostly has none."""
        return {"type": "string", "examples": ["12:00:00"]}

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """A date and time with the format `date-time`, which demands a time zone, unless the type forbids one. A result
        promises the format only where its type demands a zone too: `datetime.now()` has none."""
        zone = schema.get("tz_constraint")
        if zone == "naive" or (self.mode == "serialization" and zone != "aware"):
            return {"type": "string", "examples": ["2025-01-31T12:00:00"]}
        return super().datetime_schema(schema)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        """A duration; as a result without the format, which has no fractions of a second and nothing below zero."""
        made = super().timedelta_schema(schema)
        return {"type": made["type"]} if self.mode == "serialization" else made


def inline(schema: dict[str, Any], recursion: Recursion) -> dict[str, Any]:
    """The schema with every local reference replaced by its target."""
    definitions = schema.get("$defs", {})
    inlined = _resolve({k: v for k, v in schema.items() if k != "$defs"}, definitions, (), recursion)
    assert isinstance(inlined, dict)  # noqa: S101  (an object schema stays an object)
    return inlined


def _resolve(node: Any, definitions: dict[str, Any], open_names: tuple[str, ...], recursion: Recursion) -> Any:
    """A part of a schema with its references replaced. `open_names` are the definitions that it stands within: one that
    is named again contains itself."""
    if isinstance(node, list):
        return [_resolve(item, definitions, open_names, recursion) for item in node]
    if not isinstance(node, dict):
        return node
    if not isinstance(node.get("$ref"), str):
        # The discriminator is OpenAPI's, and maps to references that are gone afterwards.
        return {
            key: _member(key, value, definitions, open_names, recursion)
            for key, value in node.items()
            if key != "discriminator"
        }
    name = node["$ref"].removeprefix("#/$defs/")
    if name not in definitions:
        raise ForeignReference(node["$ref"])
    beside = {key: value for key, value in node.items() if key != "$ref"}
    if name in open_names:
        if recursion == "open":
            return beside
        raise RecursiveType(name)
    target = _resolve(definitions[name], definitions, (*open_names, name), recursion)
    return {**target, **_resolve(beside, definitions, open_names, recursion)}


def _member(
    keyword: str, value: Any, definitions: dict[str, Any], open_names: tuple[str, ...], recursion: Recursion
) -> Any:
    if keyword in _LITERAL:
        return value
    if keyword in _BY_NAME:
        return {name: _resolve(below, definitions, open_names, recursion) for name, below in value.items()}
    return _resolve(value, definitions, open_names, recursion)


_LITERAL = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords whose values are data, not schemas."""
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose values are schemas by names that an author chose, which may look like keywords."""


def reason_of(error: Exception) -> str:
    """pydantic's reason in one sentence, without its advice, which is for authors of pydantic models."""
    lines = str(error).splitlines()
    if isinstance(error, SchemaError):
        what = "pattern" if "regex" in str(error) else "constraint"
        return f"its {what} cannot be used, {lines[-1].strip().removeprefix('error: ')}"
    if isinstance(error, PydanticSchemaGenerationError):
        return f"{lines[0].partition('. Set ')[0]}; use a plain type, a dataclass or a pydantic model"
    reason, advice, _ = lines[0].partition("; you should define ")
    return f"{reason}; define every type it names" if advice else reason
