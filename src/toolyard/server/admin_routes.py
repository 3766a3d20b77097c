"""`/v1/admin`: for the operator's own tools, which know its token from the file beside the ledger or from the
environment.

They are no part of the API, so the OpenAPI document does not have them. A caller's credentials do not open them, nor
does coming from this machine.
"""

import secrets
from collections.abc import Callable, Mapping
from hmac import compare_digest

from ..model.errors import NotAuthenticated
from ..store.contract import Filter
from ..wires import admin as wire
from ..wires.contract import Reply
from ..wires.lifecycle import LIFECYCLE
from . import query
from .admin import AdminDesk
from .call_routes import cursor
from .exchange import Exchange
from .routes import Route

Admit = Callable[[Mapping[bytes, bytes]], None]
ONE = wire.PATH + "/{call_id}"


class OperatorsToken:
    """Made anew at each start unless the settings have one, and good for nothing else."""

    def __init__(self, given: str | None = None) -> None:
        self.text = given or secrets.token_urlsafe(32)

    def __call__(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises NotAuthenticated, in the words that a caller would be refused with."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given.strip():
            raise NotAuthenticated("Credentials are needed")
        if not compare_digest(given.strip(), self.text.encode()):
            raise NotAuthenticated("The credentials are not valid")


def routes(desk: AdminDesk, admit: Admit) -> list[Route]:
    """Each asks `admit` first."""

    async def show_all(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        limit = query.limit(exchange, 50)
        wanted = Filter(
            None, state=query.state(exchange), tool=query.text(exchange, "tool"), before=cursor(exchange), limit=limit
        )
        return wire.encode_calls(await desk.listed(wanted), limit)

    async def show(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        return wire.encode_call(await desk.show(*_which(exchange), query.wait_s(exchange)))

    async def cancel(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        return wire.encode_call(await desk.cancel(*_which(exchange)))

    async def resolve(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        return wire.encode_call(await desk.resolve(*_which(exchange), wire.decode_settlement(exchange.body)))

    return [
        Route("GET", wire.PATH, show_all, LIFECYCLE, who="operator"),
        Route("GET", ONE, show, LIFECYCLE, who="operator"),
        Route("POST", f"{ONE}/cancel", cancel, LIFECYCLE, who="operator", seen_as="admin"),
        Route("POST", f"{ONE}/resolve", resolve, LIFECYCLE, reads_json=True, who="operator", seen_as="admin"),
    ]


def _which(exchange: Exchange) -> tuple[str, str | None]:
    return exchange.parameters["call_id"], query.text(exchange, "caller")
