"""The operator's question why a caller may call a tool, put to a server that runs."""

from collections.abc import Callable

from ..catalogue import Catalogue
from ..store.contract_trust import Keys
from ..trust.api_keys import identity_of
from ..wires.contract import Reply
from ..wires.explain import PATH, decode_asked, encode_explanation
from ..wires.lifecycle import LIFECYCLE
from .admin_routes import Admit
from .exchange import Exchange
from .explanation import Rules, explain
from .routes import Route


def routes(catalogue: Catalogue, rules: Rules, store: Keys, now: Callable[[], float], admit: Admit) -> list[Route]:
    """Asks `admit` first."""

    async def ask(exchange: Exchange) -> Reply:
        admit(exchange.headers)
        keys = [identity_of(key) for key in await store.keys() if key.state(now()) == "live"]
        return encode_explanation(explain(catalogue, rules, decode_asked(exchange.body), keys))

    return [Route("POST", PATH, ask, LIFECYCLE, reads_json=True, who="operator")]
