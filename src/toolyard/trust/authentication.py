"""Who sent a request: nobody in particular on loopback, an API key, or a bearer token.

Keys are compared by their digest, so an unknown key and a wrong one take the same time and get the same answer.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256

from ..doors import open_door
from ..model.caller import LOCAL, Caller
from ..model.errors import NotAuthenticated, SettingsError, Unavailable
from .identity import Identity, Tokens
from .trusted_issuer import TrustedIssuer

KEY_HEADERS = (b"oxp-api-key", b"otc-api-key")
_key = re.compile(r"(?:(?P<name>[A-Za-z0-9_.-]+):)?(?P<key>ty_[A-Za-z0-9_.~-]{16,})").fullmatch

COME_BACK_MS = 1000

Authenticate = Callable[[Mapping[bytes, bytes]], Caller]


def anyone(headers: Mapping[bytes, bytes]) -> Caller:
    """No authentication: credentials are ignored, and the caller is `local`."""
    return LOCAL


class Credentials:
    """API keys, bearer tokens, or both."""

    def __init__(self, keys: Mapping[bytes, Caller], tokens: Tokens | None) -> None:
        self._keys, self._tokens = keys, tokens

    def __call__(self, headers: Mapping[bytes, bytes]) -> Caller | Awaitable[Caller]:
        """To be awaited only where something has to be fetched before a token can be verified."""
        for name in KEY_HEADERS:
            if (key := headers.get(name)) is not None:
                return self._by_key(key)
        scheme, _, credential = headers.get(b"authorization", b"").partition(b" ")
        credential = credential.strip()
        if scheme.lower() != b"bearer" or not credential:
            raise NotAuthenticated("Credentials are needed", developer_message=self._accepted())
        if credential.startswith(b"ty_") or self._tokens is None:
            return self._by_key(credential)
        verified = self._tokens.verify(credential)
        return _caller(verified) if isinstance(verified, Identity) else _caller_later(verified)

    def _by_key(self, key: bytes) -> Caller:
        caller = self._keys.get(sha256(key).digest())
        if caller is None:
            raise NotAuthenticated("The credentials are not valid", developer_message="the API key is not known")
        return caller

    def _accepted(self) -> str:
        ways = ["an API key in OXP-API-Key or as a bearer token"] if self._keys else []
        ways += ["a JWT as a bearer token"] if self._tokens else []
        return f"send {' or '.join(ways)}"


def _caller(identity: Identity) -> Caller:
    return Caller(identity.tenant, identity.subject)


async def _caller_later(verified: Awaitable[Identity]) -> Caller:
    return _caller(await verified)


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
        digest = sha256(matched["key"].encode()).digest()
        keys[digest] = Caller("default", matched["name"] or f"key-{digest.hex()[:8]}")
    return keys


def at_once(credentials: Credentials) -> Authenticate:
    """For whoever cannot wait: what has to be fetched is fetched meanwhile, and the caller is told to come back. Nobody
    is let in on a promise."""
    fetching: set[asyncio.Future[Caller]] = set()

    def ended(task: asyncio.Future[Caller]) -> None:
        fetching.discard(task)
        if not task.cancelled():
            task.exception()  # it is told to whoever comes back

    def authenticate(headers: Mapping[bytes, bytes]) -> Caller:
        caller = credentials(headers)
        if isinstance(caller, Caller):
            return caller
        task = asyncio.ensure_future(caller)
        fetching.add(task)
        task.add_done_callback(ended)
        raise Unavailable(
            "Credentials cannot be checked yet",
            retry_after_ms=COME_BACK_MS,
            developer_message="the keys of the token's issuer are being fetched",
        )

    return authenticate


def authentication(
    api_keys: Sequence[str],
    jwt_secret: str | None,
    audience: str | None,
    max_ttl_s: float,
    now: Callable[[], float],
    issuers: Sequence[TrustedIssuer] = (),
) -> Authenticate:
    """What the settings ask for."""
    if not api_keys and not jwt_secret and not issuers:
        return anyone
    _check_issuers(issuers, audience)
    tokens: Tokens | None = open_door("jwt")(jwt_secret, audience, max_ttl_s, now) if jwt_secret else None
    if issuers:
        tokens = open_door("issuers")(tokens, issuers, audience, now)
    return at_once(Credentials(read_keys(api_keys), tokens))


def _check_issuers(issuers: Sequence[TrustedIssuer], audience: str | None) -> None:
    """A token is made for somebody, and without an audience those for others would be taken, too."""
    for each in issuers:
        if not each.audience and not audience:
            raise SettingsError(
                f"issuers: {each.issuer} needs an audience; set jwt_audience to what its tokens for this server have "
                "as their aud, or give the issuer an audience of its own"
            )
    names = [each.issuer for each in issuers]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SettingsError(f"issuers: {', '.join(sorted(twice))} is named twice")
