"""Whether a ledger that is not open has API keys: a server must know before it listens."""

from ..model.seam import SYSTEM
from .admin_file import ledger_file
from .ledger import open_store
from .settings import MEMORY, Settings


async def has_keys(settings: Settings) -> bool:
    """Also revoked ones. A ledger that is not there is not made. Raises StoreInUse, SchemaTooNew, StoreDown."""
    path = ledger_file(settings.store)
    if settings.store == MEMORY or (path is not None and not path.exists()):
        return False
    store, _ = open_store(settings, SYSTEM)
    await store.open()
    try:
        return bool(await store.keys())
    finally:
        await store.close()
