"""What is served besides the protocols: the front page, the documentation, metrics, and probes."""

from typing import TYPE_CHECKING, Any

from ..doors import open_door
from ..trust.authentication import Authenticate
from ..wires import oxp
from ..wires.contract import JSON, Reply
from ..wires.family import encode
from .exchange import Exchange
from .routes import Doc, Handler, Parameter, Route
from .shapes import Alive, ChallengeStatus, ServerErrorResponse, Status

if TYPE_CHECKING:
    from .compose import Yard

HTML = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
CHALLENGE = Parameter("challenge", "path", "The challenge's id.")


def routes(yard: "Yard", authenticate: Authenticate, others: list[Route]) -> list[Route]:
    """These routes are in the OpenAPI document too, so the document is asked for all of them."""
    made: list[Route] = []

    async def front(exchange: Exchange) -> Reply:
        return _html(open_door("pages").front(yard, exchange.base_url()))

    async def docs(exchange: Exchange) -> Reply:
        return _html(open_door("pages").docs(open_door("openapi")(others + made)))

    async def style(exchange: Exchange) -> Reply:
        return Reply(
            200,
            open_door("pages").STYLE,
            [(b"content-type", b"text/css"), (b"cache-control", b"max-age=3600")],
        )

    async def openapi(exchange: Exchange) -> Reply:
        return Reply(200, encode(open_door("openapi")(others + made)), [JSON])

    async def metrics(exchange: Exchange) -> Reply:
        authenticate(exchange.headers)
        text = open_door("prometheus")(yard.metrics, len(yard.catalogue))
        return Reply(200, text, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])

    async def ready(exchange: Exchange) -> Reply:
        return oxp.FLAT.encode_status(yard.readiness.status)

    async def authorize(exchange: Exchange) -> Reply:
        return _html(open_door("pages").authorize(exchange.query))

    probe = {200: ("Yes", (Status,)), 503: ("No", (Status,))}
    challenge_doc = Doc(
        "How far an authorization has come",
        {200: ("Its status", (ChallengeStatus,))},
        parameters=(CHALLENGE,),
        authenticated=False,
    )
    refused = {401: ("Credentials are missing or not valid", (ServerErrorResponse,))}
    made += [
        _page("/", front, "What is here"),
        _page("/docs", docs, "The endpoints, to read"),
        _page("/authorize/{challenge}", authorize, "Where a person completes an authorization", CHALLENGE),
        _get("/authorize/{challenge}/status", _challenge_status, challenge_doc),
        _get("/style.css", style, _open("How the pages look", "A style sheet", media_type="text/css")),
        _get("/openapi.json", openapi, _open("The endpoints, for programs", "OpenAPI 3.1", dict[str, Any])),
        _get("/ready", ready, Doc("Ready for calls?", probe, authenticated=False)),
        _get("/live", _live, _open("Does the process run?", "Yes", Alive)),
        _get("/metrics", metrics, Doc("Metrics", {200: ("For Prometheus", ()), **refused}, media_type="text/plain")),
    ]
    return made


async def _live(exchange: Exchange) -> Reply:
    return Reply(200, encode(Alive("ok")), [JSON])


async def _challenge_status(exchange: Exchange) -> Reply:
    """No provider is set up, so no challenge can be completed: the honest answer ends a client's polling."""
    return Reply(200, encode(ChallengeStatus("failed")), [JSON, oxp.VERSION])


def _open(summary: str, meaning: str, *types: Any, media_type: str = "application/json") -> Doc:
    """A document that anyone may read."""
    return Doc(summary, {200: (meaning, types)}, media_type=media_type, authenticated=False)


def _page(path: str, handler: Handler, summary: str, *parameters: Parameter) -> Route:
    doc = Doc(summary, {200: ("A page", ())}, parameters=parameters, media_type="text/html", authenticated=False)
    return _get(path, handler, doc)


def _get(path: str, handler: Handler, doc: Doc) -> Route:
    return Route("GET", path, handler, oxp.FLAT, doc)


def _html(page: str) -> Reply:
    return Reply(200, page.encode(), HTML)
