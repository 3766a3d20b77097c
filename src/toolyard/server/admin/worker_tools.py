"""`/v1/admin/offers`: what the workers that live offer, as they say it themselves."""

from ...engine.worker_tools import offered
from ...store.contract import WorkerStore
from ...wires.admin.worker_tools import PATH, encode_offers
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http.exchange import Exchange
from ..http.routes import Route


def routes(store: WorkerStore) -> list[Route]:
    async def ask(exchange: Exchange) -> Reply:
        return encode_offers(offered(await store.workers()))

    return [Route("GET", PATH, ask, LIFECYCLE, who="operator")]
