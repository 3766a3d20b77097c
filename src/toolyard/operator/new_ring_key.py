"""`toolyard secrets new-key`: an operator who has lost the key of a ledger goes on with a new one, on purpose.

A server refuses a key that does not fit what the ledger has signed and sealed. Here the refusal is lifted once, and a
note in the ledger, sealed with the new key, makes that key fit from then on. What was sealed with the old one stays
lost.
"""

import asyncio

from ..model.clock import SYSTEM_CLOCK
from ..model.errors import SettingsError
from ..server.ledger import open_store
from ..server.settings.table import Settings
from ..store.contract import Store
from ..store.values import StoreInUse
from ..trust.audit.entry import AuditKind, Entry
from ..trust.audit.key_check import MARK, hold_to_ledger
from ..trust.audit.log import MAIN, VERBS, put
from ..trust.sealing.ring import KeyRing
from ..trust.sealing.vault import Vault

SAID = "toolyard secrets new-key"
"""How the audit log names it."""


def begin_anew(settings: Settings) -> str:
    """Makes the key of the settings the key of the ledger, and says where that key is. A key file that is missing is
    made. Raises SettingsError where the key fits already, and StoreInUse while a server has the ledger open."""
    return asyncio.run(_begin_anew(settings))


async def _begin_anew(settings: Settings) -> str:
    store, ring = open_store(settings, SYSTEM_CLOCK)
    try:
        await store.open()
    except StoreInUse as used:
        raise StoreInUse("a server has this ledger; stop it, and then run this again", used.place) from None
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
    """Leaves something in the ledger that fits the new key, and an entry in the audit log."""
    await Vault(store.sealed, ring).put(MARK, b"", {"since": SYSTEM_CLOCK.now()})
    if is_audited:
        entry = Entry(SYSTEM_CLOCK.now(), AuditKind.ADMIN, tool=SAID)
        await put(store.audit, ring, VERBS if store.shared else MAIN, entry)
