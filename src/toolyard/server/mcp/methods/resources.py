"""What tools gave out, for whoever got it: the resources that they embedded, results that were too long for a model,
and at which upstream a resource is that a result named."""

import asyncio
import logging
import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, Struct

from ....engine.node import Node
from ....engine.own_calls import OwnCalls
from ....model.call import Outcome, decode_extra
from ....model.caller import Caller
from ....model.json_value import decode, decode_as
from ....model.lifecycle import State
from ....model.record import CallKey, CallRecord, Family
from ....model.run import Run
from ....model.tool import Tool
from ....model.worker import owner_of
from ....runners.scrub_thread import beside_loop
from ....store.values import Note
from ....wires.mcp.envelope import INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from ....wires.mcp.outcomes import blocks_of, call_of, is_block, text_and_kind
from ....wires.mcp.params import OfResource, decode_params
from ....wires.mcp.revisions import Revision
from ....wires.mcp.tools import LIST_TTL_MS
from ....wires.model_text import ModelText
from ..protocol.peer import McpRequest

OWN, STRANGERS, LINKED = "embedded", "embedded by a worker", "named by an upstream"
"""Kinds of notes: what the server's own tools gave out, what those of workers and of other servers did, and what
upstreams' results name."""
Place = tuple[str, str, str]
"""Whose a resource is, by tenant and subject, and its address."""
FAMILY: Family = "mcp"
"""The wires whose calls are meant by an id over MCP."""
_NOT_FOUND = (INVALID_PARAMS, RESOURCE_NOT_FOUND)
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("toolyard.mcp")


class GivenResource(Struct):
    """A resource that a result embedded, by which tool, and whose that is: a worker's caller, another server's toolkit;
    None is the server itself."""

    tool: str
    owner: str | None
    resource: dict[str, Any]


class NamedResource(Struct):
    """A resource that a result of an upstream's tool named: by which tool, and of which upstream."""

    tool: str
    upstream: str


class NamedResources:
    """Remembers which upstream a resource is at that a result named, for whoever got that result. Templates and lists
    do not say it of every resource, and nobody asks all upstreams in turn."""

    def __init__(self, node: Node, keep_s: float) -> None:
        self._node, self._keep_s = node, keep_s
        self._unwritten: dict[Place, NamedResource] = {}
        """A client reads at once what it was just given."""

    def keep(self, run: Run, upstream: str, uris: Sequence[str]) -> None:
        """It is not waited for. It goes when the calls of the user are erased that the call was made for."""
        caller, named = run.caller, NamedResource(run.tool.reference, upstream)
        places = [(caller.tenant, caller.subject, uri) for uri in uris]
        self._unwritten |= dict.fromkeys(places, named)
        self._node.beside(self._write(places, named, caller.user))

    async def _write(self, places: Sequence[Place], named: NamedResource, user: str) -> None:
        try:
            for place in places:
                await self._node.store.put_note(Note(LINKED, *place, _encode(named), user), self._keep_s)
        finally:
            for place in places:
                if self._unwritten.get(place) is named:
                    del self._unwritten[place]

    async def find(self, uri: str, caller: Caller, own: OwnCalls) -> str | None:
        """The upstream, if the tool is there for the caller whose result named the resource."""
        place = (caller.tenant, caller.subject, uri)
        named = self._unwritten.get(place)
        if named is None:
            kept = await self._node.store.note(LINKED, *place)
            named = None if kept is None else decode_as(kept, NamedResource)
        return named.upstream if named is not None and own.is_for(named.tool, caller) else None


class GivenResources:
    """The resources that tools gave out: what a result embeds, and results that are too long for a model. They are
    there for the caller who got them, and are not listed."""

    def __init__(
        self, node: Node, own: OwnCalls, keep_s: float, telling: ModelText, upstreams: Collection[str] = ()
    ) -> None:
        """`upstreams` are owners whose resources can be read at their own place: what is kept of them is a copy."""
        self._node, self._own, self._keep_s, self._telling = node, own, keep_s, telling
        self._upstreams = upstreams
        self._turns: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()

    def keep(self, tool: Tool, outcome: Outcome, caller: Caller, user: str) -> None:
        """What a result embeds can be read again, until the calls of the user that the call was made for are erased. It
        is not waited for."""
        owner = _owner(tool, outcome)
        for block in _content(tool, outcome):
            if is_block(block) and block["type"] == "resource":
                given = GivenResource(tool.reference, owner, block["resource"])
                place = (caller.tenant, caller.subject, given.resource["uri"])
                note = Note(OWN if owner is None else STRANGERS, *place, _encode(given), user)
                if owner is None:
                    self._node.beside(self._node.store.put_note(note, self._keep_s))
                else:
                    self._node.beside(self._put(note, owner, self._turn(place)))

    def _turn(self, place: Place) -> asyncio.Lock:
        """Whoever keeps or reads what strangers gave out at a place waits for those who keep something there: a client
        reads again what it was just given."""
        return self._turns.setdefault(place, asyncio.Lock())

    async def _put(self, note: Note, owner: str, turn: asyncio.Lock) -> None:
        """In the place of what the same owner's tools gave out by that address. What others' did stays: whoever reads
        it again gets what they were given, and a stranger cannot put its own text there."""
        store, place = self._node.store, (note.tenant, note.subject, note.name)
        async with turn:
            before = await store.note(STRANGERS, *place)
            is_free = before is None or decode_as(before, GivenResource).owner == owner
            if not is_free or await store.note(OWN, *place) is not None:
                _log.debug("a stranger's tool gave out %s, which is another owner's: it is not kept", note.name)
                return
            await (store.add_note if before is None else store.put_note)(note, self._keep_s)

    async def read(self, request: McpRequest) -> bytes:
        """Raises RpcError for what is not there, also where there is a copy of an upstream's."""
        caller, uri = request.peer.caller, decode_params(request.message, OfResource).uri
        call_id = call_of(uri)
        if call_id is not None:
            return await self._told(await self._result(uri, call_id, caller), uri, request)
        given = await self._embedded(uri, caller)
        is_copy = given is not None and given.owner in self._upstreams
        return await self._told(None if given is None or is_copy else given.resource, uri, request)

    async def read_copy(self, request: McpRequest) -> bytes:
        """As an upstream's tool embedded it, some time ago. Raises RpcError."""
        uri = decode_params(request.message, OfResource).uri
        given = await self._embedded(uri, request.peer.caller)
        return await self._told(None if given is None else given.resource, uri, request)

    async def _told(self, found: dict[str, Any] | None, uri: str, request: McpRequest) -> bytes:
        peer = request.peer
        if found is None:
            code = INVALID_PARAMS if peer.revision.is_modern else RESOURCE_NOT_FOUND
            raise RpcError(code, "Resource not found", {"uri": uri}, status=200)
        text, cached = found.get("text"), cached_by(peer.revision)
        if isinstance(text, str):
            is_json = found.get("mimeType") == "application/json"
            tell = partial(self._telling.text, text, is_json=is_json, most=sys.maxsize)
            told = await beside_loop(tell, len(text))
            found["text"] = told.text
            if notes := told.notes():
                cached["_meta"] = {**cached.get("_meta", {}), **notes}
        return _encode({**cached, "contents": [found]})

    async def _embedded(self, uri: str, caller: Caller) -> GivenResource | None:
        """What the server's own tools gave out comes first, whichever was given out first."""
        place = (caller.tenant, caller.subject, uri)
        found = await self._given(OWN, place, caller)
        if found is None:
            async with self._turn(place):
                found = await self._given(STRANGERS, place, caller)
        return found

    async def _given(self, kind: str, place: Place, caller: Caller) -> GivenResource | None:
        kept = await self._node.store.note(kind, *place)
        given = None if kept is None else decode_as(kept, GivenResource)
        return given if given is not None and self._own.is_for(given.tool, caller) else None

    async def _result(self, uri: str, call_id: str, caller: Caller) -> dict[str, Any] | None:
        """All that a call of the caller's returned."""
        call = await self._call(call_id, caller)
        if call is None or call.state is not State.COMPLETE:
            return None
        content = UNSET if call.extra is None else decode_extra(call.extra).content
        text, kind = text_and_kind(bytes(content or call.value or b"null"))
        return {"uri": uri, "mimeType": kind, "text": text}

    async def _call(self, call_id: str, caller: Caller) -> CallRecord | None:
        """Of several calls with that id the one that was made over MCP, even where its result is no longer kept."""
        store, whose = self._node.store, (caller.tenant, caller.subject)
        begun = await store.find(CallKey(*whose, FAMILY, call_id))
        if begun is not None:
            is_there = begun.known is not None and self._own.shows(begun.known, caller)
            return await store.row(begun.known.seq) if is_there and begun.known is not None else None
        return await self._own.get(caller, call_id, FAMILY) or await self._own.get(caller, call_id)

    async def list(self, request: McpRequest) -> bytes:
        """They can be read and not listed: a link is in the result that gave them."""
        name = "resourceTemplates" if request.message.method == "resources/templates/list" else "resources"
        return _encode({**cached_by(request.peer.revision), name: []})


def _content(tool: Tool, outcome: Outcome) -> list[Any]:
    """The blocks of a result, where it is content or has some."""
    extra = None if outcome.extra is None else decode_extra(outcome.extra)
    if extra is not None and extra.content is not UNSET:
        return blocks_of(decode(extra.content))
    is_content = tool.returns_content or (extra is not None and extra.is_content)
    return blocks_of(decode(outcome.value)) if is_content and outcome.value is not None else []


def _owner(tool: Tool, outcome: Outcome) -> str | None:
    """Whose a tool is. What has more than a value is another server's."""
    if tool.offer is not None:
        return owner_of(tool.offer)
    return None if outcome.extra is None else f"toolkit {tool.toolkit.name}"


def is_not_found(error: RpcError) -> bool:
    return error.code in _NOT_FOUND


def cached_by(revision: Revision) -> dict[str, Any]:
    """What every result has in the newer era that clients may keep for a while."""
    if not revision.is_modern:
        return {}
    meta = revision.server_info
    return {"resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": "private", "_meta": meta}
