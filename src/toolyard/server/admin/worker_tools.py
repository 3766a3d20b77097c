"""The tools of live workers, for operators: `toolyard lock --workers` locks them as their workers describe them."""

from ...engine.worker_tools import offered
from ...wires.admin.worker_tools import PATH, encode_offers
from ...wires.contract import Reply
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


async def list_offers(parts: OperatorParts, exchange: Exchange) -> Reply:
    return encode_offers(offered(await parts.store.workers()))


OPERATIONS = (Operation("GET", PATH, list_offers),)
