"""The content blocks of a result, held to what MCP says they are. An upstream is a stranger: a block that is none
becomes a text with what it is, so that nobody behind this has to wonder.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..model.json_value import Json, decode, decoder
from .faults import Misbehaved

MOST_BLOCKS = 10_000
_encode = msgspec.json.Encoder().encode


class _Text(Struct, tag="text"):
    """Text for the model."""

    text: str


class _Image(Struct, tag="image", rename="camel"):
    """A picture, in Base64."""

    data: str
    mime_type: str


class _Audio(Struct, tag="audio", rename="camel"):
    """Sound, in Base64."""

    data: str
    mime_type: str


class _Contents(Struct):
    """What a resource holds."""

    uri: str
    text: str | None = None
    blob: str | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.blob is None):
            raise ValueError("a resource has either text or a blob")


class _Resource(Struct, tag="resource"):
    """A resource, whole."""

    resource: _Contents


class _Link(Struct, tag="resource_link"):
    """Where a resource can be read."""

    uri: str
    name: str


_Block = _Text | _Image | _Audio | _Resource | _Link
_check = decoder(list[_Block])
_check_one: Callable[[Json], Any] = decoder(_Block)  # type: ignore[arg-type]


def well_formed(content: Raw) -> Raw:
    """The blocks of a result, unchanged where all of them are what MCP has; what is no list is left to whoever asks.
    Raises Misbehaved for more blocks than any result has."""
    if bytes(memoryview(content)[:1]) != b"[":
        return content
    try:
        found = _check(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Raw(_encode([_mended(each) for each in _bounded(decode(content))]))
    _bounded(found)
    return content


def _bounded(blocks: list[Any]) -> list[Any]:
    if len(blocks) > MOST_BLOCKS:
        raise Misbehaved(f"answered with more than {MOST_BLOCKS} blocks of content")
    return blocks


def _mended(block: Any) -> Any:
    try:
        _check_one(_encode(block))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = block if isinstance(block, str) else _encode(block).decode()
        return {"type": "text", "text": text}
    return block
