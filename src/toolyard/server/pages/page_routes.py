"""Routes of pages that are loaded with the first request for one of them.

Most servers never show most of their pages, and every server pays for what it loads: with the time that a start takes,
and with memory for as long as it runs. So a page's addresses stand apart from its handlers. The route table has the
addresses from the start; the handlers are made, and their modules loaded (`lazy.py`), when somebody comes.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from ...wires.contract import Reply, Stream
from ...wires.oxp import oxp
from ..http.exchange import Exchange
from ..http.routes import Handler, Route

Address = tuple[str, str]
"""A method and a path, which may have variables."""


def page_routes(addresses: Iterable[Address], make: Callable[[], Mapping[Address, Handler]]) -> list[Route]:
    """The routes of pages, for which a browser needs no credentials, and to which it sends nothing but forms. `make`
    gives the handler of each address, and is called once."""
    made = cache(make)
    return [
        Route(method, path, _handler((method, path), made), oxp.FLAT, reads_form=method == "POST", who="anyone")
        for method, path in addresses
    ]


def _handler(address: Address, made: Callable[[], Mapping[Address, Handler]]) -> Handler:
    async def handle(exchange: Exchange) -> Reply | Stream:
        return await made()[address](exchange)

    return handle
