"""Bytes as text for URLs and headers: base64url without padding (RFC 4648, section 5), with one spelling only.

Python's own decoder ignores padding, unused bits and characters outside the alphabet, so that many texts stand for the
same bytes. Whoever counts, remembers or compares tokens by their text would take one token for many. Here each sequence
of bytes has exactly one text, and any other text is refused.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """The bytes of a text. Raises ValueError for any text that `encoded` never gives."""
    try:
        content = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("it is not base64url") from None
    if encoded(content) != text:
        raise ValueError("it is base64url in another spelling than the one that is taken")
    return content
