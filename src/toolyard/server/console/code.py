"""`/v1/admin/console`: a new code for the console, for the operator's own tools."""

from collections.abc import Callable

from ...trust.audit.entry import AuditKind
from ...wires.admin.console_code import PATH, encode_code
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http.exchange import Exchange
from ..http.routes import Route
from .login import ENTER
from .login_sessions import CODE_S, Codes

Address = Callable[[Exchange], str]
"""Where people find the server, without a slash at its end."""


def routes(codes: Codes, address: Address) -> list[Route]:
    async def make(exchange: Exchange) -> Reply:
        return encode_code(address(exchange) + ENTER, await codes.new(), CODE_S)

    return [Route("POST", PATH, make, LIFECYCLE, who="operator", audit_as=AuditKind.ADMIN)]
