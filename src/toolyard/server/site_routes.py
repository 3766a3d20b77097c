"""What is served besides the protocols: the front page, the documentation, metrics, and probes."""

from functools import cache
from typing import TYPE_CHECKING

from ..doors import open_door
from ..model.errors import Forbidden
from ..trust.access import METRICS
from ..wires import oxp
from ..wires.contract import JSON, Reply
from ..wires.family import encode
from .admission import METADATA
from .exchange import Exchange
from .pages.layout import STYLE, html
from .routes import Handler, Route

if TYPE_CHECKING:
    from .compose import Yard


def routes(yard: "Yard", others: list[Route]) -> list[Route]:
    """These routes are in the OpenAPI document too, so the document is asked for all of them."""
    made: list[Route] = []
    document = cache(lambda: open_door("openapi")([*others, *made, *yard.mcp_routes], yard.settings.shown_title))
    described = cache(lambda: encode(document()))
    shown = cache(lambda: open_door("pages").docs(document()))

    async def front(exchange: Exchange) -> Reply:
        return html(open_door("pages").front(yard, exchange.base_url()))

    async def docs(exchange: Exchange) -> Reply:
        return html(shown())

    async def style(exchange: Exchange) -> Reply:
        return Reply(200, STYLE, [(b"content-type", b"text/css"), (b"cache-control", b"max-age=3600")])

    async def openapi(exchange: Exchange) -> Reply:
        return Reply(200, described(), [JSON])

    async def metrics(exchange: Exchange) -> Reply:
        _only_for_operators(exchange)
        text = open_door("prometheus")(yard.metrics, len(yard.catalogue))
        return Reply(200, text, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def ready(exchange: Exchange) -> Reply:
        return oxp.FLAT.encode_status(yard.readiness.health)

    async def metadata(exchange: Exchange) -> Reply:
        """RFC 9728: which resource this is, and who gives out tokens for it."""
        resource = exchange.path.removeprefix(METADATA)
        said: dict[str, object] = {
            "resource": exchange.base_url() + resource,
            "resource_name": yard.settings.shown_title,
            "bearer_methods_supported": ["header"],
            "authorization_servers": [each.issuer for each in yard.settings.issuers],
            "scopes_supported": sorted({scope for rule in yard.settings.access for scope in rule.scopes}),
        }
        return Reply(200, encode({name: value for name, value in said.items() if value}), [JSON])

    made += [
        _get(METADATA, metadata),
        _get(f"{METADATA}/mcp", metadata),
        _get("/", front),
        _get("/docs", docs),
        _get("/style.css", style),
        _get("/openapi.json", openapi),
        _get("/ready", ready),
        _get("/live", _live),
        Route("GET", "/metrics", metrics, oxp.FLAT),
    ]
    return made


async def _live(exchange: Exchange) -> Reply:
    return Reply(200, encode({"status": "ok"}), [JSON])


def _get(path: str, handler: Handler) -> Route:
    return Route("GET", path, handler, oxp.FLAT, who="anyone")


def _only_for_operators(exchange: Exchange) -> None:
    """What is counted is everybody's: it takes credentials that scopes do not limit, or that are for this."""
    if not exchange.caller.is_operator:
        raise Forbidden(f"These credentials are not for {METRICS}", (METRICS,))
