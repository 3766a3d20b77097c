"""Requests of the older era that are being worked on, for clients that give one up, at whichever node they say so.

A session is its caller's, and so several credentials may use it. What one of them asked for is given up only by those
that could have asked for it: for others there is no such request.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec
from msgspec import Struct

from ....engine.node import Node
from ....engine.own_calls import OwnCalls
from ....model.caller import Caller, Reach
from ....model.json_value import decoder
from ....store.values import Note, StoreDown
from ....wires.mcp.envelope import Id
from ..protocol.peer import Peer

RUNNING, CANCELLED = "mcp running", "mcp cancelled"
KEEP_S, LOOK_S = 60.0, 0.3
LOOKS = 5
"""How often a node looks for a request that another one may just be about to say that it has."""
RENEW_LOOKS = 100
"""After how many looks the note of a running request is written again: well within the time that it is kept."""


class CancellableOutlet(Protocol):
    """An outlet whose request can be given up."""

    seq: int

    def cancel(self) -> None: ...


class Asked(Struct, frozen=True):
    """What a request asked for, as far as it decides who may give it up."""

    reach: Reach
    """Of the credentials that it came with."""
    tool: str | None = None
    """The reference of the tool that it calls."""


_decode = decoder(Asked)


class RunningRequests:
    """The requests that are being worked on here, by session and id: each client counts its own, so an id alone could
    be anybody's. Those that take a while are noted in the ledger, and so is a cancellation that reaches another
    node."""

    def __init__(self, node: Node, own: OwnCalls) -> None:
        self._node, self._store, self._own = node, node.store, own
        self._running: dict[tuple[str, Id], tuple[CancellableOutlet, Asked]] = {}

    @contextmanager
    def kept(self, peer: Peer, id: Id, outlet: CancellableOutlet, asked: Asked) -> Iterator[None]:
        if peer.session is None:
            yield
            return
        key = (peer.session, id)
        kept = self._running[key] = (outlet, asked)
        watching = asyncio.create_task(self._watch(peer, id, outlet, asked)) if self._store.shared else None
        try:
            yield
        finally:
            if self._running.get(key) is kept:
                del self._running[key]
            if watching is not None:
                watching.cancel()

    async def cancel(self, peer: Peer, id: Id) -> None:
        """Here, or wherever it runs. What is not known is not missed."""
        if peer.session is None:
            return
        kept = self._running.get((peer.session, id))
        if kept is not None and self._may_give_up(peer.caller, kept[1]):
            await self._give_up(kept[0])
        elif kept is None and self._store.shared:
            self._node.beside(self._tell_its_node(peer, id))

    def _may_give_up(self, caller: Caller, asked: Asked) -> bool:
        if asked.tool is not None:
            return self._own.is_for(asked.tool, caller)
        return caller.view.reach.covers(asked.reach)

    async def _tell_its_node(self, peer: Peer, id: Id) -> None:
        """Nothing is noted of a request that nobody has: a client could have any number of them noted."""
        for _ in range(LOOKS):
            noted = await self._store.note(*_place(RUNNING, peer, id))
            if noted is not None:
                if self._may_give_up(peer.caller, _decode(noted)):
                    await self._store.put_note(Note(*_place(CANCELLED, peer, id), b"1"), KEEP_S)
                return
            await asyncio.sleep(LOOK_S)

    async def _watch(self, peer: Peer, id: Id, outlet: CancellableOutlet, asked: Asked) -> None:
        """Says that this node has the request, and looks whether another one was told to give it up."""
        running, cancelled = _place(RUNNING, peer, id), _place(CANCELLED, peer, id)
        looks = 0
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    if looks % RENEW_LOOKS == 0:
                        await self._store.put_note(Note(*running, msgspec.json.encode(asked)), KEEP_S)
                    looks += 1
                    if await self._store.note(*cancelled) is not None:
                        await self._store.drop_note(*cancelled)
                        await self._give_up(outlet)
                        return
                except StoreDown:
                    continue
        finally:
            if looks:
                self._node.beside(self._store.drop_note(*running))

    async def _give_up(self, outlet: CancellableOutlet) -> None:
        outlet.cancel()
        if outlet.seq:
            await self._store.cancel(outlet.seq)


def _place(kind: str, peer: Peer, id: Id) -> tuple[str, str, str, str]:
    return kind, peer.caller.tenant, peer.caller.subject, msgspec.json.encode([peer.session, id]).decode()
