"""What the claims of a token whose signature is good must say, and whom they are about (RFC 7519, RFC 9068).

The rules are one issuer's, or the shared secret's; the checks are the same for both.
"""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..access.identity import Identity
from .jwt import refused

CLOCK_SKEW_S = 30
"""By how much an issuer's clock may differ from ours, to a token's advantage where it begins and never where it
ends."""
LONGEST_NAME = 256
"""Of a tenant or a subject, which become parts of rows and log lines."""


class ClaimRules(Struct, frozen=True):
    """What the tokens of one issuer, or of the shared secret, must say, and in which claims they say who it is."""

    audience: str | None
    is_audience_required: bool
    issuer: str | None = None
    """What `iss` must be. None for the shared secret, which nobody else signs with."""
    max_ttl_s: float | None = None
    """How far ahead `exp` may lie."""
    subject_claim: str = "sub"
    tenant_claim: str = "tenant"
    speaks_for_users: bool = False
    """Whether all tokens of the issuer are programs', which may speak for any user of their tenant."""


def identity_of(claims: Mapping[str, Any], rules: ClaimRules, now: float) -> Identity:
    """Whom the claims are about. Raises NotAuthenticated where they do not say what the rules want."""
    _check_issuer(claims, rules)
    _check_audience(claims, rules)
    return Identity(
        tenant=_name(claims, rules.tenant_claim, "default"),
        subject=_name(claims, rules.subject_claim, None),
        how="token",
        scopes=_scopes(claims),
        claims=claims,
        expires=_expiry(claims, rules, now),
        issuer=None if rules.speaks_for_users or _is_program(claims) else rules.issuer,
    )


def _is_program(claims: Mapping[str, Any]) -> bool:
    """Whether a program got this token for itself: then it has the client as its subject (RFC 9068, section 2.2)."""
    return "client_id" in claims and claims["client_id"] == claims.get("sub")


def _check_issuer(claims: Mapping[str, Any], rules: ClaimRules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise refused(f"the token is not from {rules.issuer}: its iss is {claims.get('iss')!r}")


def _check_audience(claims: Mapping[str, Any], rules: ClaimRules) -> None:
    named = claims.get("aud")
    if named is None:
        # Tokens of the shared secret may leave it out: nobody else takes those.
        if rules.is_audience_required:
            raise refused(f"the token names no audience; its aud must be {rules.audience!r}")
        return
    # One text, or a list of them (RFC 7519, section 4.1.3).
    audiences = named if isinstance(named, list) else [named]
    if not all(isinstance(audience, str) for audience in audiences):
        raise refused("the token's aud is neither text nor a list of texts")
    # A token for somebody is refused, too, where the settings do not say who this server is.
    if rules.audience is None or rules.audience not in audiences:
        raise refused(f"the token is for another audience: {named!r} (setting: jwt_audience, or an issuer's audience)")


def _expiry(claims: Mapping[str, Any], rules: ClaimRules, now: float) -> float:
    """When the token ends. Raises NotAuthenticated where it has no end, or is not good now."""
    expires, starts, issued = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        raise refused("the token has no exp")
    if expires <= now:
        raise refused("the token has expired")
    if rules.max_ttl_s is not None and expires > now + rules.max_ttl_s + CLOCK_SKEW_S:
        raise refused(f"the token lives too long: exp may be at most {rules.max_ttl_s:g} s ahead")
    # A token from the future is one of a clock that is wrong, or was made to outlive its limit.
    if max(starts or 0.0, issued or 0.0) > now + CLOCK_SKEW_S:
        raise refused("the token is not valid yet (nbf or iat)")
    return expires


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    """A NumericDate of RFC 7519; None where the claim is not there."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise refused(f"the token's {name} is not a number of seconds")


def _name(claims: Mapping[str, Any], claim: str, default: str | None) -> str:
    """A tenant or a subject. Characters that cannot be shown would let two callers look like one."""
    value = claims.get(claim, default)
    if not isinstance(value, str) or not value:
        raise refused(f"the token's {claim} is missing, empty or not text")
    if len(value) > LONGEST_NAME or not value.isprintable():
        raise refused(f"the token's {claim} has more than {LONGEST_NAME} characters, or some that cannot be shown")
    return value


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The token's scopes. OAuth's `scope` is one text; some providers write `scp` instead, as a text or a list."""
    named = claims.get("scope", claims.get("scp", ""))
    scopes = named.split(" ") if isinstance(named, str) else named
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise refused("the token's scopes (scope or scp) are neither text nor a list of texts")
    return frozenset(filter(None, scopes))
