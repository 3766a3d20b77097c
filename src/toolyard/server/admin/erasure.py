"""Erases what calls made for one user said and got, for operators. The audit log keeps that the calls were made."""

from ...trust.audit.entry import AuditKind
from ...wires.admin import erasure as wire
from ...wires.contract import Reply
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


async def erase(parts: OperatorParts, exchange: Exchange) -> Reply:
    """Removes all calls of a user that have ended, as rows and in blocks. Their keys stay taken."""
    wanted = wire.decode_erasure(exchange.body)
    return wire.encode_erased(await parts.store.erase(wanted.tenant, wanted.user))


OPERATIONS = (Operation("POST", wire.PATH, erase, audit_as=AuditKind.ADMIN, reads_json=True),)
