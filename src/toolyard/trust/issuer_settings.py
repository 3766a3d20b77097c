"""An identity provider whose tokens are taken, as the settings name it."""

from msgspec import Struct

from .provider_settings import Provider

ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
"""Each needs a public key alone, so that nobody who can verify a token can make one."""


class TrustedIssuer(Struct, frozen=True):
    """`issuer` is what a token's `iss` must be, letter for letter."""

    issuer: str
    audience: str | None = None
    """What `aud` must name; without it, the setting `jwt_audience`."""
    jwks_url: str | None = None
    """Where its keys are; without it, the issuer's own metadata says so."""
    tenant_claim: str = "tenant"
    subject_claim: str = "sub"
    algorithms: tuple[str, ...] = ALGORITHMS
    max_ttl_s: float | None = None
    """How far ahead `exp` may lie; without it, as the issuer likes."""
    speaks_for_users: bool = False
    """Whether its tokens are programs', which may name any user of their tenant, and not people's own."""
    client: Provider | None = None
    """This server as a client there, so that people can be made to sign in."""
