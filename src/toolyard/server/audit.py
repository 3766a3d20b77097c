"""What whoever runs the server may do with the audit log: read it, and check that nobody was at it.

A log may be long, so each question is about a part of it, and the answer says where the next part begins.
"""

from collections.abc import Sequence

from ..model.audit import Block, Chain, Mark
from ..store.contract_trust import AuditLog
from ..trust.audit_chain import Broken, Place, check_end, check_known, go_on, start_of
from ..trust.keys import KeyRing

AT_ONCE = 4
"""Blocks, so that calls do not wait for somebody who reads."""


class AuditDesk:
    def __init__(self, store: AuditLog, ring: KeyRing) -> None:
        self._store, self._ring = store, ring

    async def chains(self) -> list[Chain]:
        return await self._store.audit_chains()

    async def blocks(self, chain: str, after: int, since: float | None) -> list[Block]:
        """A few of them, in order; none: there are no more."""
        return await self._store.audit_blocks(chain, after, AT_ONCE, since)

    async def verify(self, name: str, place: Place, known: Sequence[Mark]) -> tuple[Place, bool]:
        """From a place on, a few blocks: how far it is whole, and whether that is the end. Raises Broken. What a
        server drops meanwhile is not missing."""
        while True:
            before = await self._store.audit_chain(name)
            try:
                return await self._verify(before, place, known)
            except Broken:
                if (await self._store.audit_chain(name)).anchor == before.anchor:
                    raise

    async def _verify(self, before: Chain, place: Place, known: Sequence[Mark]) -> tuple[Place, bool]:
        """Servers write meanwhile. A head that was read before the blocks names one that must be among them; a head
        that was read after them may be further on, but not behind."""
        check_known(self._ring, before, known)
        place = max(place, start_of(self._ring, before), key=lambda each: each.number)
        blocks = await self._store.audit_blocks(before.name, place.number, AT_ONCE)
        for block in blocks:
            place = go_on(self._ring, before.name, place, block, known)
        if len(blocks) == AT_ONCE:
            return place, False
        if before.head is not None and before.head.number > place.number:
            check_end(self._ring, before, place)
        after = await self._store.audit_chain(before.name)
        if after.head is not None and after.head.number > place.number:
            return place, False
        check_end(self._ring, after, place)
        return place, True
