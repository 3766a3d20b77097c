"""Bytes in JSON: as Base64, in and out, wherever they stand in a type.

By default pydantic takes bytes for UTF-8 text, which most are not. Its setting for Base64 has to be made on each model,
and writes the URL-safe alphabet, which `contentEncoding: base64` does not mean. So the core schema of a type is changed
before a validator or serializer is made of it. A type that says itself how it looks in JSON is left alone.
"""

from base64 import b64decode, b64encode
from binascii import Error
from math import ceil
from typing import Any

OWN_FORM = ("val_json_bytes", "ser_json_bytes")
"""pydantic's settings by which an author's model chooses how its bytes look in JSON."""
_NOT_SCHEMAS = frozenset({"metadata", "default", "config", "serialization", "expected", "cls"})
"""Members of a core schema that have no core schema in them."""


def encoded(value: Any) -> Any:
    """Bytes as Base64. Any other value is returned as it is, for the output schema to refuse."""
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else value


def decoded(value: Any) -> Any:
    """The bytes of a text in Base64. Any other value is returned as it is, for the type to refuse."""
    if not isinstance(value, str):
        return value
    try:
        return b64decode(value.encode(), validate=True)
    except (Error, ValueError):
        raise ValueError("Must be Base64, as RFC 4648 has it") from None


def length_of(bytes_: int) -> int:
    """How many characters so many bytes are in Base64."""
    return 4 * ceil(bytes_ / 3)


def in_base64(schema: Any) -> Any:
    """A core schema with all of its bytes as Base64. One that has none is returned itself, so that callers see by
    identity that the validator which pydantic has built already will do."""
    if isinstance(schema, list | tuple):
        changed = [in_base64(each) for each in schema]
        return schema if all(new is old for new, old in zip(changed, schema, strict=True)) else type(schema)(changed)
    if not isinstance(schema, dict) or "serialization" in schema or has_own_form(schema.get("config")):
        return schema
    if schema.get("type") == "bytes":
        # Decoded before the type's own checks, so that limits of length count bytes.
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": decoded},
            "schema": schema,
            "serialization": {"type": "function-plain", "function": encoded, "when_used": "json"},
        }
    below = {key: in_base64(value) for key, value in schema.items() if key not in _NOT_SCHEMAS}
    return {**schema, **below} if any(value is not schema[key] for key, value in below.items()) else schema


def has_own_form(config: Any) -> bool:
    return isinstance(config, dict) and any(config.get(name, "utf8") != "utf8" for name in OWN_FORM)
