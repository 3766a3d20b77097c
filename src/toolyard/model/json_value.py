"""JSON as strangers write it: decoded in time that is linear in its length, and one spelling for each number.

msgspec reads a number such as 1e308 or 1e-308 digit by digit, which takes a hundred times as long as 1.5: one body of
four megabytes would hold the loop for ten seconds. Python's own `float` is quick for all of them. And a whole float
that is written out as an integer has up to 309 digits, each of which costs: from `FIRST_WITH_EXPONENT` on it stays a
float, as RFC 8785 writes it.

Everything that decodes JSON here does it by this module; what was stored came from a stranger, too.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Json = bytes | bytearray | memoryview | str | msgspec.Raw
FIRST_WITH_EXPONENT = 10**21
"""The smallest number that RFC 8785 writes with an exponent."""
_LARGEST_FLOAT = int(1.7976931348623157e308)


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0.0:
        raise ValueError("Number out of range")  # in msgspec's own words, which are on the wire
    return number


def decoder(shape: type[T]) -> Callable[[Json], T]:
    """What decodes values of one type. Raises msgspec.ValidationError and msgspec.DecodeError."""
    return msgspec.json.Decoder(shape, float_hook=_finite).decode


decode = msgspec.json.Decoder(float_hook=_finite).decode
decode_infinite = msgspec.json.Decoder(float_hook=float).decode
"""The same, but 1e999 is infinite."""
_decoders: dict[Any, Callable[[Json], Any]] = {}


def decode_as(json: Json, shape: type[T]) -> T:
    made = _decoders.get(shape)
    if made is None:
        made = _decoders[shape] = decoder(shape)
    decoded: T = made(json)
    return decoded


def canonical_number(number: int | float) -> int | float:
    """The same for numbers that are equal: a whole one is an integer, and from `FIRST_WITH_EXPONENT` on a float, unless
    no float is equal to it."""
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < FIRST_WITH_EXPONENT else number
    if abs(number) < FIRST_WITH_EXPONENT or abs(number) > _LARGEST_FLOAT or (near := float(number)) != number:
        return number
    return near
