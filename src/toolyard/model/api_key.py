"""API keys as the ledger has them, and what their parts may look like.

The checks stand here because three ask for them: the command line, so that a mistake is told before anything is sent,
the wire, because it must not rely on that, and whoever reads a pattern later.
"""

import re

from msgspec import Struct

_name = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch
_pattern = re.compile(
    r"\*|[A-Za-z0-9_*]{1,128}\.[A-Za-z0-9_*]{1,128}(@[0-9*]{1,9}(\.[0-9*]{1,9}\.[0-9*]{1,9})?)?"
    r"|(prompts|resources)/[\x21-\x7e]{1,256}"
).fullmatch
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

    def state(self, now: float) -> str:
        """`live`, `expired` or `revoked`, whichever of the two came first."""
        if self.expires is not None and self.expires <= min(now, self.revoked or now):
            return "expired"
        return "live" if self.revoked is None else "revoked"


def key_name(given: object) -> str:
    """Raises ValueError with a sentence, as the others do."""
    if not isinstance(given, str) or not _name(given):
        raise ValueError("Must be 1 to 64 letters, digits, '_', '.' or '-'")
    return given


def tool_pattern(given: object) -> str:
    """`Toolkit.Tool`, with a version if need be, `prompts/…` or `resources/…`, and with `*` where anything may
    stand."""
    if not isinstance(given, str) or not _pattern(given):
        raise ValueError("Must be a tool's id, with * where anything may stand: Calculator.Add, Calculator.* or *")
    return given


def key_scope(given: object) -> str:
    if not isinstance(given, str) or not _scope(given):
        raise ValueError("Must be one word, such as calls:read, without quotes, commas or backslashes")
    return given
