"""What whoever runs the server may do with the audit log: read it, and check that nobody was at it.

A log may be long, so each question is about a part of it, and the answer says where the next part begins.

`/v1/admin/audit`: the audit log, for the operator's own tools.
"""

from collections.abc import Sequence

from ...model.audit import AuditBlock, Chain, Mark
from ...store.contract import AuditStore
from ...trust.audit.chain import Broken, ChainPosition, check_end, check_known, go_on, start_of
from ...trust.sealing.ring import KeyRing
from ...wires.admin import audit as wire
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Route

AT_ONCE = 4
"""Blocks, so that calls do not wait for somebody who reads."""


class AuditReader:
    def __init__(self, store: AuditStore, ring: KeyRing) -> None:
        self._store, self._ring = store, ring

    async def chains(self) -> list[Chain]:
        return await self._store.chains()

    async def blocks(self, chain: str, after: int, since: float | None) -> list[AuditBlock]:
        """A few of them, in order; none: there are no more."""
        return await self._store.blocks(chain, after, AT_ONCE, since)

    async def verify(self, name: str, place: ChainPosition, known: Sequence[Mark]) -> tuple[ChainPosition, bool]:
        """From a place on, a few blocks: how far it is whole, and whether that is the end. Raises Broken. What a
        server drops meanwhile is not missing."""
        while True:
            before = await self._store.chain(name)
            try:
                return await self._verify(before, place, known)
            except Broken:
                if (await self._store.chain(name)).anchor == before.anchor:
                    raise

    async def _verify(self, before: Chain, place: ChainPosition, known: Sequence[Mark]) -> tuple[ChainPosition, bool]:
        """Servers write meanwhile. A head that was read before the blocks names one that must be among them; a head
        that was read after them may be further on, but not behind."""
        check_known(self._ring, before, known)
        place = max(place, start_of(self._ring, before), key=lambda each: each.number)
        blocks = await self._store.blocks(before.name, place.number, AT_ONCE)
        for block in blocks:
            place = go_on(self._ring, before.name, place, block, known)
        if len(blocks) == AT_ONCE:
            return place, False
        if before.head is not None and before.head.number > place.number:
            check_end(self._ring, before, place)
        after = await self._store.chain(before.name)
        if after.head is not None and after.head.number > place.number:
            return place, False
        check_end(self._ring, after, place)
        return place, True


LARGEST = 2.0**53


def routes(desk: AuditReader) -> list[Route]:
    async def chains(exchange: Exchange) -> Reply:
        return wire.encode_chains(await desk.chains())

    async def blocks(exchange: Exchange) -> Reply:
        after = int(query.number(exchange, "after", 0, 0, LARGEST))
        since = query.number(exchange, "since", -1, -1, LARGEST)
        chain = query.text(exchange, "chain") or ""
        return wire.encode_blocks(await desk.blocks(chain, after, None if since < 0 else since))

    async def verify(exchange: Exchange) -> Reply:
        check = wire.decode_check(exchange.body)
        return wire.encode_checked(await _checked(desk, check))

    return [
        Route("GET", wire.CHAINS, chains, LIFECYCLE, who="operator"),
        Route("GET", wire.BLOCKS, blocks, LIFECYCLE, who="operator"),
        Route("POST", wire.VERIFY, verify, LIFECYCLE, reads_json=True, who="operator"),
    ]


async def _checked(desk: AuditReader, check: wire.AuditCheck) -> wire.AuditFinding:
    given = check.place
    place = ChainPosition(given.number, bytes.fromhex(given.mac), given.count, given.at)
    try:
        place, done = await desk.verify(check.chain, place, [wire.mark_of(head) for head in check.heads])
    except Broken as broken:
        return wire.AuditFinding(wrong=str(broken))
    return wire.AuditFinding(wire.PlaceText(place.number, place.mac.hex(), place.count, place.at), done)
