"""`/v1/admin/console`: a new code for the console, for the operator's own tools."""

from collections.abc import Callable

from ..wires.admin_console import PATH, encode_code
from ..wires.contract import Reply
from ..wires.lifecycle import LIFECYCLE
from .admin_routes import Admit
from .console.entering import ENTER
from .console.sessions import CODE_S, Codes
from .exchange import Exchange
from .routes import Route

Address = Callable[[Exchange], str]
"""Where people find the server, without a slash at its end."""


def routes(codes: Codes, admit: Admit, address: Address) -> list[Route]:
    """Asks `admit` first."""

    async def make(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        return encode_code(address(exchange) + ENTER, await codes.new(), CODE_S)

    return [Route("POST", PATH, make, LIFECYCLE, who="operator", seen_as="admin")]
