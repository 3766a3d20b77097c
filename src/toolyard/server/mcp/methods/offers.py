"""Prompts, resources and completion: the author's, those of upstreams, and what tools gave out. Here they pass what
calls pass: limits, the caller's rules, the audit log. What a caller may not have is not there for it."""

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from ....engine.engine import Engine
from ....model.asset import Asset
from ....model.caller import Caller
from ....model.errors import Forbidden, ToolyardError
from ....trust.access.access import refuse_offer
from ....trust.audit.entry import AuditKind
from ....wires.mcp.assets import ASSET_LISTS
from ....wires.mcp.envelope import INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from ....wires.mcp.params import OfResource, PageParams, decode_params, raw_params
from ....wires.mcp.revisions import Revision
from ...intake.intake import Intake
from ..protocol.peer import McpRequest, Peer
from .resources import GivenResources, cached_by, is_not_found

if TYPE_CHECKING:
    from .upstream_offers import UpstreamOffers

_SERVED = frozenset({*ASSET_LISTS, "prompts/get", "completion/complete"})
"""What upstreams may have, beside resources to read."""
_encode = msgspec.json.Encoder().encode


class Lane(Protocol):
    """Whoever answers for the author's prompts and resources: the official SDK, where it is installed and used."""

    def serves(self, method: str, revision: Revision) -> bool: ...

    def has(self, offer: Asset) -> bool:
        """Whether the author made it; a resource goes by its URI or its template."""
        ...

    def capabilities(self, revision: Revision) -> dict[str, object]: ...

    def answer(self, request: McpRequest) -> Coroutine[Any, Any, dict[str, Any]]: ...


class Offers:
    """The methods about prompts, resources and completion. What the author has comes first, and upstreams' follows."""

    def __init__(
        self,
        lane: Lane | None,
        given: GivenResources,
        engine: Engine,
        intake: Intake,
        upstreams: "UpstreamOffers | None" = None,
    ) -> None:
        self._lane, self._given, self._engine, self._intake = lane, given, engine, intake
        self._upstreams = upstreams

    def capabilities(self, revision: Revision) -> dict[str, object]:
        """What is too long for a model is read as a resource, so there may always be one."""
        made: dict[str, Any] = {"resources": {}} | ({} if self._lane is None else self._lane.capabilities(revision))
        for name, more in ({} if self._upstreams is None else self._upstreams.capabilities()).items():
            made[name] = {**made.get(name, {}), **more}
        return made

    def answer(self, request: McpRequest) -> Coroutine[Any, Any, bytes] | None:
        """None for a method that is not served."""
        name = str(request.message.method)
        if name == "resources/read":
            return self._read(request)
        lane = self._lane if self._lane is not None and self._lane.serves(name, request.peer.revision) else None
        upstreams = self._upstreams if name in _SERVED and self._upstreams and self._upstreams.serves(name) else None
        if lane is not None or upstreams is not None:
            if name in ASSET_LISTS:
                return self._list(lane, upstreams, request)
            return (self._get if name == "prompts/get" else self._complete)(lane, upstreams, request)
        if name in ("resources/list", "resources/templates/list"):
            return self._given.list(request)
        return None

    async def _list(self, lane: Lane | None, upstreams: "UpstreamOffers | None", request: McpRequest) -> bytes:
        """The author's are all on the first page."""
        method, peer = str(request.message.method), request.peer
        listed = ASSET_LISTS[method]
        given = decode_params(request.message, PageParams).cursor if upstreams is not None else UNSET
        cursor = "" if given is UNSET else given
        if lane is None or cursor:
            result: dict[str, Any] = {**cached_by(peer.revision), listed.member: []}
        else:
            result = await lane.answer(request)
        view = peer.caller.view
        entries = [
            each for each in result[listed.member] if view.lists_offer(Asset(listed.kind, str(each[listed.key])))
        ]
        if upstreams is not None:
            is_taken = _nobodys if lane is None else lane.has
            more, following = upstreams.page(method, peer, cursor, len(entries), is_taken)
            entries += more
            result |= {} if following is None else {"nextCursor": following}
        return _encode(result | {listed.member: entries})

    async def _get(self, lane: Lane | None, upstreams: "UpstreamOffers | None", request: McpRequest) -> bytes:
        offer = Asset("prompts", str(raw_params(request.message).get("name", "")))
        async with self._seen(AuditKind.PROMPT, offer, request):
            _check(offer, request.peer)
            if upstreams is not None and not (lane is not None and lane.has(offer)):
                prompt = upstreams.prompt(offer.name)
                if prompt is not None:
                    return await upstreams.get(prompt, request)
            if lane is None:
                raise _unknown(offer, request.peer)
            return _encode(await lane.answer(request))

    async def _read(self, request: McpRequest) -> bytes:
        """The author's; what a tool gave out, which is whoever's who got it, whatever the rules say; an upstream's; and
        else what is left of it in a result. Nothing that an upstream lists can stand before what is ours."""
        offer = Asset("resources", decode_params(request.message, OfResource).uri)
        async with self._seen(AuditKind.RESOURCE, offer, request):
            try:
                return await self._read_here(offer, request)
            except (RpcError, Forbidden) as error:
                if self._upstreams is None or (isinstance(error, RpcError) and not is_not_found(error)):
                    raise
                return await self._read_there(self._upstreams, offer, request, error)

    async def _read_here(self, offer: Asset, request: McpRequest) -> bytes:
        """Raises RpcError, and Forbidden."""
        if self._lane is None:
            return await self._given.read(request)
        try:
            _check(offer, request.peer)
            return _encode(await self._lane.answer(request))
        except (RpcError, Forbidden) as error:
            if isinstance(error, RpcError) and not is_not_found(error):
                raise
            try:
                return await self._given.read(request)
            except RpcError:
                raise error from None

    async def _read_there(
        self, upstreams: "UpstreamOffers", offer: Asset, request: McpRequest, error: RpcError | Forbidden
    ) -> bytes:
        """Of an upstream. Raises `error`, as for what nobody has, where the caller may not have it."""
        caller = request.peer.caller
        verdict = caller.view.of_offer(offer)
        if verdict.sees and (upstream := await upstreams.place_of(offer.name, caller)) is not None:
            try:
                refuse_offer(offer, verdict)
                return await upstreams.read(upstream, request)
            except (RpcError, Forbidden) as refused:
                if isinstance(refused, RpcError) and not is_not_found(refused):
                    raise
                error = refused
        try:
            return await self._given.read_copy(request)
        except RpcError:
            raise error from None

    async def _complete(self, lane: Lane | None, upstreams: "UpstreamOffers | None", request: McpRequest) -> bytes:
        """Whatever it is about must be there for the caller."""
        offer = _completed(raw_params(request.message))
        async with self._engine.counted(offer, request.peer.caller):
            if offer.name:
                _check(offer, request.peer)
                if lane is None or not lane.has(offer):
                    asset = None if upstreams is None else upstreams.completed(offer)
                    if upstreams is None or asset is None:
                        raise _unknown(offer, request.peer)
                    return await upstreams.complete(asset, request)
            if lane is None:
                raise _unknown(offer, request.peer)
            return _encode(await lane.answer(request))

    def _seen(self, kind: AuditKind, offer: Asset, request: McpRequest) -> AbstractAsyncContextManager[None]:
        return self._intake.asset(kind, offer, request.peer.caller, request.origin, _is_refusal)


def _nobodys(offer: Asset) -> bool:
    """Where there is no author's server, nothing is the author's."""
    return False


def _is_refusal(error: BaseException) -> bool:
    """Whether it was not had: it is not there for the caller, or may not be used. Else the author's code failed."""
    return is_not_found(error) if isinstance(error, RpcError) else isinstance(error, ToolyardError)


def _check(offer: Asset, peer: Peer) -> None:
    """Raises RpcError for what is not there for the caller, and Forbidden where its credentials are not for it."""
    caller: Caller = peer.caller
    verdict = caller.view.of_offer(offer)
    if not verdict.sees:
        raise _unknown(offer, peer)
    refuse_offer(offer, verdict)


def _unknown(offer: Asset, peer: Peer) -> RpcError:
    """As the author's server says it."""
    if offer.kind == "prompts":
        return RpcError(INVALID_PARAMS, f"Unknown prompt: {offer.name[:200]}", status=200)
    code = INVALID_PARAMS if peer.revision.is_modern else RESOURCE_NOT_FOUND
    return RpcError(code, f"Unknown resource: {offer.name}", {"uri": offer.name}, status=200)


def _completed(params: dict[str, Any]) -> Asset:
    """What is to be completed; of no name where that is not said."""
    ref = params.get("ref")
    said = ref if isinstance(ref, dict) else {}
    if said.get("type") == "ref/prompt":
        return Asset("prompts", str(said.get("name", "")))
    return Asset("resources", str(said.get("uri", "")))
