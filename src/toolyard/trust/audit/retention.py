"""What is too old goes: whole blocks from the front of each chain, and an anchor stays in their place.

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
from .chain import ANCHOR, Broken, go_on, sealed, start_of

FIRST_S, EVERY_S = 10.0, 600.0
AT_ONCE = 16
_log = logging.getLogger("toolyard.audit")


class AuditRetention:
    """Drops the blocks of the audit log that are older than `keep_s`, now and then."""

    def __init__(self, store: AuditStore, ring: KeyRing, keep_s: float, now: Callable[[], float]) -> None:
        self._store, self._ring, self._keep_s, self._now = store, ring, keep_s, now

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await drop_old(self._store, self._ring, self._now() - self._keep_s)
            except ToolyardError as error:
                _log.warning("old entries of the audit log are not dropped now: %s", error.message)
            await asyncio.sleep(EVERY_S)


async def drop_old(store: AuditStore, ring: KeyRing, before: float) -> int:
    """Drops the blocks of all chains that end before that time. How many."""
    dropped = 0
    for chain in await store.chains():
        try:
            dropped += await _drop(store, ring, chain, before)
        except Broken as broken:
            if await store.chain(chain.name) == chain:  # and not another node was faster
                _log.error("what is old in the audit log is not dropped, for it was tampered with: %s", broken)
    return dropped


async def _drop(store: AuditStore, ring: KeyRing, chain: Chain, before: float) -> int:
    place, dropped = start_of(ring, chain), 0
    while blocks := await store.blocks(chain.name, place.number, AT_ONCE):
        old = list(takewhile(lambda block: block.last_at < before, blocks))
        for block in old:
            place = go_on(ring, chain.name, place, block)
        if old:
            dropped += await store.drop(sealed(ring, ANCHOR, chain.name, place))
        if len(old) < len(blocks):
            break
    return dropped
