"""Prompts, resources and completion: the author's, and what tools gave out. Here they pass what calls pass: limits, the
caller's rules, the audit log. What a caller may not have is not there for it."""

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from ....engine.engine import Engine
from ....model.asset import Asset
from ....model.caller import Caller
from ....model.errors import Forbidden, ToolyardError
from ....trust.access.access import refuse_offer
from ....trust.audit.entry import AuditKind
from ....wires.mcp.envelope import INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from ....wires.mcp.params import OfResource, decode_params, raw_params
from ....wires.mcp.revisions import Revision
from ...intake.intake import Intake
from ..protocol.peer import McpRequest, Peer
from .resources import GivenResources, is_not_found

LISTS: dict[str, tuple[Any, str, str]] = {
    "prompts/list": ("prompts", "prompts", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("resources", "resourceTemplates", "uriTemplate"),
}
"""What each is of, where it stands in the result, and what names it."""
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
    """The methods about prompts, resources and completion. A resource may be the author's, or what a tool gave out."""

    def __init__(self, lane: Lane | None, given: GivenResources, engine: Engine, intake: Intake) -> None:
        self._lane, self._given, self._engine, self._intake = lane, given, engine, intake

    def capabilities(self, revision: Revision) -> dict[str, object]:
        """What is too long for a model is read as a resource, so there may always be one."""
        return {"resources": {}} | ({} if self._lane is None else self._lane.capabilities(revision))

    def answer(self, request: McpRequest) -> Coroutine[Any, Any, bytes] | None:
        """None for a method that is not served."""
        name, lane = str(request.message.method), self._lane
        if name == "resources/read":
            return self._read(request)
        if lane is not None and lane.serves(name, request.peer.revision):
            if name in LISTS:
                return self._list(lane, request)
            return (self._get if name == "prompts/get" else self._complete)(lane, request)
        if name in ("resources/list", "resources/templates/list"):
            return self._given.list(request)
        return None

    async def _list(self, lane: Lane, request: McpRequest) -> bytes:
        result = await lane.answer(request)
        kind, place, name = LISTS[str(request.message.method)]
        view = request.peer.caller.view
        result[place] = [each for each in result[place] if view.lists_offer(Asset(kind, str(each[name])))]
        return _encode(result)

    async def _get(self, lane: Lane, request: McpRequest) -> bytes:
        offer = Asset("prompts", str(raw_params(request.message).get("name", "")))
        async with self._seen(AuditKind.PROMPT, offer, request):
            _check(offer, request.peer)
            return _encode(await lane.answer(request))

    async def _read(self, request: McpRequest) -> bytes:
        """The author's, and else what a tool gave out: that is whoever's who got it, whatever the rules say."""
        offer, peer = Asset("resources", decode_params(request.message, OfResource).uri), request.peer
        async with self._seen(AuditKind.RESOURCE, offer, request):
            if self._lane is None:
                return await self._given.read(request)
            try:
                _check(offer, peer)
                return _encode(await self._lane.answer(request))
            except (RpcError, Forbidden) as error:
                if isinstance(error, RpcError) and not is_not_found(error):
                    raise
                try:
                    return await self._given.read(request)
                except RpcError:
                    raise error from None

    async def _complete(self, lane: Lane, request: McpRequest) -> bytes:
        """Whatever it is about must be there for the caller."""
        offer = _completed(raw_params(request.message))
        async with self._engine.counted(offer, request.peer.caller):
            if offer.name:
                _check(offer, request.peer)
                if not lane.has(offer):
                    raise _unknown(offer, request.peer)
            return _encode(await lane.answer(request))

    def _seen(self, kind: AuditKind, offer: Asset, request: McpRequest) -> AbstractAsyncContextManager[None]:
        return self._intake.asset(kind, offer, request.peer.caller, request.origin, _is_refusal)


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
