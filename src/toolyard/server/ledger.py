"""The ledger that the settings name, and the audit log in it."""

import secrets
from pathlib import Path

from ..doors import open_door
from ..model.errors import SettingsError
from ..model.seam import Seam
from ..model.supervision import Supervisor
from ..store.contract import Store, Timing
from ..store.sqlite import SqliteStore
from ..trust.audit import MAIN, Audit, AuditSettings
from ..trust.keys import LENGTH, KeyRing, ring_from
from .settings import MEMORY, Settings


def open_store(settings: Settings, seam: Seam, supervisor: Supervisor | None = None) -> tuple[Store, KeyRing]:
    """The ledger that the settings name, not opened yet, and the ring of keys beside it."""
    kind, _, path = settings.store.partition(":")
    timing = Timing(settings.retention_s, settings.key_ttl_s, settings.lease_s, settings.max_attempts)
    if kind in ("postgresql", "postgres"):
        shared: Store = open_door("postgres")(settings.store, seam.new_id(), timing, supervisor)
        return shared, ring_from(settings.secret_key, Path("toolyard.key"))
    if kind != "sqlite" or not path:
        raise SettingsError(f"store must be sqlite:FILE or postgresql://…, got {settings.store!r}")
    store = SqliteStore(path, seam.new_id(), timing, now=seam.now, supervisor=supervisor)
    if settings.store == MEMORY:
        return store, KeyRing(lambda: secrets.token_bytes(LENGTH))
    return store, ring_from(settings.secret_key, Path(path).with_suffix(".key"))


def audit_of(
    settings: Settings, store: Store, ring: KeyRing, seam: Seam, supervisor: Supervisor | None = None
) -> Audit | None:
    """Where several nodes share a ledger, each writes a chain of its own."""
    if settings.audit == "off":
        return None
    chosen = AuditSettings(settings.audit == "strict", settings.audit_input, settings.audit_retention_s)
    return Audit(store, ring, store.node if store.shared else MAIN, chosen, seam.now, supervisor)
