"""The audit log, for operators: read it, and check that nobody has changed it.

A log may be long, so each request is about a few blocks of one chain, and the reply says where the next part begins.
`toolyard audit` asks until it has all of them.
"""

from collections.abc import Sequence

from ...model.audit import AuditBlock, Chain, Mark
from ...store.contract import AuditStore
from ...trust.audit.chain import Broken, ChainPosition, check_end, check_known, go_on, start_of
from ...trust.sealing.ring import KeyRing
from ...wires.admin import audit as wire
from ...wires.contract import Reply
from ..http import query
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts

AT_ONCE = 4
"""How many blocks are read for one request: few, so that calls do not wait for somebody who reads the log."""
LARGEST = 2.0**53
"""The largest whole number that a query parameter can name exactly, as it is read as a float."""


class AuditReader:
    """Reads the audit log of a ledger, and checks its signatures with the ring of keys."""

    def __init__(self, store: AuditStore, ring: KeyRing) -> None:
        self._store, self._ring = store, ring

    async def chains(self) -> list[Chain]:
        return await self._store.chains()

    async def blocks(self, chain: str, after: int, since: float | None) -> list[AuditBlock]:
        """The next few blocks after that number, in order; an empty list at the end of the chain."""
        return await self._store.blocks(chain, after, AT_ONCE, since)

    async def verify(self, name: str, place: ChainPosition, known: Sequence[Mark]) -> tuple[ChainPosition, bool]:
        """Checks a few blocks from a position on. Returns how far the chain is whole, and whether that is its end.
        Raises Broken, but not for blocks that a server dropped meanwhile because they were old."""
        while True:
            before = await self._store.chain(name)
            try:
                return await self._verify(before, place, known)
            except Broken:
                # Dropping old blocks moves the anchor: the check is then made again, from the new anchor on.
                if (await self._store.chain(name)).anchor == before.anchor:
                    raise

    async def _verify(self, before: Chain, place: ChainPosition, known: Sequence[Mark]) -> tuple[ChainPosition, bool]:
        """Servers write while this reads. A head that was read before the blocks names a block that must be among
        them; a head that was read after them may be further on, but not behind."""
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


async def list_chains(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Every chain with its head and anchor. Each node writes a chain of its own."""
    return wire.encode_chains(await _reader(parts).chains())


async def read_blocks(parts: OperatorParts, exchange: Exchange) -> Reply:
    """The next few blocks of a chain; `since` leaves out the blocks that ended before that time."""
    after = int(query.number(exchange, "after", 0, 0, LARGEST))
    since = query.number(exchange, "since", -1, -1, LARGEST)
    chain = query.text(exchange, "chain") or ""
    return wire.encode_blocks(await _reader(parts).blocks(chain, after, None if since < 0 else since))


async def verify(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Checks the next few blocks of a chain. That a chain is broken is a finding, not an error."""
    check = wire.decode_check(exchange.body)
    asked = check.place
    place = ChainPosition(asked.number, bytes.fromhex(asked.mac), asked.count, asked.at)
    try:
        place, done = await _reader(parts).verify(check.chain, place, [wire.mark_of(head) for head in check.heads])
    except Broken as broken:
        return wire.encode_checked(wire.AuditFinding(wrong=str(broken)))
    whole_until = wire.PlaceText(place.number, place.mac.hex(), place.count, place.at)
    return wire.encode_checked(wire.AuditFinding(whole_until, done))


def _reader(parts: OperatorParts) -> AuditReader:
    return AuditReader(parts.store.audit, parts.ring)


OPERATIONS = (
    Operation("GET", wire.CHAINS, list_chains),
    Operation("GET", wire.BLOCKS, read_blocks),
    Operation("POST", wire.VERIFY, verify, reads_json=True),
)
