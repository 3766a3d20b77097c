"""An identity provider whose bearer tokens are taken, as the setting `issuers` names it.

Beside the folders, because settings, `credentials` and `requirements` all know it, and it loads no cryptography.
"""

from msgspec import Struct

from .provider_settings import Provider

ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
"""Signatures that are taken. Each is verified with a public key alone, so that nobody who can verify a token can make
one; the shared secret's HS256 is another setting."""


class TrustedIssuer(Struct, frozen=True):
    """An issuer of the settings, and how its tokens are read. `issuer` is what a token's `iss` must be, letter for
    letter."""

    issuer: str
    audience: str | None = None
    """What `aud` must name; without it, the setting `jwt_audience`."""
    jwks_url: str | None = None
    """Where the issuer's keys are; without it, its own metadata says so."""
    tenant_claim: str = "tenant"
    subject_claim: str = "sub"
    algorithms: tuple[str, ...] = ALGORITHMS
    max_ttl_s: float | None = None
    """How far ahead `exp` may lie; without it, as far as the issuer likes."""
    speaks_for_users: bool = False
    """Whether the issuer's tokens are programs', which may name any user of their tenant, and not people's own."""
    client: Provider | None = None
    """This server as a client there, so that people can be made to sign in."""
