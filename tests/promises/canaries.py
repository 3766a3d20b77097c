"""Values that are known by their looks, so that whoever finds one knows that somebody leaked it.

There are two kinds. What is *private* is somebody's input or result: it may be in the ledger, and in what its owner is
told. What is *secret* is a token or a held secret: it may be nowhere but with those it was meant for.
"""

import base64
import re
from itertools import count
from random import Random

_private = re.compile(rb"prv[0-9a-f]{12}")
_numbers = count(1)
_random = Random(20260728)
PREFIX = b"hsh"


def private() -> str:
    """One that nobody had before."""
    return f"prv{next(_numbers):06x}{_random.getrandbits(24):06x}"


def secret() -> str:
    return f"{PREFIX.decode()}{next(_numbers):06x}{_random.getrandbits(64):016x}"


def privates_in(text: bytes) -> set[str]:
    return {found.decode() for found in _private.findall(text)}


def forms(value: str) -> tuple[bytes, ...]:
    """What a secret looks like, as it is and written in the ways that software writes things."""
    raw = value.encode()
    aligned = [base64.b64encode(b"x" * shift + raw) for shift in range(3)]
    inside = [aligned[0][:-4], aligned[1][4:-4], aligned[2][4:-4]]
    return (raw, raw.hex().encode(), raw[::-1], *inside)


def secrets_in(text: bytes, secrets: dict[str, tuple[bytes, ...]]) -> list[str]:
    """Which of these are in it, by name."""
    return [name for name, written in secrets.items() if any(form in text for form in written)]
