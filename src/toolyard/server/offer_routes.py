"""`/v1/admin/offers`: what the workers that live offer, as they say it themselves."""

from ..engine.workers import offered
from ..store.contract import Workers
from ..wires.contract import Reply
from ..wires.lifecycle import LIFECYCLE
from ..wires.offers import PATH, encode_offers
from .admin_routes import Admit
from .exchange import Exchange
from .routes import Route


def routes(store: Workers, admit: Admit) -> list[Route]:
    """Asks `admit` first."""

    async def ask(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        return encode_offers(offered(await store.workers()))

    return [Route("GET", PATH, ask, LIFECYCLE, who="operator")]
