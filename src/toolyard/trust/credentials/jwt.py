"""A JSON Web Token, taken apart once: what is verified, and what is read afterwards, are the same bytes (RFC 7515,
7519).

Nothing in here is believed yet. What a header may ask for (a key of its own, an extension, no signature, encryption) is
refused before any key is looked at, whoever signed it.
"""

from typing import Any

import msgspec
from msgspec import Struct

from ...model.errors import NotAuthenticated
from ...model.json_value import decoder
from ...text import base64url

LONGEST = 16 * 2**10
"""Bytes of a token. Real ones have one or two thousand; a longer one is not even decoded."""
LARGEST = 2**63
_object = decoder(dict[str, Any])

BRINGS_A_KEY = ("jku", "jwk", "x5u", "x5c")
"""Members of a header by which a token names or brings the key to check it with. Anybody can sign with a key of their
own."""


class ParsedToken(Struct, frozen=True):
    """A token in its parts, not verified. `signed` are the bytes that `signature` is over."""

    alg: str
    kid: str | None
    typ: str | None
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def refused(reason: str) -> NotAuthenticated:
    """The error for a token that is not taken: one message for whoever sent it, whatever is wrong; the reason is for
    whoever reads the log."""
    return NotAuthenticated("The credentials are not valid", developer_message=reason)


def read_token(token: bytes) -> ParsedToken:
    """A token in its parts. Raises NotAuthenticated for what cannot be a token that we take, whatever its signature."""
    header, payload, signature = _parts(token)
    members = _members(header, "header")
    _check_header(members)
    return ParsedToken(
        members["alg"],
        _text(members, "kid"),
        _text(members, "typ"),
        _members(payload, "payload"),
        token[: token.rindex(b".")],  # the very bytes that came: parts that are encoded again may be others
        _bytes(signature, "signature"),
    )


def write_part(content: bytes) -> bytes:
    """A part of a token as it is written."""
    return base64url.encoded(content).encode()


def _parts(token: bytes) -> list[bytes]:
    if len(token) > LONGEST:
        raise refused(f"the token is longer than {LONGEST} bytes")
    if not token.isascii():
        raise refused("the token has characters beyond ASCII")
    parts = token.split(b".")
    if len(parts) == 5:  # RFC 7516
        raise refused("the token is encrypted (JWE), and only signed ones are taken")
    if len(parts) != 3:
        raise refused(f"a token has three parts between dots, this has {len(parts)}")
    return parts


def _bytes(part: bytes, name: str) -> bytes:
    """A part decoded. Exactly one spelling is taken, so that one token is not many: what is remembered of verified
    tokens goes by their bytes."""
    try:
        return base64url.decoded(part.decode("ascii"))
    except ValueError:
        raise refused(f"the token's {name} is not base64url") from None


def _members(part: bytes, name: str) -> dict[str, Any]:
    try:
        members = _object(_bytes(part, name))
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise refused(f"the token's {name} is not a JSON object") from None
    if not _has_usable_numbers(members):
        raise refused(f"the token's {name} has a number that is out of all proportion")
    return members


def _has_usable_numbers(value: Any) -> bool:
    """Whether all numbers are of a size that means something. JSON's may have any: one beyond this cannot become a
    float, or text for a log."""
    if isinstance(value, int | float):
        return -LARGEST <= value <= LARGEST
    if isinstance(value, dict):
        return all(map(_has_usable_numbers, value.values()))
    return all(map(_has_usable_numbers, value)) if isinstance(value, list) else True


def _check_header(members: dict[str, Any]) -> None:
    """Raises NotAuthenticated for a header that asks for anything but a signature by a key that we know."""
    if brought := [name for name in BRINGS_A_KEY if name in members]:
        raise refused(f"the token brings its own key ({', '.join(brought)}), and keys come from the issuer alone")
    if "enc" in members:
        raise refused("the token is encrypted (JWE), and only signed ones are taken")
    if members.get("b64", True) is not True:  # RFC 7797 forbids it in a JWT
        raise refused("the token's payload is not encoded (b64), which tokens may not do")
    if "crit" in members:  # RFC 7515, section 4.1.11: whoever does not know an extension must refuse
        raise refused(f"the token needs an extension that is not known here: crit {members['crit']!r}")
    alg = members.get("alg")
    if not isinstance(alg, str):
        raise refused("the token does not name its algorithm (alg)")
    if alg.lower() == "none":  # in any spelling: some libraries knew it in one alone
        raise refused("the token is not signed (alg none)")


def _text(members: dict[str, Any], name: str) -> str | None:
    value = members.get(name)
    if value is None or isinstance(value, str):
        return value
    raise refused(f"the token's {name} is not text")
