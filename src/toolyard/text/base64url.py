"""Bytes as text that goes into addresses and headers: base64url without padding (RFC 4648, section 5).

Python's own decoder takes padding or none, bits that nobody needs, and letters that are none: many texts for the same
bytes. Whoever counts, remembers or compares by the text would take one thing for many. So there is exactly one text for
some bytes here, and any other is refused.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Raises ValueError for what `encoded` never gives."""
    try:
        content = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("it is not base64url") from None
    if encoded(content) != text:
        raise ValueError("it is base64url in another spelling than the one that is taken")
    return content
