"""The demo's provider over HTTP, on loopback alone: an ASGI application, served by uvicorn in a thread."""

import base64
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import msgspec
import uvicorn
from msgspec import Struct

from . import provider_pages as pages
from .provider import DemoProvider, NotAsked, Refusal, SentBack

LOOPBACK = "127.0.0.1"
LARGEST = 64 * 2**10
MOST_FIELDS = 50
FORM = "application/x-www-form-urlencoded"
STATUS = {"invalid_client": 401, "invalid_token": 401, "insufficient_scope": 403}
"""The statuses of OAuth's errors; of the others it is 400."""
HTML = [
    ("content-type", "text/html; charset=utf-8"),
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("referrer-policy", "no-referrer"),
]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ProviderRequest(Struct, frozen=True):
    """A request to the provider: its headers, and the parameters in it."""

    headers: Mapping[str, str]
    fields: Mapping[str, str]
    """The parameters in the query or, where there is a body, in the form."""


class ProviderReply(Struct, frozen=True):
    """The provider's reply to a request."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Malformed(Exception):
    """Raised for a request that cannot be read; the message says why, for a page."""


class ProviderApp:
    """The provider as an ASGI application: routes requests, and answers with pages or JSON."""

    def __init__(self, provider: DemoProvider) -> None:
        self._provider, self._host = provider, urlsplit(provider.issuer).netloc
        self._routes: dict[tuple[str, str], Callable[[ProviderRequest], ProviderReply]] = {
            ("GET", "/"): lambda _: _page(200, pages.home()),
            ("GET", "/.well-known/openid-configuration"): lambda _: _json(200, provider.metadata()),
            ("GET", "/jwks"): lambda _: _json(200, provider.signer.public_keys()),
            ("GET", "/authorize"): self._ask,
            ("POST", "/authorize"): self._answer,
            ("POST", "/token"): self._token,
            ("POST", "/revoke"): self._revoke,
            ("GET", "/userinfo"): self._userinfo,
            ("POST", "/userinfo"): self._userinfo,
            ("GET", "/mail"): self._mail,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            reply = self._routed(scope, await _read(scope, receive))
        except Malformed as problem:
            reply = _page(400, pages.refused(str(problem)))
        headers = [*reply.headers, ("cache-control", "no-store"), ("content-length", str(len(reply.body)))]
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
        await send({"type": "http.response.body", "body": reply.body})

    def _routed(self, scope: Message, request: ProviderRequest) -> ProviderReply:
        # A page elsewhere could have its own name resolve to this machine (DNS rebinding), and then read answers.
        if request.headers.get("host") != self._host:
            raise Malformed(f"The demo provider is at {self._provider.issuer} alone.")
        route = self._routes.get((scope["method"], scope["path"]))
        if route is None:
            return _page(404, pages.refused("There is nothing here."))
        try:
            return route(request)
        except Refusal as refusal:
            body = {"error": refusal.code, "error_description": refusal.text}
            status = STATUS.get(refusal.code, 400)
            return _json(status, body, *([("www-authenticate", "Bearer")] if status == 401 else []))

    # -- people ------------------------------------------------------------------------------------

    def _ask(self, request: ProviderRequest) -> ProviderReply:
        try:
            return _page(200, pages.ask(*self._provider.ask(request.fields)))
        except NotAsked as problem:
            return _page(400, pages.refused(str(problem)))
        except SentBack as back:
            return ProviderReply(303, headers=(("location", back.address),))

    # 303 and not 302: the browser has to GET the next page after this POST.
    def _answer(self, request: ProviderRequest) -> ProviderReply:
        fields, allowed = request.fields, request.fields.get("say") == "allow"
        try:
            address = self._provider.answer(fields.get("id", ""), fields.get("person", ""), allowed=allowed)
        except NotAsked as problem:
            return _page(400, pages.refused(str(problem)))
        return ProviderReply(303, headers=(("location", address),))

    # -- the application ---------------------------------------------------------------------------

    def _token(self, request: ProviderRequest) -> ProviderReply:
        self._provider.admit(*_credentials(request))
        return _json(200, self._provider.token(request.fields))

    def _revoke(self, request: ProviderRequest) -> ProviderReply:
        self._provider.admit(*_credentials(request))
        self._provider.revoke(request.fields.get("token", ""))
        return _json(200, {})

    def _userinfo(self, request: ProviderRequest) -> ProviderReply:
        return _json(200, self._provider.userinfo(_bearer(request)))

    def _mail(self, request: ProviderRequest) -> ProviderReply:
        return _json(200, self._provider.mail(_bearer(request)))


@contextmanager
def listening() -> Iterator[tuple[socket.socket, str]]:
    """A listening socket on a free port of this machine, and its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield listener, f"http://{LOOPBACK}:{listener.getsockname()[1]}"


@contextmanager
def providing(provider: DemoProvider, listener: socket.socket) -> Iterator[None]:
    """Serves the provider on this socket while the block runs."""
    config = uvicorn.Config(
        ProviderApp(provider),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="demo provider", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True  # uvicorn looks at it several times a second
        thread.join()


async def _read(scope: Message, receive: Receive) -> ProviderRequest:
    """Reads a request. Raises Malformed."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST:
            raise Malformed("This is too much at once.")
    if not body:
        return ProviderRequest(headers, _fields(scope["query_string"]))
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Malformed(f"A form is expected: {FORM}.")
    return ProviderRequest(headers, _fields(bytes(body)))


def _fields(text: bytes) -> dict[str, str]:
    """The parameters in a query or form, each of which may be there once (RFC 6749, section 3.1). Raises Malformed."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Malformed("This cannot be read.") from None
    if len(dict(pairs)) != len(pairs):
        raise Malformed("Something is said twice.")
    return dict(pairs)


def _credentials(request: ProviderRequest) -> tuple[str, str]:
    """The application's id and secret, from the `Authorization` header or from the form (RFC 6749, section 2.3.1)."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return request.fields.get("client_id", ""), request.fields.get("client_secret", "")
    try:
        id, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError:
        raise Refusal("invalid_client", "the authorization header cannot be read") from None
    return unquote_plus(id), unquote_plus(secret)  # OAuth has both form-encoded inside Basic authentication


def _bearer(request: ProviderRequest) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else ""


def _page(status: int, text: str) -> ProviderReply:
    return ProviderReply(status, text.encode(), tuple(HTML))


def _json(status: int, value: Any, *more: tuple[str, str]) -> ProviderReply:
    return ProviderReply(status, msgspec.json.encode(value), (("content-type", "application/json"), *more))
