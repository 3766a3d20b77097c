"""Requests of the older era that are being worked on, for clients that give one up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from ...store.contract import Note, Store
from ...wires.mcp.envelope import Id
from .peer import Peer

KIND = "mcp request"
KEEP_S = 86400.0


class Running(Protocol):
    """An outlet whose request can be given up."""

    seq: int

    def cancel(self) -> None: ...


class RunningRequests:
    """By session and id: ids alone are anybody's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: dict[tuple[str, Id], Running] = {}

    @contextmanager
    def kept(self, peer: Peer, id: Id, outlet: Running) -> Iterator[None]:
        if peer.session is None:
            yield
            return
        key = (peer.session, id)
        self._running[key] = outlet
        try:
            yield
        finally:
            if self._running.get(key) is outlet:
                del self._running[key]

    async def cancel(self, peer: Peer, id: Id) -> None:
        """Here, or wherever it runs. What is not known is not missed."""
        if peer.session is None:
            return
        outlet = self._running.get((peer.session, id))
        if outlet is not None and outlet.seq == 0:
            outlet.cancel()
            return
        seq = outlet.seq if outlet is not None else await self._elsewhere(peer, id)
        if seq:
            await self._store.cancel(seq)

    async def note(self, peer: Peer, id: Id, seq: int) -> None:
        """That a call is in the ledger, for the node that its client's word reaches."""
        caller = peer.caller
        note = Note(KIND, caller.tenant, caller.subject, _name(peer, id), b"%d" % seq)
        await self._store.put_note(note, KEEP_S)

    async def _elsewhere(self, peer: Peer, id: Id) -> int:
        found = await self._store.note(KIND, peer.caller.tenant, peer.caller.subject, _name(peer, id))
        return int(found) if found else 0


def _name(peer: Peer, id: Id) -> str:
    return msgspec.json.encode([peer.session, id]).decode()
