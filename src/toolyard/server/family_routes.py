"""The routes of OXP 1.0, OTC 1.0 and the OTC draft: one row each."""

from ..wires import negotiation, otc, otc_draft, oxp
from ..wires.contract import Wire
from ..wires.negotiation import guess_wire
from .calls import CallDesk
from .routes import Route


def routes(desk: CallDesk) -> list[Route]:
    """At the root the body decides which protocol is spoken; below a prefix, the prefix does."""
    return [
        _call(desk, "/tools/call", negotiation.root, oxp.FLAT),
        _call(desk, "/call", negotiation.root_call, oxp.FLAT),
        _list(desk, "/tools", oxp.FLAT, fixed=False),
        _health(desk, "/health", oxp.FLAT),
        *_below("/oxp", desk, oxp.FLAT, negotiation.only_oxp),
        *_below("/otc", desk, otc.OTC, negotiation.only_otc),
        *_below("/otc/draft", desk, otc_draft.DRAFT, negotiation.only_draft),
    ]


def _below(prefix: str, desk: CallDesk, wire: Wire, choose: negotiation.Choose) -> list[Route]:
    return [
        _call(desk, f"{prefix}/tools/call", choose, wire),
        _call(desk, f"{prefix}/call", choose, wire),
        _list(desk, f"{prefix}/tools", wire, fixed=True),
        _health(desk, f"{prefix}/health", wire),
    ]


def _call(desk: CallDesk, path: str, choose: negotiation.Choose, wire: Wire) -> Route:
    handler = desk.call(choose, versioned=wire is oxp.FLAT)
    return Route("POST", path, handler, wire, reads_json=True, guess=lambda query, body: guess_wire(body, choose))


def _list(desk: CallDesk, path: str, wire: Wire, *, fixed: bool) -> Route:
    def guess(query: bytes, body: bytes) -> Wire:
        return negotiation.decode_list(query, body, wire, fixed=fixed)[0]

    return Route("GET", path, desk.list(wire, fixed=fixed), wire, reads_json=True, guess=guess)


def _health(desk: CallDesk, path: str, wire: Wire) -> Route:
    return Route("GET", path, desk.health(wire), wire, who="anyone")
