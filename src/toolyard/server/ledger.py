"""The ledger that the settings name: its store, the ring of keys beside it, the audit log in it, and whether it has API
keys, which a server must know before it listens.

Servers and the operator's verbs open ledgers through here, so that both have the same store with the same key.
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
    """The file of the ledger that this setting names, if it is one."""
    kind, _, path = store.partition(":")
    return Path(path) if kind == "sqlite" and path and store != MEMORY else None


def open_store(settings: Settings, clock: Clock, supervisor: Supervisor | None = None) -> tuple[Store, KeyRing]:
    """The store of the ledger that the settings name, not opened yet, and the ring of keys beside it. Raises
    SettingsError."""
    kind, _, path = settings.store.partition(":")
    retention = Retention(settings.retention_s, settings.key_ttl_s)
    terms = LeaseTerms(settings.lease_s, settings.max_attempts)
    if is_shared(settings):
        # Without the setting, each node would make a key in its own folder: nodes that share a ledger need the same
        # one.
        shared: Store = load("postgres")(settings.store, clock.new_id(), retention, terms, supervisor)
        return shared, ring_of(settings)
    if kind != "sqlite" or not path:
        raise SettingsError(f"store must be sqlite:FILE or postgresql://…, got {settings.store!r}")
    store = SqliteStore(path, clock.new_id(), retention, terms, now=clock.now, supervisor=supervisor)
    return store, ring_of(settings)


def ring_of(settings: Settings) -> KeyRing:
    """The ring of keys of the ledger that the settings name."""
    path = ledger_file(settings.store)
    if settings.store == MEMORY:  # its key is gone with it
        return KeyRing(lambda: secrets.token_bytes(LENGTH))
    if path is None:
        return ring_from(settings.secret_key, Path("toolyard.key"))
    return ring_from(settings.secret_key, path.with_suffix(".key"), path)


def is_shared(settings: Settings) -> bool:
    """Whether other nodes may use the ledger that the settings name."""
    return settings.store.partition(":")[0] in ("postgresql", "postgres")


def audit_of(
    settings: Settings, store: Store, ring: KeyRing, clock: Clock, supervisor: Supervisor | None = None
) -> Audit | None:
    """The audit log in a ledger. None where the settings want none. Where several nodes share a ledger, each writes a
    chain of its own: blocks are signed one after the other, and nodes must not wait for each other."""
    if settings.audit == "off":
        return None
    chosen = AuditSettings(settings.audit == "strict", settings.audit_input, settings.audit_retention_s)
    return Audit(store.audit, ring, store.node if store.shared else MAIN, chosen, clock.now, supervisor)


async def has_keys(settings: Settings) -> bool:
    """Whether a ledger has API keys, also revoked ones. A ledger that is not there is not made. Raises StoreInUse,
    SchemaTooNew, StoreDown."""
    path = ledger_file(settings.store)
    if settings.store == MEMORY or (path is not None and not path.exists()):
        return False
    store, _ = open_store(settings, SYSTEM_CLOCK)
    await store.open()
    try:
        return bool(await store.api_keys.listed())
    finally:
        await store.close()
