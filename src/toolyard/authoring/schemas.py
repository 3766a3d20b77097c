"""JSON Schemas from types, in the form the wires want: inlined, without `$ref`, without noise.

pydantic writes `$defs` and `$ref`. The OXP family allows neither, so every reference is replaced by what
it names. A type that contains itself has no such form: it is refused by name, unless the author chose
`recursion="open"`, which leaves an open schema at the cut.
"""

from typing import Any, Literal

from pydantic import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, SchemaError, core_schema

from .binary import encoded, length_of

Recursion = Literal["refuse", "open"]
_WHOLE_TEXT = "^-?[0-9]+$"
_DECIMAL_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$"
NO_JSON_FORM = (
    PydanticSchemaGenerationError,
    PydanticSerializationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    SchemaError,
)
"""What pydantic raises for a type that it cannot make or write."""


class RecursiveType(Exception):
    """A type that contains itself, by name."""


class ForeignReference(Exception):
    """A `$ref` to something outside the schema, which is never fetched."""


class Schemas(GenerateJsonSchema):
    """pydantic's generator, without titles made from names, and with patterns that run in linear time."""

    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """A model takes no members that it does not have, unless its author says what to do with them."""
        made = super().model_schema(schema)
        if self.mode == "validation" and "extra" not in schema["cls"].model_config and made.get("type") == "object":
            made.setdefault("additionalProperties", False)
        return made

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """As Base64, whose text is longer. What an author chose instead stays."""
        if "serialization" in schema or {self._config.val_json_bytes, self._config.ser_json_bytes} != {"utf8"}:
            return super().bytes_schema(schema)
        made: JsonSchemaValue = {"type": "string", "contentEncoding": "base64"}
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
        """With what whole numbers look like as names, which pydantic checks and does not say."""
        made = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int":
            made["propertyNames"] = {**made.get("propertyNames", {}), "pattern": _WHOLE_TEXT}
        return made

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        """Without the format, which demands a zone: the time on a clock has none."""
        return {"type": "string", "examples": ["12:00:00"]}

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """With the format, which demands a zone, unless the type forbids one. Of a result it is promised only where
        the type demands a zone too: `datetime.now()` has none."""
        zone = schema.get("tz_constraint")
        if zone == "naive" or (self.mode == "serialization" and zone != "aware"):
            return {"type": "string", "examples": ["2025-01-31T12:00:00"]}
        return super().datetime_schema(schema)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        """A result without the format, which knows no fractions of a second and nothing below zero."""
        made = super().timedelta_schema(schema)
        return {"type": made["type"]} if self.mode == "serialization" else made


def inline(schema: dict[str, Any], recursion: Recursion) -> dict[str, Any]:
    """The same schema with every local reference replaced by its target."""
    definitions = schema.get("$defs", {})
    inlined = _resolve({k: v for k, v in schema.items() if k != "$defs"}, definitions, (), recursion)
    assert isinstance(inlined, dict)  # noqa: S101  (an object schema stays an object)
    return inlined


def _resolve(node: Any, definitions: dict[str, Any], open_names: tuple[str, ...], recursion: Recursion) -> Any:
    if isinstance(node, list):
        return [_resolve(item, definitions, open_names, recursion) for item in node]
    if not isinstance(node, dict):
        return node
    if not isinstance(node.get("$ref"), str):
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
    """pydantic's reason in one sentence, without its advice, which is for those who write models."""
    lines = str(error).splitlines()
    if isinstance(error, SchemaError):
        what = "pattern" if "regex" in str(error) else "constraint"
        return f"its {what} cannot be used, {lines[-1].strip().removeprefix('error: ')}"
    if isinstance(error, PydanticSchemaGenerationError):
        return f"{lines[0].partition('. Set ')[0]}; use a plain type, a dataclass or a pydantic model"
    said, advice, _ = lines[0].partition("; you should define ")
    return f"{said}; define every type it names" if advice else said
