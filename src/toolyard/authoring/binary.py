"""Bytes in JSON: as Base64, in and out, wherever they stand in a type.

pydantic takes them for UTF-8, which most bytes are not. Its own setting for Base64 is one of each model, and writes
another alphabet than `contentEncoding: base64` stands for; so a type's core schema is changed before anything is made
of it. A type that says itself how it looks in JSON is left alone.
"""

from base64 import b64decode, b64encode
from binascii import Error
from math import ceil
from typing import Any

OWN_FORM = ("val_json_bytes", "ser_json_bytes")
"""What an author's model may say of its bytes."""
_NOT_SCHEMAS = frozenset({"metadata", "default", "config", "serialization", "expected", "cls"})


def encoded(value: Any) -> Any:
    """Their text; what is something else stays so, for the output schema to refuse."""
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else value


def decoded(value: Any) -> Any:
    """Bytes of their text; anything else as it is, for the type to refuse."""
    if not isinstance(value, str):
        return value
    try:
        return b64decode(value.encode(), validate=True)
    except (Error, ValueError):
        raise ValueError("Must be Base64, as RFC 4648 has it") from None


def length_of(bytes_: int) -> int:
    """How long so many bytes are in Base64."""
    return 4 * ceil(bytes_ / 3)


def in_base64(schema: Any) -> Any:
    """A core schema with all of its bytes as Base64; itself where it has none."""
    if isinstance(schema, list | tuple):
        made = [in_base64(each) for each in schema]
        return schema if all(new is old for new, old in zip(made, schema, strict=True)) else type(schema)(made)
    if not isinstance(schema, dict) or "serialization" in schema or has_own_form(schema.get("config")):
        return schema
    if schema.get("type") == "bytes":
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
