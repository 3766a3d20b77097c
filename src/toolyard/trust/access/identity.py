"""Whom a credential belongs to, and what it says of them.

`credentials` makes an identity of a key or a token, and access rules make a caller of the identity: everything behind
them, the engine above all, sees the caller alone, which has no claims and no scopes.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

KEY_HEADERS = (b"oxp-api-key", b"otc-api-key")
"""The headers for an API key: OXP's, and the same of OTC."""
CREDENTIAL_HEADERS = (b"authorization", *KEY_HEADERS)
"""All headers that may have credentials, for whoever counts them, compares them, or refuses two of a kind."""


class Identity(Struct, frozen=True):
    """Somebody, as their credential shows them: who they are, and how far that credential reaches."""

    tenant: str
    subject: str
    how: Literal["none", "key", "token"] = "none"
    scopes: frozenset[str] | None = None
    """What the credential is for. None: scopes do not limit it."""
    claims: Mapping[str, Any] = {}
    """All claims of a token, which rules may ask for by name."""
    key: str | None = None
    """The name of an API key."""
    allow: tuple[str, ...] = ()
    """Patterns of the tools that an API key is for; none where it is for all of them."""
    expires: float | None = None
    """When it stops being valid, as seconds since 1970."""
    digest: bytes = b""
    """The digest of an API key of the ledger, by which it is noticed when that key is revoked."""
    issuer: str | None = None
    """Whose token it is, where that is a person's: somebody who can sign in there."""


class TokenVerifier(Protocol):
    """Whoever can verify a bearer token and say whose it is: the shared secret, or the issuers of the settings."""

    def verify(self, token: bytes) -> Identity | Awaitable[Identity]:
        """The identity at once where the key for the token is at hand, as it almost always is; otherwise when awaited,
        after that key has been fetched. Raises NotAuthenticated either way, or Unavailable where it cannot be
        fetched."""
        ...
