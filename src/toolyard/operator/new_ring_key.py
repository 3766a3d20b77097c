"""How an operator goes on without the key that the ledger was signed and sealed with: once, and on purpose."""

import asyncio

from ..model.clock import SYSTEM_CLOCK
from ..model.errors import SettingsError
from ..server.ledger import open_store
from ..server.settings.table import Settings
from ..store.contract import Store
from ..trust.audit.entry import Entry
from ..trust.audit.key_check import MARK, hold_to_ledger
from ..trust.audit.log import MAIN, VERBS, put
from ..trust.sealing.ring import KeyRing
from ..trust.sealing.vault import Vault

SAID = "toolyard secrets new-key"


def begin_anew(settings: Settings) -> str:
    """Where the key is that the ledger has from now on. A key file that is missing is made. Raises SettingsError where
    the key fits already, and StoreInUse while a server has the ledger."""
    return asyncio.run(_begin_anew(settings))


async def _begin_anew(settings: Settings) -> str:
    store, ring = open_store(settings, SYSTEM_CLOCK)
    await store.open()
    try:
        await hold_to_ledger(ring, store)
        if ring.refusal is None:
            raise SettingsError(
                "the key is there and fits this ledger; 'toolyard secrets rotate --help' says how to change it"
            )
        ring.refusal = None
        await _mark(store, ring, is_audited=settings.audit != "off")
    finally:
        await store.close()
    return "secret_key" if ring.file is None else str(ring.file)


async def _mark(store: Store, ring: KeyRing, *, is_audited: bool) -> None:
    """From now on something in the ledger fits the key."""
    await Vault(store.sealed, ring).put(MARK, b"", {"since": SYSTEM_CLOCK.now()})
    if is_audited:
        await put(store.audit, ring, VERBS if store.shared else MAIN, Entry(SYSTEM_CLOCK.now(), "admin", tool=SAID))
