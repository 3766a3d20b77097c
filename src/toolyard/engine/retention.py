"""Removes finished calls when their time is over: a few at once, so that nobody waits for it."""

import asyncio
import logging

from ..store.contract import Store, StoreDown

EVERY_S = 30.0
AT_ONCE = 500
_log = logging.getLogger("toolyard.ledger")


async def sweep(store: Store) -> None:
    """Until cancelled."""
    while True:
        try:
            while await store.sweep(AT_ONCE) == AT_ONCE:
                await asyncio.sleep(0.05)
        except StoreDown as down:
            _log.warning("old calls are not removed now: %s", down.developer_message)
        await asyncio.sleep(EVERY_S)
