"""The routes that belong to no wire: the front page, the documentation, metrics, probes, and the metadata by which
clients find out who issues tokens for this server."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from urllib.parse import urlsplit

from msgspec import Struct

from ...catalogue import Catalogue
from ...lazy import load
from ...model.errors import Forbidden
from ...trust.access.access import METRICS, Access
from ...wires.contract import JSON, Reply
from ...wires.errors import encode
from ...wires.oxp import oxp
from ..http.admission import METADATA
from ..http.exchange import Exchange
from ..http.routes import Handler, Route
from ..intake.metrics import Metrics
from ..intake.process_counts import ProcessCounts
from ..intake.readiness import Readiness
from ..settings.table import Settings


class Site(Struct, frozen=True):
    """The parts of a server that the front page, the metrics and the probes tell about."""

    current: Callable[[], Settings]
    """The settings, some of which change while the server runs."""
    catalogue: Catalogue
    access: Access
    metrics: Metrics
    readiness: Readiness
    needs_credentials: Callable[[], bool]
    processes: Callable[[], Awaitable[Sequence[ProcessCounts]]] | None
    """What all processes that serve together have counted; None for one that serves alone."""

    @property
    def settings(self) -> Settings:
        return self.current()


def routes(site: Site, others: Callable[[], list[Route]]) -> list[Route]:
    """The routes, which the OpenAPI document describes with those that `others` gives once all are made."""
    made: list[Route] = []
    document = cache(lambda: load("openapi")([*others(), *made], site.settings.shown_title))
    described = cache(lambda: encode(document()))
    shown = cache(lambda: load("pages").docs(document()))

    async def front(exchange: Exchange) -> Reply:
        return _page(load("pages").front(site, exchange.base_url()))

    async def docs(exchange: Exchange) -> Reply:
        return _page(shown())

    async def style(exchange: Exchange) -> Reply:
        return Reply(200, load("layout").STYLE, [(b"content-type", b"text/css"), (b"cache-control", b"max-age=3600")])

    async def openapi(exchange: Exchange) -> Reply:
        base_url = exchange.base_url()
        if urlsplit(base_url).path.strip("/"):  # mounted: without its servers, a document's paths begin at the root
            return Reply(200, encode({**document(), "servers": [{"url": base_url}]}), [JSON])
        return Reply(200, described(), [JSON])

    async def metrics(exchange: Exchange) -> Reply:
        _only_for_operators(exchange)
        processes = () if site.processes is None else await site.processes()
        text = load("prometheus")(site.metrics, len(site.catalogue), processes)
        return Reply(200, text, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def ready(exchange: Exchange) -> Reply:
        return oxp.FLAT.encode_status(site.readiness.health)

    async def metadata(exchange: Exchange) -> Reply:
        """RFC 9728: which resource this is, and who gives out tokens for it."""
        resource = exchange.path.removeprefix(METADATA)
        said: dict[str, object] = {
            "resource": exchange.base_url() + resource,
            "resource_name": site.settings.shown_title,
            "bearer_methods_supported": ["header"],
            "authorization_servers": [each.issuer for each in site.settings.issuers],
            "scopes_supported": sorted({scope for rule in site.settings.access for scope in rule.scopes}),
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


def _page(text: str) -> Reply:
    reply: Reply = load("layout").html(text)
    return reply


async def _live(exchange: Exchange) -> Reply:
    return Reply(200, encode({"status": "ok"}), [JSON])


def _get(path: str, handler: Handler) -> Route:
    return Route("GET", path, handler, oxp.FLAT, who="anyone")


def _only_for_operators(exchange: Exchange) -> None:
    """Raises Forbidden for a caller who may not see the metrics. They are about all callers, so it takes credentials
    that scopes do not limit, or the scope for metrics."""
    if not exchange.caller.is_operator:
        raise Forbidden(f"These credentials are not for {METRICS}", (METRICS,))
