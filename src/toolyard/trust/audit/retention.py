"""How long the audit log is kept: whole blocks that are too old go from the front of each chain, and a sealed anchor
stays in their place, so that the chain can still be checked from there on.

Each block is checked before it goes. One that was tampered with stays, and everything behind it, until a person has
looked at it: what cleans up must not clean up evidence.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import takewhile

from ...model.audit import Chain
from ...model.errors import ToolyardError
from ...store.contract import AuditStore
from ..sealing.ring import KeyRing
from .chain import ANCHOR, BLOCKS_AT_ONCE, Broken, go_on, sealed, start_of

FIRST_S, EVERY_S = 10.0, 600.0
"""The first time some seconds after the start, when a server has other work; then now and then."""
_log = logging.getLogger("toolyard.audit")


class AuditRetention:
    """Drops the blocks of the log that are older than `keep_s`, every ten minutes."""

    def __init__(self, store: AuditStore, ring: KeyRing, keep_s: float, now: Callable[[], float]) -> None:
        self._store, self._ring, self._keep_s, self._now = store, ring, keep_s, now

    async def run(self) -> None:
        """Drops what is old until cancelled."""
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await drop_old(self._store, self._ring, self._now() - self._keep_s)
            except ToolyardError as error:
                _log.warning("old entries of the audit log are not dropped now: %s", error.message)
            await asyncio.sleep(EVERY_S)


async def drop_old(store: AuditStore, ring: KeyRing, before: float) -> int:
    """Drops the blocks of all chains that end before that time, also of nodes that are gone; how many."""
    dropped = 0
    for chain in await store.chains():
        try:
            dropped += await _drop(store, ring, chain, before)
        except Broken as broken:
            # Another node may have dropped the same blocks meanwhile: then the chain as we had it is no longer there.
            if await store.chain(chain.name) == chain:
                _log.error("what is old in the audit log is not dropped, for it was tampered with: %s", broken)
    return dropped


async def _drop(store: AuditStore, ring: KeyRing, chain: Chain, before: float) -> int:
    position, dropped = start_of(ring, chain), 0
    while blocks := await store.blocks(chain.name, position.number, BLOCKS_AT_ONCE):
        old = list(takewhile(lambda block: block.last_at < before, blocks))
        for block in old:
            position = go_on(ring, chain.name, position, block)
        if old:
            dropped += await store.drop(sealed(ring, ANCHOR, chain.name, position))
        if len(old) < len(blocks):
            break
    return dropped
