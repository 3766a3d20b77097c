"""Who sent a request: nobody in particular on loopback, an API key, or a bearer token.

Keys are looked up by their digest, so an unknown key and a wrong one take the same time and get the same answer. What
a token shows is remembered, in a bounded table, for as long as it is valid but not for long: verifying one costs far
more than the call around it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

from ..doors import open_door
from ..model.caller import Caller
from ..model.errors import NotAuthenticated, SettingsError
from .access import Access
from .identity import Identity, Tokens

KEY_HEADERS = (b"oxp-api-key", b"otc-api-key")
MOST_REMEMBERED = 4096
REMEMBERED_S = 300.0
_key = re.compile(r"(?:(?P<name>[A-Za-z0-9_.-]+):)?(?P<key>ty_[A-Za-z0-9_.~-]{16,})").fullmatch

Headers = Mapping[bytes, bytes]
Authenticate = Callable[[Headers], Caller | Awaitable[Caller]]
"""Raises NotAuthenticated, at once or when awaited."""
FindKey = Callable[[bytes], Identity | None]
"""By its digest."""
NOBODY = Identity("default", "local")
T = TypeVar("T")


class Anyone:
    """No authentication: credentials are ignored, and the caller is `local`."""

    def __init__(self, access: Access) -> None:
        self._caller = access.caller(NOBODY)

    def __call__(self, headers: Headers) -> Caller:
        return self._caller


class Credentials:
    """API keys, bearer tokens, or both."""

    def __init__(
        self, find_key: FindKey | None, tokens: Tokens | None, access: Access, now: Callable[[], float]
    ) -> None:
        self._find_key, self._tokens, self._access, self._now = find_key, tokens, access, now
        self._verified: dict[bytes, tuple[Caller, float]] = {}
        self._callers: dict[bytes, tuple[Identity, Caller]] = {}

    def __call__(self, headers: Headers) -> Caller | Awaitable[Caller]:
        for name in KEY_HEADERS:
            if (key := headers.get(name)) is not None:
                return self._by_key(key)
        scheme, _, credential = headers.get(b"authorization", b"").partition(b" ")
        credential = credential.strip()
        if scheme.lower() != b"bearer" or not credential:
            raise NotAuthenticated("Credentials are needed", developer_message=self._accepted())
        if credential.startswith(b"ty_") or self._tokens is None:
            return self._by_key(credential)
        known = self._verified.get(credential)
        if known is not None and known[1] > self._now():
            return known[0]
        return self._by_token(credential, self._tokens)

    def _by_key(self, key: bytes) -> Caller:
        digest = sha256(key).digest()
        identity = self._find_key(digest) if self._find_key is not None else None
        if identity is None:
            raise NotAuthenticated("The credentials are not valid", developer_message="the API key is not known")
        known = self._callers.get(digest)
        if known is not None and known[0] is identity:
            return known[1]
        caller = self._access.caller(identity)
        _remember(self._callers, digest, (identity, caller))
        return caller

    def _by_token(self, token: bytes, tokens: Tokens) -> Caller | Awaitable[Caller]:
        self._verified.pop(token, None)
        shown = tokens.verify(token)
        return self._verified_as(token, shown) if isinstance(shown, Identity) else self._when_verified(token, shown)

    async def _when_verified(self, token: bytes, shown: Awaitable[Identity]) -> Caller:
        return self._verified_as(token, await shown)

    def _verified_as(self, token: bytes, identity: Identity) -> Caller:
        caller, until = self._access.caller(identity), self._now() + REMEMBERED_S
        if identity.expires is not None:
            until = min(until, identity.expires)
        _remember(self._verified, token, (caller, until))
        return caller

    def _accepted(self) -> str:
        ways = ["an API key in OXP-API-Key or as a bearer token"] if self._find_key else []
        ways += ["a JWT as a bearer token"] if self._tokens else []
        return f"send {' or '.join(ways)}"


def read_keys(entries: Sequence[str]) -> dict[bytes, Identity]:
    """Keys by digest, from `ty_…` or `name:ty_…`. Raises SettingsError; the key itself is never shown."""
    keys: dict[bytes, Identity] = {}
    for number, entry in enumerate(entries, 1):
        matched = _key(entry)
        if matched is None:
            raise SettingsError(
                f"api_keys: entry {number} is not a key; a key is 'ty_' and at least 16 letters or digits, with "
                "'name:' before it if you like"
            )
        digest = sha256(matched["key"].encode()).digest()
        name = matched["name"] or f"key-{digest.hex()[:8]}"
        keys[digest] = Identity("default", name, "key", key=name)
    return keys


def authentication(
    api_keys: Sequence[str],
    jwt_secret: str | None,
    audience: str | None,
    max_ttl_s: float,
    access: Access,
    now: Callable[[], float],
) -> Authenticate:
    """What the settings ask for."""
    if not api_keys and not jwt_secret:
        return Anyone(access)
    if jwt_secret is not None and len(jwt_secret) < 16:
        raise SettingsError("jwt_secret is too short to be a secret; use at least 16 characters")
    tokens = open_door("jwt")(jwt_secret, audience, max_ttl_s, now) if jwt_secret else None
    return Credentials(read_keys(api_keys).get if api_keys else None, tokens, access, now)


def _remember(table: dict[bytes, T], name: bytes, value: T) -> None:
    """The oldest makes room."""
    if len(table) >= MOST_REMEMBERED:
        table.pop(next(iter(table)))
    table[name] = value
