"""Prompts, resources and completions of upstreams, for clients of every revision. The official SDK has no part in it.

What an upstream answers is passed on as it is, but for text that models read, which is made safe as tools' text is.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from ....engine.own_calls import OwnCalls
from ....model.asset import Asset
from ....model.caller import Caller, View
from ....model.channel import Asks
from ....model.json_value import decode_as
from ....runners.scrub_thread import beside_loop
from ....text import base64url
from ....wires.mcp.assets import ASSET_LISTS, NoAsset, encode_asset, known_to, members_of
from ....wires.mcp.envelope import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LONGEST_ID,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    RpcError,
)
from ....wires.mcp.params import meta_along, raw_params
from ....wires.mcp.questions import missing_capabilities
from ....wires.model_text import ModelText
from ..protocol.channel import McpChannel
from ..protocol.peer import McpRequest, Peer
from ..protocol.question_ids import QuestionIds
from ..protocol.request_state import LONGEST_STATE, UpstreamStates
from .client_requests import Asking
from .resources import NamedResources
from .subscriptions import Subscriptions

CURSOR = b"u"
"""How a cursor begins that names the last entry of the page before."""
MOST_VIEWS = 256
TOGETHER_S = 0.02
"""Clients who follow other resources within this time are seen to at once."""
KINDS: tuple[Asks, ...] = ("form", "url", "sampling", "roots")
_QUESTIONS: dict[str, Asks] = {"sampling/createMessage": "sampling", "roots/list": "roots"}
_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


class ListedAsset(Protocol):
    """A prompt, a resource or a template, and whose it is."""

    @property
    def upstream(self) -> str: ...

    @property
    def own(self) -> str:
        """What the upstream calls it."""
        ...


class AssetLists(Protocol):
    """What upstreams list beside tools."""

    @property
    def version(self) -> int:
        """Another one each time that something in it changes."""
        ...

    def entries(self, method: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Everything that a method lists, in the order of what names each entry."""
        ...

    def offered(self, method: str, key: str) -> ListedAsset | None:
        """The one that is listed by this name or address."""
        ...

    def place_of(self, uri: str) -> str | None:
        """The upstream that lists a resource, or has it as a page of one of its tools."""
        ...

    def fitting(self, uri: str) -> str | None:
        """The upstream that has a template which an address fits."""
        ...

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """`listener` is told each time that prompts change, or resources: which of the two."""
        ...


class Gateway(Protocol):
    """The upstreams, as far as prompts and resources go."""

    @property
    def assets(self) -> AssetLists: ...

    @property
    def owners(self) -> Mapping[str, str]:
        """Their names, by the owners that offers of their tools name."""
        ...

    def has(self, capability: str, part: str | None = None) -> bool:
        """Whether one of them has something, or may have, since it was never heard."""
        ...

    def completes(self, upstream: str) -> bool: ...

    async def request(self, upstream: str, method: str, params: Mapping[str, Any], client: "AssetPeer") -> Raw:
        """Raises RpcError, whatever happened."""
        ...

    def tells_of(self, uri: str) -> bool:
        """Whether a change of this resource would be heard of; also where it is none of an upstream's."""
        ...

    def follow_resources(self, uris: Sequence[str] | set[str]) -> None: ...

    def on_resource_updated(self, listener: Callable[[str], None]) -> None: ...


class AssetPeer:
    """The client of a request for a prompt, a resource or a completion, as an upstream can reach it."""

    def __init__(self, request: McpRequest, channel: McpChannel, asking: Asking) -> None:
        self._request, self._channel, self._asking = request, channel, asking

    @property
    def takes_questions(self) -> bool:
        """A client of the newer era is given what an upstream asks as its answer."""
        return self._request.peer.revision.is_modern

    @property
    def principal(self) -> tuple[str, str, str | None]:
        return self._request.peer.caller.names

    def asks(self, *, is_modern: bool) -> frozenset[str]:
        """An upstream of the older era asks while its request waits: so does a client of the newer one, which nobody
        can ask anything then."""
        if self.takes_questions and not is_modern:
            return frozenset()
        return frozenset(kind for kind in KINDS if self._channel.can_ask(kind))

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            done, total, message = params.get("progress"), params.get("total"), params.get("message")
            if done is not None and _is_number(done):
                said = message if isinstance(message, str) else None
                self._channel.progress(done, total if _is_number(total) else None, said)
        elif method == "notifications/message":
            data, level = params.get("data"), params.get("level")
            self._channel.log(str(level), data if isinstance(data, str) else _encode(data).decode(), {})

    async def asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raises RpcError where the client cannot be asked, or refuses."""
        if method == "ping":
            return {}
        if self.takes_questions or kind_of(method, params) not in self.asks(is_modern=False):
            raise RpcError(METHOD_NOT_FOUND, f"This client cannot be asked for {method[:100]}", status=200)
        return await self._asking.ask(self._request.peer, self._request.outlet, method, params)


class UpstreamParts(Struct, frozen=True):
    """What the prompts and resources of upstreams need of the server around them."""

    gateway: Gateway
    named: NamedResources
    own: OwnCalls
    states: UpstreamStates
    asking: Asking
    ids: QuestionIds
    telling: ModelText
    page_size: int


class UpstreamOffers:
    """The prompts, resources and completions of upstreams. Who may have what is decided before."""

    def __init__(self, parts: UpstreamParts) -> None:
        self._gateway, self._named, self._own, self._states = parts.gateway, parts.named, parts.own, parts.states
        self._asking, self._ids, self._telling, self._size = parts.asking, parts.ids, parts.telling, parts.page_size
        self._seen: dict[tuple[View, str], list[tuple[str, Mapping[str, Any]]]] = {}
        self._version = -1

    def serves(self, method: str) -> bool:
        kind, _, _ = method.partition("/")
        return self._gateway.has("completions" if kind == "completion" else kind)

    def capabilities(self) -> dict[str, dict[str, object]]:
        """What upstreams have; of one that was never heard, what it may have."""
        gateway, made = self._gateway, dict[str, dict[str, object]]()
        if gateway.has("prompts"):
            made["prompts"] = {"listChanged": True}
        if gateway.has("resources"):
            subscribe = {"subscribe": True} if gateway.has("resources", "subscribe") else {}
            made["resources"] = {"listChanged": True, **subscribe}
        return made | ({"completions": {}} if gateway.has("completions") else {})

    # -- lists -------------------------------------------------------------------------------------

    def page(
        self, method: str, peer: Peer, cursor: str, before: int, is_taken: Callable[[Asset], bool]
    ) -> tuple[list[Mapping[str, Any]], str | None]:
        """The entries of a page that has `before` others on it, and the cursor of the next one. What is taken is
        somebody else's. Raises RpcError for a cursor that is not one of ours."""
        seen, after = self._seen_by(method, peer.caller.view), _decoded(cursor) if cursor else ""
        kind, room = ASSET_LISTS[method].kind, max(self._size - before, 0)
        start = bisect_right(seen, after, key=lambda each: each[0]) if after else 0
        page = seen[start : start + room]
        last = page[-1][0] if page else after
        entries = [known_to(peer.revision, each) for key, each in page if not is_taken(Asset(kind, key))]
        return entries, _encoded(last) if start + room < len(seen) else None

    def _seen_by(self, method: str, view: View) -> list[tuple[str, Mapping[str, Any]]]:
        """What of a list is there for whoever has this view: found out once, since lists may be long."""
        assets, kind = self._gateway.assets, ASSET_LISTS[method].kind
        if self._version != assets.version or len(self._seen) > MOST_VIEWS:
            self._seen, self._version = {}, assets.version
        seen = self._seen.get((view, method))
        if seen is None:
            seen = [each for each in assets.entries(method) if view.lists_offer(Asset(kind, each[0]))]
            self._seen[view, method] = seen
        return seen

    # -- one prompt, resource or completion --------------------------------------------------------

    def prompt(self, name: str) -> ListedAsset | None:
        return self._gateway.assets.offered("prompts/list", name)

    async def place_of(self, uri: str, caller: Caller) -> str | None:
        """The upstream that a resource is known to be at: it lists it, or named it in a result that this caller got, or
        it has a template that fits."""
        assets = self._gateway.assets
        if (known := assets.place_of(uri)) is not None:
            return known
        named = await self._named.find(uri, caller, self._own)
        if named is not None and named in self._gateway.owners.values():
            return named
        return assets.fitting(uri)

    async def get(self, prompt: ListedAsset, request: McpRequest) -> bytes:
        """Raises RpcError."""
        return await self._had(request, prompt.upstream, {"name": prompt.own})

    async def read(self, upstream: str, request: McpRequest) -> bytes:
        """Raises RpcError."""
        return await self._had(request, upstream, {})

    def completed(self, offer: Asset) -> ListedAsset | None:
        """Whose it is to complete an argument of a prompt, or a variable of a template."""
        if offer.kind == "prompts":
            return self.prompt(offer.name)
        assets = self._gateway.assets
        return assets.offered("resources/templates/list", offer.name) or assets.offered("resources/list", offer.name)

    async def complete(self, asset: ListedAsset, request: McpRequest) -> bytes:
        """Raises RpcError."""
        if not self._gateway.completes(asset.upstream):
            nothing = {"completion": Raw(b'{"values":[]}')}
            return encode_asset("completion/complete", nothing, request.peer.revision, self._telling)
        ref = dict(raw_params(request.message)["ref"])
        named = {"name": asset.own} if "name" in ref else {}
        return await self._had(request, asset.upstream, {"ref": ref | named})

    async def _had(self, request: McpRequest, upstream: str, own: Mapping[str, Any]) -> bytes:
        """What an upstream answers to a request, in whose parameters `own` stands for what it has other names for. A
        large answer is read again in its turn, where the client has not read enough of what it was sent before."""
        method, revision = str(request.message.method), request.peer.revision
        digest, params = self._params(request, upstream)
        client = self._client(request)
        ask = partial(self._asked, request, upstream, {**params, **own}, client)
        raw = await ask()
        if not request.may_keep(len(raw)):
            del raw
            await request.read()
            raw = await ask()
        try:
            if (found := decode_as(raw, _Questions)).kind == "input_required":
                return self._questions(found, upstream, request, client, digest)
            members = members_of(method, raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _misbehaves(upstream, f"answered with what is no result: {str(error)[:200]}") from None
        except NoAsset as error:
            raise _misbehaves(upstream, str(error)) from None
        return await beside_loop(partial(encode_asset, method, members, revision, self._telling), len(raw))

    def _client(self, request: McpRequest) -> AssetPeer:
        """Raises RpcError."""
        token = (raw_params(request.message).get("_meta") or {}).get("progressToken")
        loop = asyncio.get_running_loop()
        channel = McpChannel(request, self._telling, self._ids, loop, token if _is_id(token) else None)
        return AssetPeer(request, channel, self._asking)

    def _params(self, request: McpRequest, upstream: str) -> tuple[bytes, dict[str, Any]]:
        """A digest of what a request asks for, and its parameters as the upstream gets them. Raises RpcError."""
        params = dict(raw_params(request.message))
        meta, state = params.pop("_meta", None), params.pop("requestState", None)
        asked = {name: value for name, value in params.items() if name != "inputResponses"}
        digest = sha256(_sorted([request.message.method, asked])).digest()
        if isinstance(state, str):
            params["requestState"] = self._states.open(state, upstream, request.peer.caller, digest)
        return digest, params | ({"_meta": along} if (along := meta_along(meta)) else {})

    async def _asked(self, request: McpRequest, upstream: str, params: Mapping[str, Any], client: AssetPeer) -> Raw:
        """Raises RpcError. A client that leaves, or wants no answer any more, takes its request with it."""
        method = str(request.message.method)
        going = asyncio.get_running_loop().create_task(self._gateway.request(upstream, method, params, client))
        request.outlet.when_gone(partial(_cancel, going))
        try:
            await asyncio.wait((going,))
        finally:
            going.cancel()
        if going.cancelled():
            raise RpcError(INVALID_REQUEST, "The request was cancelled", status=200)
        error = going.exception()
        if isinstance(error, RpcError):
            raise self._told(error, method, request)
        return going.result()

    def _told(self, error: RpcError, method: str, request: McpRequest) -> RpcError:
        """What is not found has a code of its own in the older era, and names what was asked for."""
        code, data = error.code, error.data
        if method == "resources/read" and code in (RESOURCE_NOT_FOUND, INVALID_PARAMS):
            code = INVALID_PARAMS if request.peer.revision.is_modern else RESOURCE_NOT_FOUND
            data = {"uri": raw_params(request.message).get("uri")} if data is None else data
        return RpcError(code, self._telling.line(error.message), data, status=error.status)

    def _questions(
        self, found: "_Questions", upstream: str, request: McpRequest, client: AssetPeer, digest: bytes
    ) -> bytes:
        """What an upstream asks, as the answer of a client that can answer it. Raises RpcError."""
        peer = request.peer
        kinds = [kind_of(str(each.get("method")), each.get("params") or {}) for each in found.requests.values()]
        can = client.asks(is_modern=True)
        if lacking := [kind for kind in kinds if kind is not None and kind not in can]:
            raise missing_capabilities(lacking)
        if None in kinds or len(found.state or "") > LONGEST_STATE:
            raise _misbehaves(upstream, "asked for something that nobody can be asked for")
        result: dict[str, Any] = {"resultType": "input_required", "inputRequests": found.requests}
        if found.state is not None:
            result["requestState"] = self._states.make(upstream, found.state, peer.caller, digest)
        return _encode({**result, "_meta": peer.revision.server_info})


class _Questions(Struct, rename={"kind": "resultType", "requests": "inputRequests", "state": "requestState"}):
    """An answer that asks something; of any other, that it does not."""

    kind: str = "complete"
    requests: dict[str, dict[str, Any]] = {}
    state: str | None = None


class FollowedResources:
    """Has upstreams tell of the resources that clients of this node follow, and tells clients what upstreams tell."""

    def __init__(self, gateway: Gateway, subscriptions: Subscriptions) -> None:
        self._gateway, self._subscriptions = gateway, subscriptions
        self._is_looking = False
        subscriptions.on_followed(self._look_soon)
        gateway.on_resource_updated(subscriptions.changed_here)
        gateway.assets.subscribe(self._changed)

    def _changed(self, kind: str) -> None:
        self._subscriptions.changed_here(kind)
        self._look_soon()  # whose a resource is may have changed

    def _look_soon(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(TOGETHER_S, self._look)

    def _look(self) -> None:
        self._is_looking = False
        self._gateway.follow_resources(self._subscriptions.followed())


def kind_of(method: str, params: Mapping[str, Any]) -> Asks | None:
    """What a request to a client asks for; None where it is none that clients know."""
    if method == "elicitation/create":
        return "url" if params.get("mode") == "url" else "form"
    return _QUESTIONS.get(method)


def _cancel(going: "asyncio.Task[Raw]") -> None:
    going.cancel()


def _misbehaves(upstream: str, how: str) -> RpcError:
    return RpcError(INTERNAL_ERROR, f"{upstream} {how}", status=200)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_id(token: Any) -> bool:
    """Raises RpcError for a token that is too long to be said again and again."""
    if isinstance(token, str) and len(token) > LONGEST_ID:
        raise RpcError(INVALID_PARAMS, f"Invalid params: progressToken has at most {LONGEST_ID} characters")
    return isinstance(token, int | str) and not isinstance(token, bool)


def _encoded(key: str) -> str:
    return base64url.encoded(CURSOR + key.encode())


def _decoded(cursor: str) -> str:
    try:
        named = base64url.decoded(cursor)
        if named.startswith(CURSOR):
            return named[len(CURSOR) :].decode()
    except ValueError:
        pass
    raise RpcError(INVALID_PARAMS, "Invalid params: this cursor is not one that this server gave out")
