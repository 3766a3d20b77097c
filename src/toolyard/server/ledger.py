"""The ledger that the settings name, and the audit log in it.

Whether a ledger that is not open has API keys: a server must know before it listens.
"""

import secrets
from pathlib import Path

from ..lazy import load
from ..model.clock import SYSTEM_CLOCK, Clock
from ..model.errors import SettingsError
from ..model.writes import LeaseTerms
from ..store.contract import Store
from ..store.sqlite.store import SqliteStore
from ..store.values import Retention
from ..supervision import Supervisor
from ..trust.audit.log import MAIN, Audit, AuditSettings
from ..trust.sealing.ring import LENGTH, KeyRing, ring_from
from .settings.table import MEMORY, Settings


def ledger_file(store: str) -> Path | None:
    """The ledger that this setting names, if it is a file."""
    kind, _, path = store.partition(":")
    return Path(path) if kind == "sqlite" and path and store != MEMORY else None


def open_store(settings: Settings, seam: Clock, supervisor: Supervisor | None = None) -> tuple[Store, KeyRing]:
    """The ledger that the settings name, not opened yet, and the ring of keys beside it."""
    kind, _, path = settings.store.partition(":")
    retention = Retention(settings.retention_s, settings.key_ttl_s)
    terms = LeaseTerms(settings.lease_s, settings.max_attempts)
    if kind in ("postgresql", "postgres"):
        shared: Store = load("postgres")(settings.store, seam.new_id(), retention, terms, supervisor)
        return shared, ring_from(settings.secret_key, Path("toolyard.key"))
    if kind != "sqlite" or not path:
        raise SettingsError(f"store must be sqlite:FILE or postgresql://…, got {settings.store!r}")
    store = SqliteStore(path, seam.new_id(), retention, terms, now=seam.now, supervisor=supervisor)
    if settings.store == MEMORY:
        return store, KeyRing(lambda: secrets.token_bytes(LENGTH))
    return store, ring_from(settings.secret_key, Path(path).with_suffix(".key"))


def audit_of(
    settings: Settings, store: Store, ring: KeyRing, seam: Clock, supervisor: Supervisor | None = None
) -> Audit | None:
    """Where several nodes share a ledger, each writes a chain of its own."""
    if settings.audit == "off":
        return None
    chosen = AuditSettings(settings.audit == "strict", settings.audit_input, settings.audit_retention_s)
    return Audit(store.audit, ring, store.node if store.shared else MAIN, chosen, seam.now, supervisor)


async def has_keys(settings: Settings) -> bool:
    """Also revoked ones. A ledger that is not there is not made. Raises StoreInUse, SchemaTooNew, StoreDown."""
    path = ledger_file(settings.store)
    if settings.store == MEMORY or (path is not None and not path.exists()):
        return False
    store, _ = open_store(settings, SYSTEM_CLOCK)
    await store.open()
    try:
        return bool(await store.api_keys.listed())
    finally:
        await store.close()
