"""What makes two requests the same request: the tool as asked for, the user, and the input.

Never the resolved version, so that a deploy does not turn a retry into a conflict; never tokens or secrets. Input is
brought into one form first, after RFC 8785: members in order, and one spelling for each number.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw

from ...model.call import LARGE_INPUT
from ...model.json_value import canonical_number, decode
from .ring import KeyRing

_encode = msgspec.json.Encoder(order="sorted").encode
Input = Mapping[str, Any] | Raw
"""A call's input, or the JSON of it that was kept when it came."""
_may_be_respelled = re.compile(rb"[0-9][.eE]|[0-9]{22}").search
"""Whether there may be floats, or integers that have a float's spelling. Without any, the one form is the one that is
there."""


class Fingerprints:
    """Keyed, so that a ledger that leaks does not tell which guess at an input was right."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    @cached_property
    def _starts(self) -> list[blake2b]:
        """One for each key. A third of what an HMAC costs."""
        return [blake2b(key=key, digest_size=32) for key in self._ring.subkeys("fingerprint")]

    def of(self, tool: str, user_id: str | None, input: Input) -> bytes:
        return _digest(self._starts[0], _one_form(tool, user_id, input))

    def all_of(self, tool: str, user_id: str | None, input: Input) -> tuple[bytes, ...]:
        """By the newest key, and by older ones: what was recorded before a key was changed has one of those."""
        encoded = _one_form(tool, user_id, input)
        return tuple(_digest(start, encoded) for start in self._starts)


def _one_form(tool: str, user_id: str | None, input: Input) -> bytes:
    if isinstance(input, Raw):
        if len(input_json := bytes(input)) > LARGE_INPUT and not _may_be_respelled(input_json):
            return _encode((tool, user_id, input))  # its members are in order
        input = decode(input)
    encoded = _encode((tool, user_id, input))
    return _encode((tool, user_id, canonical(input))) if _may_be_respelled(encoded) else encoded


def _digest(start: blake2b, encoded: bytes) -> bytes:
    digest = start.copy()
    digest.update(encoded)
    return digest.digest()


def canonical(value: Any) -> Any:
    """Each number in its one spelling, all the way down."""
    if isinstance(value, float) or type(value) is int:
        return canonical_number(value)
    if isinstance(value, dict):
        return {name: canonical(member) for name, member in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value
