"""A code for the console, for operators: `toolyard console` prints it, and one browser enters with it.

Only `server/console` knows what a code is, so making one is handed in with the parts.
"""

from ...trust.audit.entry import AuditKind
from ...wires.admin.console_code import PATH, encode_code
from ...wires.contract import Reply
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


async def make_code(parts: OperatorParts, exchange: Exchange) -> Reply:
    return encode_code(await parts.console_code(exchange))


OPERATIONS = (Operation("POST", PATH, make_code, audit_as=AuditKind.ADMIN),)
