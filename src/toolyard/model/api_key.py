"""API keys as the ledger keeps them, and checks of a key's name and scopes.

The checks stand here because two ask for them: the command line, so that a mistake is reported before anything is sent,
and the wire, because a server must not rely on its clients. (Patterns of tools are checked in `patterns`.)
"""

import re

from msgspec import Struct

_name = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch
# OAuth's scope-token (RFC 6749, section 3.3), without the comma: lists of scopes are shown with commas between them.
_scope = re.compile(r"[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,128}").fullmatch


class ApiKey(Struct, frozen=True):
    """A credential by its digest: the key itself is known to whoever was given it, and to nobody else. Times are
    seconds since 1970."""

    name: str
    digest: bytes
    """The key's SHA-256."""
    tenant: str
    subject: str
    allow: tuple[str, ...] = ()
    """Patterns of the tools it is for; none where it is for all of them."""
    scopes: tuple[str, ...] = ()
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None
    is_readable: bool = True
    """Whether its row in the ledger could be read; one that could not authenticates nobody."""

    def state(self, now: float) -> str:
        """`live`, `expired` or `revoked`; of the last two, whichever came first."""
        if self.expires is not None and self.expires <= min(now, self.revoked or now):
            return "expired"
        return "live" if self.revoked is None else "revoked"


def key_name(given: object) -> str:
    """The given name of a key. Raises ValueError with a sentence for what cannot be one, as `key_scope` does."""
    if not isinstance(given, str) or not _name(given):
        raise ValueError("Must be 1 to 64 letters, digits, '_', '.' or '-'")
    return given


def key_scope(given: object) -> str:
    if not isinstance(given, str) or not _scope(given):
        raise ValueError("Must be one word, such as calls:read, without quotes, commas or backslashes")
    return given
