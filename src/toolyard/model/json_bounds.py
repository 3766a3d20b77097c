"""How much one JSON text may have a decoder build: how deep it is nested, how many values it has, how long its numbers
are. It is looked at before it is decoded.

Four megabytes can be a million lists, which take a decoder and the garbage collector a second, and everybody who walks
through them later as long again; and a number of thousands of digits takes time that grows with their square. So bytes
alone do not bound the time that a text costs. All passes over it run in C and are linear in its length, and the ones
that have to tell strings from the rest come only where a count of all bytes is beyond the bound.
"""

import re
from itertools import accumulate

from msgspec import Struct

_string = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A JSON string. It never fails once it has begun, also where the end is missing, and never goes back: that keeps a
search of the whole text linear, whatever somebody sends."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as steps: one level down is 1, one level up is -1, as signed bytes."""
_SPACES = b" \t\r\n"
_NOT_DIGITS = bytes(set(range(256)) - set(b"0123456789"))
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
LARGEST_FLOATS_DIGITS = 309
"""As many as the largest float has when it is written out."""


class Excess(Struct, frozen=True):
    """What a text has too much of, as it goes on after "The request", and the bound."""

    what: str
    bound: str


class JsonBounds(Struct, frozen=True):
    """The bounds of one JSON text."""

    depth: int = 64
    """How many levels deep it is nested."""
    values: int = 250_000
    """How many values there are in all, at every level: arrays, objects, and what is in them. So many are a table of
    20,000 rows and ten columns, and take less than half a second, whatever becomes of them."""
    digits: int = LARGEST_FLOATS_DIGITS
    """How many digits a number has in a row."""

    def excess(self, json: bytes) -> Excess | None:
        """What there is too much of, if anything."""
        # Brackets are counted first, which is quick: almost no text has as many as the depth that is allowed.
        size = len(json)
        if size > 2 * self.depth:
            containers = json.count(b"[") + json.count(b"{")
            if containers > self.depth:
                # Without its strings, only its brackets and commas count.
                bare = _string.sub(b"0", json)
                if too_many := self._too_many(bare):
                    return too_many
                if _depth(bare) > self.depth:
                    return Excess("is nested too deeply", f"JSON may be nested {self.depth} levels deep")
                return self._too_long(bare)
        return self.excess_of_size(json)

    def excess_of_size(self, json: bytes) -> Excess | None:
        """As `excess`, of whatever depth."""
        if len(json) <= min(self.values, self.digits):
            return None
        if not (self._too_many(json) or self._too_long(json)):
            return None
        bare = _string.sub(b"0", json)
        return self._too_many(bare) or self._too_long(bare)

    def _too_many(self, json: bytes) -> Excess | None:
        """In JSON without strings this is exact: each value but the first of its container has a comma before it, and
        each container that is not empty has a first one. With strings it may be too many, and never too few."""
        if len(json) <= self.values:
            return None
        values = json.count(b",") + json.count(b"[") + json.count(b"{")
        if values >= self.values:
            dense = json.translate(None, _SPACES)
            values -= dense.count(b"[]") + dense.count(b"{}")
        if values < self.values:
            return None
        return Excess("has too many values", f"JSON may have {self.values:,} values, arrays and objects included")

    def _too_long(self, json: bytes) -> Excess | None:
        """In JSON without strings this is exact. A run that is too long has a digit wherever one looks at this
        distance, and most texts have none there."""
        if not json[self.digits :: self.digits + 1].translate(None, _NOT_DIGITS):
            return None
        if b"0" * (self.digits + 1) not in json.translate(_DIGITS):
            return None
        return Excess("has a number that is too long", f"a number may have {self.digits} digits in a row")


def _depth(bare: bytes) -> int:
    """Each bracket becomes a step, and the largest sum of steps is the depth."""
    return max(accumulate(memoryview(bare.translate(_STEPS, _NOT_BRACKETS)).cast("b")), default=0)
