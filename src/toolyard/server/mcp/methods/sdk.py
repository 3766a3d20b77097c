"""The author's prompts, resources and completions: written with the official SDK's decorators on `app.mcp`, answered by
the SDK, one request at a time, over our transports."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import InvalidRequestState, RequestStateSecurity
from mcp.server.runner import serve_one
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from pydantic import ValidationError

from ....model.asset import Asset
from ....model.caller import Caller
from ....model.raised import is_stopped, log_raised
from ....text import base64url
from ....trust.sealing.ring import BrokenSeal, KeyRing
from ....version import VERSION
from ....wires.mcp.envelope import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LONGEST_ID,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    RpcError,
    encode_notification,
)
from ....wires.mcp.params import CLIENT_INFO, Message, raw_params
from ....wires.mcp.revisions import Revision
from ..protocol.peer import McpRequest, Peer
from .client_requests import Asking
from .subscriptions import Subscriptions

METHODS = frozenset(
    {
        "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list",
        "completion/complete",
    }
)  # fmt: skip
_STATUS = {METHOD_NOT_FOUND: 404}
_log = logging.getLogger("toolyard.mcp")


class RingCodec:
    """Seals what a client hands back with the server's own ring, so that every node can open it."""

    ring: KeyRing | None = None

    def seal(self, payload: bytes) -> str:
        return base64url.encoded(self._ring().seal("mcp sdk state", payload, b""))

    def unseal(self, token: str) -> bytes:
        try:
            return self._ring().unseal("mcp sdk state", base64url.decoded(token), b"")
        except (ValueError, BrokenSeal):
            raise InvalidRequestState("it is not one that this server gave out") from None

    def _ring(self) -> KeyRing:
        if self.ring is None:
            raise InvalidRequestState("this app is not served")
        return self.ring


class AuthorsServer(MCPServer[Any]):
    """The SDK's server on which an author defines prompts and resources: what `app.mcp` is. It is never served by
    itself; here it is told when it is served, and tells when prompts and resources come or go."""

    def __init__(self, name: str) -> None:
        self.codec, self.events = RingCodec(), InMemorySubscriptionBus()
        self._on_change: Callable[[str], None] = lambda what: None
        security = RequestStateSecurity(codec=self.codec, bind_principal=_principal)
        with _own_logging():
            super().__init__(name, version=VERSION, request_state_security=security, subscriptions=self.events)

    def attach(self, ring: KeyRing, on_change: Callable[[str], None]) -> None:
        """The app is served now: with that ring, and `on_change` wants to know when prompts or resources come and go.
        (An author makes the app long before there is a server.)"""
        self.codec.ring, self._on_change = ring, on_change

    def add_prompt(self, prompt: Any) -> None:
        super().add_prompt(prompt)
        self._on_change("prompts")

    def remove_prompt(self, name: str) -> None:
        super().remove_prompt(name)
        self._on_change("prompts")

    def add_resource(self, resource: Any) -> None:
        super().add_resource(resource)
        self._on_change("resources")

    def has(self, offer: Asset) -> bool:
        if offer.kind == "prompts":
            return self._prompt_manager.get_prompt(offer.name) is not None
        if any(str(each.uri) == offer.name for each in self._resource_manager.list_resources()):
            return True
        templates = self._resource_manager.list_templates()
        return any(offer.name == each.uri_template or each.parsed_template.match(offer.name) for each in templates)

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
        """What the client got wrong is the client's to know; the SDK would take it for the author's failure."""
        prompt = self._prompt_manager.get_prompt(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name[:200]}")
        needed = [each.name for each in prompt.arguments or () if each.required]
        if missing := [each for each in needed if each not in (arguments or {})]:
            raise MCPError(INVALID_PARAMS, f"Invalid params: the prompt {name} needs {', '.join(missing)}")
        return await super().get_prompt(name, arguments, context)


@contextmanager
def _own_logging() -> Iterator[None]:
    """The SDK sets up logging as if it were the program; here it is a part of one."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _principal(context: Any) -> str | None:
    caller = context.request
    return json.dumps([caller.tenant, caller.subject]) if isinstance(caller, Caller) else None


class SdkLane:
    """The way to an author's server: hands it one request at a time, and makes its events our subscriptions'."""

    def __init__(self, authors: AuthorsServer, subscriptions: Subscriptions, asking: Asking, ring: KeyRing) -> None:
        self._authors, self._server, self._asking = authors, authors._lowlevel_server, asking
        changed = {"prompts": subscriptions.prompts_changed, "resources": subscriptions.resources_changed}
        authors.attach(ring, lambda what: changed[what]())

        def heard(event: Any) -> None:
            if isinstance(event, PromptsListChanged):
                subscriptions.prompts_changed()
            elif isinstance(event, ResourcesListChanged):
                subscriptions.resources_changed()
            elif isinstance(event, ResourceUpdated):
                subscriptions.resource_updated(str(event.uri))

        authors.events.subscribe(heard)

    def serves(self, method: str, revision: Revision) -> bool:
        return method in METHODS and self._server.get_request_handler(method) is not None

    def has(self, offer: Asset) -> bool:
        return self._authors.has(offer)

    def capabilities(self, revision: Revision) -> dict[str, object]:
        made: dict[str, object] = {
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
        }
        if self._server.get_request_handler("completion/complete") is not None:
            made["completions"] = {}
        return made

    async def answer(self, request: McpRequest) -> dict[str, Any]:
        message, peer = request.message, request.peer
        params = raw_params(message)
        meta = params.get("_meta") or {}
        connection = Connection.from_envelope(
            peer.revision.name,
            meta.get(CLIENT_INFO) or {"name": "client", "version": "0"},
            dict(peer.capabilities),
            outbound=NoStream(),
        )
        context = RequestContext(request, self._asking, meta)
        try:
            result = await serve_one(
                self._server, context, str(message.method), params, connection=connection, lifespan_state={}
            )
        except MCPError as error:
            raise _as_rpc(error, message, peer, params) from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise RpcError(INVALID_PARAMS, f"Invalid params: {where}: {first['msg']}") from None
        except BaseException as raised:  # an author's code
            if is_stopped(raised):
                raise
            log_raised(_log, raised, "%s failed", message.method)
            raise RpcError(INTERNAL_ERROR, f"{message.method} failed", status=200) from None
        return dict(result)


def _as_rpc(error: MCPError, message: Message, peer: Peer, params: Mapping[str, Any]) -> RpcError:
    """What is not found has a code of its own in the older era, and names what was asked for."""
    code, data = error.code, error.data
    if message.method == "resources/read" and code in (RESOURCE_NOT_FOUND, INVALID_PARAMS):
        code = INVALID_PARAMS if peer.revision.is_modern else RESOURCE_NOT_FOUND
        data = {"uri": params.get("uri")} if data is None else data
    return RpcError(code, error.message, data, status=_STATUS.get(code, 200))


class NoStream:
    """The connection that the SDK is given where it expects one of its own: nothing is said on it, because a client is
    told what changes through subscriptions, and else only about a request of its own."""

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        _log.debug("not sent: %s", method)


def _short(token: Any) -> Any:
    """Raises RpcError for a token that is too long to be said again and again."""
    if isinstance(token, str) and len(token) > LONGEST_ID:
        raise RpcError(INVALID_PARAMS, f"Invalid params: progressToken has at most {LONGEST_ID} characters")
    return token


class RequestContext:
    """One request, as the SDK sees it: its way back to the client."""

    def __init__(self, request: McpRequest, asking: Asking, meta: Mapping[str, Any]) -> None:
        message, peer, outlet = request.message, request.peer, request.outlet
        self._peer, self._outlet, self._asking = peer, outlet, asking
        self._token = _short(meta.get("progressToken"))
        self.can_send_request = request.is_open and not peer.revision.is_modern
        self.transport = TransportContext(kind="toolyard", can_send_request=self.can_send_request)
        self.request_id = message.id if isinstance(message.id, int | str) else None
        self.message_metadata = ServerMessageMetadata(request_context=peer.caller)
        self.cancel_requested = anyio.Event()
        outlet.when_gone(self.cancel_requested.set)

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        if not self.can_send_request:
            raise NoBackChannelError(method)
        async with asyncio.timeout((opts or {}).get("timeout")):
            return await self._asking.ask(self._peer, self._outlet, method, params or {})

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        self._outlet.send(encode_notification(method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._token is not None:
            said = {"progressToken": self._token, "progress": progress, "total": total, "message": message}
            shown = {name: value for name, value in said.items() if value is not None}
            self._outlet.send(encode_notification("notifications/progress", shown))
