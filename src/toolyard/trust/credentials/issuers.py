"""Bearer tokens of identity providers, beside those of the shared secret.

A token says by itself which algorithm and which issuer it is of. That is used to choose who verifies it, and for
nothing else: HS256 goes to the shared secret alone, everything else to the public keys of the issuer it names.
"""

from collections.abc import Awaitable, Callable, Sequence

from ..access.identity import Identity
from ..issuer_settings import ALGORITHMS, TrustedIssuer
from .claims import ClaimRules, identity_of
from .discovery import Discovery
from .hs256 import ALG, Hs256
from .jwk import PublicKey
from .jwks_cache import PublishedKeys
from .jwt import ParsedToken, read_token, refused

TYPES = {"jwt", "at+jwt", "application/jwt", "application/at+jwt"}
"""What `typ` may be, in small letters: a JWT, or an access token (RFC 9068). An issuer signs other things, too, with
the same keys, such as logout tokens."""


class Issuer:
    """Verifies the tokens of one identity provider, with the keys that it publishes and the rules of the settings."""

    def __init__(self, trusted: TrustedIssuer, audience: str, now: Callable[[], float]) -> None:
        self.name, self._algorithms, self._now = trusted.issuer, trusted.algorithms, now
        self._keys = PublishedKeys(trusted.issuer, Discovery(trusted.issuer, trusted.jwks_url).keys, now)
        self._rules = ClaimRules(
            audience,
            is_audience_required=True,
            issuer=trusted.issuer,
            max_ttl_s=trusted.max_ttl_s,
            subject_claim=trusted.subject_claim,
            tenant_claim=trusted.tenant_claim,
            speaks_for_users=trusted.speaks_for_users,
        )

    def verify_read(self, token: ParsedToken) -> Identity | Awaitable[Identity]:
        """Whose token it is: at once where the key is at hand. Raises NotAuthenticated, or Unavailable."""
        if token.alg not in self._algorithms:
            raise refused(
                f"the token's algorithm is {token.alg}; of {self.name}, {', '.join(self._algorithms)} are taken"
            )
        if token.typ is not None and token.typ.lower() not in TYPES:
            raise refused(f"the token is no access token: its typ is {token.typ!r}")
        key = self._keys.find(token)
        return self._verify_later(token) if key is None else self._verify_with(key, token)

    async def _verify_later(self, token: ParsedToken) -> Identity:
        # It ends: after a refresh that brought no such key, `find` raises.
        while (key := self._keys.find(token)) is None:
            await self._keys.refresh()
        return self._verify_with(key, token)

    def _verify_with(self, key: PublicKey, token: ParsedToken) -> Identity:
        key.check(token)
        return identity_of(token.claims, self._rules, self._now())


class Issuers:
    """Verifies bearer tokens of any number of issuers, and of the shared secret if there is one."""

    def __init__(
        self, shared: Hs256 | None, trusted: Sequence[TrustedIssuer], audience: str | None, now: Callable[[], float]
    ) -> None:
        """`audience` is that of issuers which have none of their own; one of both is always there."""
        self._shared = shared
        self._issuers = {each.issuer: Issuer(each, each.audience or audience or "", now) for each in trusted}

    def verify(self, token: bytes) -> Identity | Awaitable[Identity]:
        """Whose token it is; as `TokenVerifier` says it."""
        read = read_token(token)
        # Decided by the algorithm before the issuer: a public key is never used as the secret of an HMAC.
        if read.alg == ALG:
            if self._shared is None:
                raise refused(f"the token's algorithm is {ALG}, and there is no shared secret (setting: jwt_secret)")
            return self._shared.verify_read(read)
        if read.alg not in ALGORITHMS:
            raise refused(f"the token's algorithm is {read.alg}, which is not taken")
        named = read.claims.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise refused(f"the token's iss is {named!r}, which the setting issuers does not name")
        return issuer.verify_read(read)
