"""What makes two requests the same request: the tool as asked for, the user, and the input.

Never the resolved version, so that a deploy does not turn a retry into a conflict; never tokens or secrets. Input is
brought into one form first, after RFC 8785: members in order, and one spelling for each number. The ledger compares
fingerprints where a key comes again, the audit log shows them instead of inputs.
"""

import hmac
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any, Self

import msgspec
from msgspec import Raw

from ...model.call import LARGE_INPUT
from ...model.json_value import canonical_number, decode
from .ring import KeyRing

_encode = msgspec.json.Encoder(order="sorted").encode
Input = Mapping[str, Any] | Raw
"""A call's input, or the JSON of it that was kept when it came."""
_may_be_respelled = re.compile(rb"[0-9](?:[.eE]|[0-9]{21})").search
"""Whether there may be floats, or integers that have a float's spelling; it may find one where there is none, in a text
such as "3.5 l", and never overlooks one. Without any, members in order are all that the one form needs. (Written as
two alternatives, the same search takes four times as long.)"""


class Prints(tuple[bytes, ...]):
    """What one call is known by: its fingerprint by the newest key, then those by older keys. Among them counts, too,
    what the first programs would have recorded, which is made only where nothing else fits."""

    _former: Callable[[], Collection[bytes]]

    @classmethod
    def of(cls, prints: Iterable[bytes], former: Callable[[], Collection[bytes]]) -> Self:
        made = cls(prints)
        made._former = former
        return made

    def __contains__(self, fingerprint: object) -> bool:
        return super().__contains__(fingerprint) or fingerprint in self._former()


class Fingerprints:
    """Makes fingerprints with the ring's keys. They are keyed, so that a ledger that leaks does not tell whoever has it
    which guess at an input was right."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    @cached_property
    def _starts(self) -> list[blake2b]:
        """A keyed hash for each of the ring's keys, to be copied: a third of what an HMAC costs."""
        return [blake2b(key=key, digest_size=32) for key in self._ring.subkeys("fingerprint")]

    def keys_changed(self) -> None:
        """The ring has other keys now."""
        self.__dict__.pop("_starts", None)  # where `cached_property` keeps it

    def of(self, tool: str, user_id: str | None, input: Input) -> bytes:
        """The fingerprint by the newest key, which is the one to record."""
        return _digest(self._starts[0], _one_form(tool, user_id, input))

    def all_of(self, tool: str, user_id: str | None, input: Input) -> Prints:
        """The fingerprints by the newest key and by all older ones: what was recorded before a key was changed has one
        of those."""
        encoded = _one_form(tool, user_id, input)
        prints = [_digest(start, encoded) for start in self._starts]
        return Prints.of(prints, lambda: self._former_of(tool, user_id, input))

    def _former_of(self, tool: str, user_id: str | None, input: Input) -> list[bytes]:
        """HMACs: ledgers whose schema is older than their vault have these."""
        encoded = _one_form(tool, user_id, input)
        return [hmac.digest(key, encoded, sha256) for key in self._ring.subkeys("fingerprint")]


def _one_form(tool: str, user_id: str | None, input: Input) -> bytes:
    if isinstance(input, Raw):
        # Large inputs were written with their members in order when they came; to decode one again costs too much.
        if len(input_json := bytes(input)) > LARGE_INPUT and not _may_be_respelled(input_json):
            return _encode((tool, user_id, input))
        input = decode(input)
    encoded = _encode((tool, user_id, input))
    return _encode((tool, user_id, canonical(input))) if _may_be_respelled(encoded) else encoded


def _digest(start: blake2b, encoded: bytes) -> bytes:
    digest = start.copy()
    digest.update(encoded)
    return digest.digest()


def canonical(value: Any) -> Any:
    """A value in which each number has its one spelling, all the way down: 1.0 and 1 are the same number in JSON."""
    if isinstance(value, float) or type(value) is int:
        # RFC 8785 writes numbers as JavaScript does, which knows no difference between 100.0, 1e2 and 100.
        return canonical_number(value)
    if isinstance(value, dict):
        return {name: canonical(member) for name, member in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value
