"""What a ledger looks like to somebody who looks after it: read beside whoever uses it, and changed in nothing. It is
not even brought up to date. `sqlite/inspection.py` and `postgres/inspection.py` make it."""

from msgspec import Struct

from ..model.audit import Mark


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
