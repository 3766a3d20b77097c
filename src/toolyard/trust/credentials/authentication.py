"""Who sent a request, by its headers: whoever has an API key or a bearer token, or nobody in particular where a server
asks for neither.

Keys are looked up by their digest, so an unknown key and a wrong one take the same time and get the same answer. What
a token shows is remembered, in a bounded table, for as long as it is valid but not for long: verifying one costs far
more than the call around it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ...lazy import load
from ...model.caller import Caller
from ...model.errors import NotAuthenticated, SettingsError, Unavailable
from ..access.access import Access
from ..access.identity import KEY_HEADERS, Identity, TokenVerifier
from ..issuer_settings import TrustedIssuer
from .api_keys import KnownApiKeys, digest_of

MOST_REMEMBERED = 4096
REMEMBERED_S = 300.0
"""How long a token counts without being verified again: an issuer that took a key back is heeded within this time."""
_key = re.compile(r"(?:(?P<name>[A-Za-z0-9_.-]+):)?(?P<key>ty_[A-Za-z0-9_.~-]{16,})").fullmatch

Headers = Mapping[bytes, bytes]
Authenticate = Callable[[Headers], Caller | Awaitable[Caller]]
"""Finds the caller that headers show. Raises NotAuthenticated, or Unavailable where nobody can tell; at once, or when
awaited."""
NOBODY = Identity("default", "local")
"""Whoever calls a server that asks for no credentials."""
T = TypeVar("T")


class Credentials:
    """Authenticates requests by API keys, bearer tokens, or both. Where there are neither, credentials are ignored, and
    the caller is `local`."""

    def __init__(
        self, keys: KnownApiKeys, tokens: TokenVerifier | None, access: Access, now: Callable[[], float]
    ) -> None:
        self._keys, self._access, self._now = keys, access, now
        self._verified: dict[bytes, tuple[Caller, float, float]] = {}
        """By token: its caller, and since when and until when that is believed."""
        self._callers: dict[bytes, tuple[Identity, Caller]] = {}
        """By an API key's digest: the identity that it had, and the caller made of that."""
        self.adopt(tokens)

    def adopt(self, tokens: TokenVerifier | None) -> list[tuple[Caller, bytes]]:
        """Has tokens verified by another from now on, and everybody matched with the rules anew. Returns the callers
        whom a token has let in before, and their tokens."""
        before = [(known[0], token) for token, known in self._verified.items()]
        self._tokens = tokens
        self._nobody = self._access.caller(NOBODY)
        self._verified, self._callers = {}, {}
        return before

    async def is_taken(self, token: bytes) -> bool:
        """Whether a token would be taken now, as far as anybody can tell."""
        try:
            shown = None if self._tokens is None else self._tokens.verify(token)
            if shown is not None and not isinstance(shown, Identity):
                await shown
        except NotAuthenticated:
            return False
        except Unavailable:
            return True
        return shown is not None

    def __call__(self, headers: Headers) -> Caller | Awaitable[Caller]:
        """The caller of a request. Raises NotAuthenticated or Unavailable, at once or when awaited."""
        if self._tokens is None and not self._keys.has_any:
            return self._nobody
        scheme, _, credential = headers.get(b"authorization", b"").partition(b" ")
        credential = credential.strip()
        is_bearer = scheme.lower() == b"bearer" and credential != b""
        for name in KEY_HEADERS:
            if (key := headers.get(name)) is not None:
                _refuse_others(headers, key, credential if is_bearer else key)
                return self._by_key(key)
        if not is_bearer:
            raise NotAuthenticated("Credentials are needed", developer_message=self._accepted())
        # A JWT cannot begin so: decoded, these letters are no JSON.
        if credential.startswith(b"ty_") or self._tokens is None:
            return self._by_key(credential)
        known = self._verified.get(credential)
        if known is not None and known[1] <= self._now() < known[2]:  # not so after the clock was set back, either
            return known[0]
        return self._by_token(credential, self._tokens)

    def _by_key(self, key: bytes) -> Caller:
        digest = digest_of(key)
        identity = self._keys.find(digest)
        if identity is None:
            raise NotAuthenticated("The credentials are not valid", developer_message="the API key is not known")
        # The same object until the ledger is read again: then rules may have to be matched anew.
        known = self._callers.get(digest)
        if known is not None and known[0] is identity:
            return known[1]
        caller = self._access.caller(identity)
        _remember(self._callers, digest, (identity, caller))
        return caller

    def _by_token(self, token: bytes, tokens: TokenVerifier) -> Caller | Awaitable[Caller]:
        """Verifies a token that is not remembered; a coroutine only where the issuer has to be asked for its keys."""
        self._verified.pop(token, None)
        shown = tokens.verify(token)
        return self._verified_as(token, shown) if isinstance(shown, Identity) else self._when_verified(token, shown)

    async def _when_verified(self, token: bytes, shown: Awaitable[Identity]) -> Caller:
        return self._verified_as(token, await shown)

    def _verified_as(self, token: bytes, identity: Identity) -> Caller:
        caller, now = self._access.caller(identity), self._now()
        until = now + REMEMBERED_S
        if identity.expires is not None:
            until = min(until, identity.expires)
        _remember(self._verified, token, (caller, now, until))
        return caller

    def _accepted(self) -> str:
        """What a client should send, for its developer."""
        ways = ["an API key in OXP-API-Key or as a bearer token"] if self._keys.has_any else []
        ways += ["a JWT as a bearer token"] if self._tokens else []
        return f"send {' or '.join(ways)}"


def read_keys(entries: Sequence[str]) -> dict[bytes, Identity]:
    """The keys of the setting `api_keys` by their digests, from `ty_…` or `name:ty_…`. Raises SettingsError, which
    never shows the key itself."""
    keys: dict[bytes, Identity] = {}
    for number, entry in enumerate(entries, 1):
        matched = _key(entry)
        if matched is None:
            raise SettingsError(
                f"api_keys: entry {number} is not a key; a key is 'ty_' and at least 16 letters or digits, with "
                "'name:' before it if you like"
            )
        digest = digest_of(matched["key"].encode())
        name = matched["name"] or f"key-{digest.hex()[:8]}"
        keys[digest] = Identity("default", name, "key", key=name, digest=digest)
    return keys


def token_verifier(
    jwt_secret: str | None,
    issuers: Sequence[TrustedIssuer],
    audience: str | None,
    max_ttl_s: float,
    now: Callable[[], float],
) -> TokenVerifier | None:
    """Who checks bearer tokens, if the settings name somebody who makes them. Raises SettingsError."""
    _check_issuers(issuers, audience)
    tokens: TokenVerifier | None = load("jwt")(jwt_secret, audience, max_ttl_s, now) if jwt_secret else None
    if issuers:
        tokens = load("issuers")(tokens, issuers, audience, now)
    return tokens


def _check_issuers(issuers: Sequence[TrustedIssuer], audience: str | None) -> None:
    """Raises SettingsError for issuers that could not be used safely. Each needs an audience: a token is made for one
    service, and without an audience those that were made for others would be taken, too."""
    for each in issuers:
        if not each.audience and not audience:
            raise SettingsError(
                f"issuers: {each.issuer} needs an audience; set jwt_audience to what its tokens for this server have "
                "as their aud, or give the issuer an audience of its own"
            )
    names = [each.issuer for each in issuers]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SettingsError(f"issuers: {', '.join(sorted(twice))} is named twice")
    # Where people sign in at several issuers, one of them may come by a code of another and redeem it itself, unless
    # that takes a secret which it has not (the mix-up attack, RFC 9700 section 4.4).
    clients = [each.client for each in issuers if each.client is not None]
    if len(clients) > 1 and (bare := [each.id for each in clients if not each.has_secret]):
        raise SettingsError(
            f"issuers: {bare[0]} has a client_id and no client_secret; where people sign in at several issuers, each "
            "needs one, so that none of them can use another's answer"
        )


def _refuse_others(headers: Headers, key: bytes, bearer: bytes) -> None:
    """Raises NotAuthenticated where there are several credentials: nobody could say which counts. The same one in
    several headers is one."""
    if bearer != key or any(headers.get(name, key) != key for name in KEY_HEADERS):
        raise NotAuthenticated(
            "The credentials are not valid", developer_message="there are several credentials, and they differ"
        )


def _remember(table: dict[bytes, T], name: bytes, value: T) -> None:
    """Puts a value into a bounded table, where the oldest makes room."""
    if len(table) >= MOST_REMEMBERED:
        table.pop(next(iter(table)))
    table[name] = value
