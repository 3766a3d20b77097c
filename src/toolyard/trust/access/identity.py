"""Whom a credential belongs to, and what it says of them. Access rules look at this; everything behind them sees only
the caller."""

from collections.abc import Awaitable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct


class Identity(Struct, frozen=True):
    """Somebody, as a credential shows them."""

    tenant: str
    subject: str
    how: Literal["none", "key", "token"] = "none"
    scopes: frozenset[str] | None = None
    """What the credential is for. None: scopes do not limit it."""
    claims: Mapping[str, Any] = {}
    """Of a token."""
    key: str | None = None
    """The name of an API key."""
    allow: tuple[str, ...] = ()
    """Patterns of the tools that an API key is for; none where it is for all of them."""
    expires: float | None = None
    """When it stops being valid, as seconds since 1970."""
    digest: bytes = b""
    """Of an API key of the ledger: it can be revoked."""
    issuer: str | None = None
    """Whose token it is, where that is a person's: somebody who can sign in there."""


class TokenVerifier(Protocol):
    """Verifies bearer tokens."""

    def verify(self, token: bytes) -> Identity | Awaitable[Identity]:
        """At once, or after what is needed for it has been fetched. Raises NotAuthenticated either way, or Unavailable
        where it cannot be fetched."""
        ...
