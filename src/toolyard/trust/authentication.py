"""Who sent a request: nobody in particular on loopback, an API key, or a bearer token.

Keys are compared by their digest, so an unknown key and a wrong one take the same time and get the same answer.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..doors import open_door
from ..model.caller import LOCAL, Caller
from ..model.errors import NotAuthenticated, SettingsError
from .api_keys import KnownKeys, digest_of

KEY_HEADERS = (b"oxp-api-key", b"otc-api-key")
_key = re.compile(r"(?:(?P<name>[A-Za-z0-9_.-]+):)?(?P<key>ty_[A-Za-z0-9_.~-]{16,})").fullmatch

Authenticate = Callable[[Mapping[bytes, bytes]], Caller]


class Tokens(Protocol):
    """Verifies bearer tokens. Raises NotAuthenticated."""

    def authenticate(self, token: bytes) -> Caller: ...


class Credentials:
    """API keys, bearer tokens, or both. Where there are neither, credentials are ignored, and the caller is `local`."""

    def __init__(self, keys: KnownKeys, tokens: Tokens | None) -> None:
        self._keys, self._tokens = keys, tokens

    def __call__(self, headers: Mapping[bytes, bytes]) -> Caller:
        if self._tokens is None and not self._keys.has_any:
            return LOCAL
        for name in KEY_HEADERS:
            if (key := headers.get(name)) is not None:
                return self._by_key(key)
        scheme, _, credential = headers.get(b"authorization", b"").partition(b" ")
        credential = credential.strip()
        if scheme.lower() != b"bearer" or not credential:
            raise NotAuthenticated("Credentials are needed", developer_message=self._accepted())
        if credential.startswith(b"ty_") or self._tokens is None:
            return self._by_key(credential)
        return self._tokens.authenticate(credential)

    def _by_key(self, key: bytes) -> Caller:
        identity = self._keys.find(digest_of(key))
        if identity is None:
            raise NotAuthenticated("The credentials are not valid", developer_message="the API key is not known")
        return Caller(identity.tenant, identity.subject)

    def _accepted(self) -> str:
        ways = ["an API key in OXP-API-Key or as a bearer token"] if self._keys.has_any else []
        ways += ["a JWT as a bearer token"] if self._tokens else []
        return f"send {' or '.join(ways)}"


def read_keys(entries: Sequence[str]) -> dict[bytes, Caller]:
    """Keys by digest, from `ty_…` or `name:ty_…`. Raises SettingsError; the key itself is never shown."""
    keys: dict[bytes, Caller] = {}
    for number, entry in enumerate(entries, 1):
        matched = _key(entry)
        if matched is None:
            raise SettingsError(
                f"api_keys: entry {number} is not a key; a key is 'ty_' and at least 16 letters or digits, with "
                "'name:' before it if you like"
            )
        digest = digest_of(matched["key"].encode())
        keys[digest] = Caller("default", matched["name"] or f"key-{digest.hex()[:8]}")
    return keys


def authentication(
    keys: KnownKeys,
    jwt_secret: str | None,
    audience: str | None,
    max_ttl_s: float,
    now: Callable[[], float],
) -> Authenticate:
    """What the settings and the ledger ask for."""
    if jwt_secret is not None and len(jwt_secret) < 16:
        raise SettingsError("jwt_secret is too short to be a secret; use at least 16 characters")
    tokens = open_door("jwt")(jwt_secret, audience, max_ttl_s, now) if jwt_secret else None
    return Credentials(keys, tokens)
