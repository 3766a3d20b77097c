"""What a ledger looks like to somebody who looks after it: read beside whoever uses it, and changed in nothing. It is
not even brought up to date. `sqlite/inspection.py` and `postgres/inspection.py` make it."""

from msgspec import Struct

from ..model.audit import Mark

COUNTED = {
    "calls": ("SELECT count(*) FROM calls", "SELECT coalesce(sum(count), 0) FROM blocks"),
    "call_ids": ("SELECT count(*) FROM keys",),
    "api_keys": ("SELECT count(*) FROM api_keys WHERE revoked IS NULL",),
    "revoked_keys": ("SELECT count(*) FROM api_keys WHERE revoked IS NOT NULL",),
    "sessions": ("SELECT count(*) FROM sessions",),
    "sealed": ("SELECT count(*) FROM vault",),
    "audit_entries": ("SELECT coalesce(sum(count), 0) FROM audit",),
}
"""What both stores are asked for their holdings."""


class Holdings(Struct, frozen=True):
    """How much a ledger has of each thing."""

    calls: int
    call_ids: int
    """Those that are taken: a call with one of them is not run again."""
    api_keys: int
    """Those that are not revoked."""
    revoked_keys: int
    sessions: int
    sealed: int
    """Secrets, and accounts at providers."""
    audit_entries: int


class Inspection(Struct, frozen=True):
    """A ledger at a moment."""

    version: str
    """Of the database, such as `SQLite 3.54.1`."""
    schema: int
    """The number of the last migration that it has; 0 where it is empty."""
    known_schema: int
    """The number of the last one that this toolyard knows."""
    damage: tuple[str, ...] = ()
    newest_at: float = 0.0
    """When it was last written, as far as its rows tell."""
    clock_ahead_s: float = 0.0
    """How far the database's clock is ahead of this machine's."""
    expiring: tuple[tuple[str, float], ...] = ()
    """API keys that are not revoked and end at some time, by name, and when."""
    has_api_keys: bool = False
    """Whether there is any, revoked ones included: then every caller needs one."""
    heads: tuple[Mark, ...] = ()
    """Of the audit log's chains. The ledger's key has sealed them."""
    has_sealed: bool = False
    """Whether there are secrets or accounts in it, which only its key opens."""
