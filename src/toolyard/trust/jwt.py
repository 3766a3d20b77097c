"""HS256 bearer tokens with a shared secret. Loaded only where `jwt_secret` is set."""

from collections.abc import Callable
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from ..model.errors import NotAuthenticated
from .identity import Identity

CLOCK_SKEW_S = 30


class Hs256:
    """`exp` is required and at most `max_ttl_s` ahead; `aud` is checked when it is there."""

    def __init__(self, secret: str, audience: str | None, max_ttl_s: float, now: Callable[[], float]) -> None:
        self._key = OctKey.import_key(secret)
        self._audience, self._max_ttl_s, self._now = audience, max_ttl_s, now

    def verify(self, token: bytes) -> Identity:
        try:
            claims = jwt.decode(token.decode("ascii"), self._key, algorithms=["HS256"]).claims
        except (JoseError, ValueError) as error:
            raise _refused(f"the token cannot be verified: {error}") from None
        return self._identity(claims, self._expiry(claims))

    def _expiry(self, claims: dict[str, object]) -> float:
        now, expires, starts = self._now(), claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(expires, int | float) or isinstance(expires, bool):
            raise _refused("the token has no exp")
        if expires <= now:
            raise _refused("the token has expired")
        if expires > now + self._max_ttl_s + CLOCK_SKEW_S:
            raise _refused(f"the token lives too long: exp may be at most {self._max_ttl_s:g} s ahead")
        if not isinstance(starts, int | float) or starts > now + CLOCK_SKEW_S:
            raise _refused("the token is not valid yet")
        return float(expires)

    def _identity(self, claims: dict[str, Any], expires: float) -> Identity:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if audience is not None and self._audience not in audiences:
            raise _refused("the token is for another audience (setting: jwt_audience)")
        subject, tenant = claims.get("sub"), claims.get("tenant", "default")
        if not isinstance(subject, str) or not subject or not isinstance(tenant, str):
            raise _refused("the token has no sub")
        scopes = frozenset(str(claims.get("scope", "")).split())
        return Identity(tenant, subject, "token", scopes, claims, expires=expires)


def _refused(reason: str) -> NotAuthenticated:
    return NotAuthenticated("The credentials are not valid", developer_message=reason)
