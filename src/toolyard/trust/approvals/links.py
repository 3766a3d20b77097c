"""trust/approvals/links.py"""

import base64

from ...text import base64url

PATH = "/approvals"
_SIGNED, _CODE = "approval", "approval code"
_LENGTH = 12
THEN = "once it is approved, make the same call again, with the same input, to get its result"
"""A model has no other way to come by it."""


def number_in(id: str) -> int | None:
    """The number of the call that an address would be of, whether or not it was given out."""
    number = id.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else None


def plain(code: str) -> str:
    """However somebody types it."""
    return "".join(letter for letter in code[:64].upper() if letter.isalnum())


def _id(seq: int, signature: bytes) -> str:
    return f"{seq}-{base64url.encoded(signature[:_LENGTH])}"


def _code(signature: bytes) -> str:
    text = base64.b32encode(signature).decode()
    return f"{text[:4]}-{text[4:8]}"
