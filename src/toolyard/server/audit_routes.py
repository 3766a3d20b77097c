"""`/v1/admin/audit`: the audit log, for the operator's own tools."""

from ..trust.audit_chain import Broken, Place
from ..wires import audit as wire
from ..wires.contract import Reply
from ..wires.lifecycle import LIFECYCLE
from . import query
from .admin_routes import Admit
from .audit import AuditDesk
from .exchange import Exchange
from .routes import Route

LARGEST = 2.0**53


def routes(desk: AuditDesk, admit: Admit) -> list[Route]:
    """Each asks `admit` first."""

    async def chains(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        return wire.encode_chains(await desk.chains())

    async def blocks(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        after = int(query.number(exchange, "after", 0, 0, LARGEST))
        since = query.number(exchange, "since", -1, -1, LARGEST)
        chain = query.text(exchange, "chain") or ""
        return wire.encode_blocks(await desk.blocks(chain, after, None if since < 0 else since))

    async def verify(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        check = wire.decode_check(exchange.body)
        return wire.encode_checked(await _checked(desk, check))

    return [
        Route("GET", wire.CHAINS, chains, LIFECYCLE, who="operator"),
        Route("GET", wire.BLOCKS, blocks, LIFECYCLE, who="operator"),
        Route("POST", wire.VERIFY, verify, LIFECYCLE, reads_json=True, who="operator"),
    ]


async def _checked(desk: AuditDesk, check: wire.Check) -> wire.Checked:
    given = check.place
    place = Place(given.number, bytes.fromhex(given.mac), given.count, given.at)
    try:
        place, done = await desk.verify(check.chain, place, [wire.mark_of(head) for head in check.heads])
    except Broken as broken:
        return wire.Checked(wrong=str(broken))
    return wire.Checked(wire.PlaceText(place.number, place.mac.hex(), place.count, place.at), done)
