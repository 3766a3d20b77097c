"""Requests of the older era that are being worked on, for clients that give one up, at whichever node they say so."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from ....store.contract import Store
from ....store.values import Note, StoreDown
from ....wires.mcp.envelope import Id
from ..protocol.peer import Peer

KIND = "mcp cancelled"
KEEP_S, LOOK_S = 60.0, 0.3


class CancellableOutlet(Protocol):
    """An outlet whose request can be given up."""

    seq: int

    def cancel(self) -> None: ...


class RunningRequests:
    """The requests that are being worked on here, by session and id: each client counts its own, so an id alone could
    be anybody's. A cancellation that reaches another node is noted in the ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: dict[tuple[str, Id], CancellableOutlet] = {}

    @contextmanager
    def kept(self, peer: Peer, id: Id, outlet: CancellableOutlet) -> Iterator[None]:
        if peer.session is None:
            yield
            return
        key = (peer.session, id)
        self._running[key] = outlet
        watching = asyncio.create_task(self._watch(peer, id, outlet)) if self._store.shared else None
        try:
            yield
        finally:
            if self._running.get(key) is outlet:
                del self._running[key]
            if watching is not None:
                watching.cancel()

    async def cancel(self, peer: Peer, id: Id) -> None:
        """Here, or wherever it runs. What is not known is not missed."""
        if peer.session is None:
            return
        outlet = self._running.get((peer.session, id))
        if outlet is not None:
            await self._give_up(outlet)
        elif self._store.shared:
            caller = peer.caller
            await self._store.put_note(Note(KIND, caller.tenant, caller.subject, _name(peer, id), b"1"), KEEP_S)

    async def _watch(self, peer: Peer, id: Id, outlet: CancellableOutlet) -> None:
        """Another node may be told."""
        place = (KIND, peer.caller.tenant, peer.caller.subject, _name(peer, id))
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if await self._store.note(*place) is not None:
                    await self._store.drop_note(*place)
                    await self._give_up(outlet)
                    return
            except StoreDown:
                continue

    async def _give_up(self, outlet: CancellableOutlet) -> None:
        outlet.cancel()
        if outlet.seq:
            await self._store.cancel(outlet.seq)


def _name(peer: Peer, id: Id) -> str:
    return msgspec.json.encode([peer.session, id]).decode()
