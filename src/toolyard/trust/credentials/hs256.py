"""Bearer tokens that are signed with a shared secret (HS256), verified and made. Loaded where the settings
have some to verify, and by `toolyard token`, which makes one.

Whoever can verify such a token can also make one. So a secret is for programs of one operator, and strangers' tokens
are the issuers' (`issuers`).
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...model.errors import SettingsError
from ..access.identity import Identity
from .claims import ClaimRules, identity_of
from .jwt import ParsedToken, read_token, refused, write_part

ALG = "HS256"
SHORTEST = 16
"""Characters of a secret: fewer could be tried, by anybody who has a token."""


class Hs256:
    """Verifies tokens of the shared secret. `exp` is required and at most `max_ttl_s` ahead; `aud` is checked when it
    is there."""

    def __init__(self, secret: str, audience: str | None, max_ttl_s: float, now: Callable[[], float]) -> None:
        """Raises SettingsError."""
        self._secret, self._now = _checked(secret), now
        self._rules = ClaimRules(audience, is_audience_required=False, max_ttl_s=max_ttl_s)

    def verify(self, token: bytes) -> Identity:
        return self.verify_read(read_token(token))

    def verify_read(self, token: ParsedToken) -> Identity:
        """Whose token it is. Its algorithm is looked at here, too, whoever asks: no other kind of signature is ever
        compared with the secret. Raises NotAuthenticated."""
        if token.alg != ALG:
            raise refused(f"the token's algorithm is {token.alg}, and only {ALG} is taken here")
        # In constant time: how much of a signature was right must not show.
        if not hmac.compare_digest(_signature(token.signed, self._secret), token.signature):
            raise refused("the token's signature is not made with the shared secret")
        return identity_of(token.claims, self._rules, self._now())


def signed(claims: Mapping[str, Any], secret: str) -> str:
    """A token with these claims. Raises SettingsError for a secret that no server takes."""
    header = write_part(msgspec.json.encode({"alg": ALG, "typ": "JWT"}))
    content = header + b"." + write_part(msgspec.json.encode(claims))
    return (content + b"." + write_part(_signature(content, _checked(secret)))).decode()


def _checked(secret: str) -> bytes:
    """The secret as bytes. Raises SettingsError for one that is too short, or that is a key: a public key is no secret,
    and whoever has read it could sign (the confusion of RS256 with HS256)."""
    if len(secret) < SHORTEST:
        raise SettingsError(f"jwt_secret is too short to be a secret; use at least {SHORTEST} characters")
    if secret.lstrip().startswith(("-----BEGIN", "ssh-")):
        raise SettingsError("jwt_secret is a key, not a secret; whoever signs with a key is one of the issuers")
    return secret.encode()


def _signature(content: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, content, "sha256")
