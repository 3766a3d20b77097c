"""Clients that were given an address for their person are told when the person is done there (2025-11-25 alone).

The request was answered with the address, so it is told on a stream that the client's session has open, wherever that
is: a node that has none notes it, and gives a hint. All of it is a courtesy: who misses it calls again all the same.
Other credentials of the caller may listen in the session, too; they are told of calls of their own tools alone.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from ....engine.node import Node
from ....engine.own_calls import OwnCalls
from ....model.errors import Missing
from ....model.json_value import decoder
from ....store.hints import Topic
from ....store.values import Note
from ....trust.approvals.links import number_in
from ....wires.mcp.questions import COMPLETE
from ..protocol.peer import Peer
from .subscriptions import Subscriptions

KIND = "mcp completed calls"
KEEP_S = 600.0
"""For a client whose stream broke off."""
MOST = 10_000
"""Addresses that are watched for. The oldest are let go."""
Tell = Callable[[str, dict[str, Any]], None]


class CompletedUrl(Struct, frozen=True, array_like=True):
    """An address where a person is done: its id, as the client was told it, and the tool whose call it is of."""

    id: str
    tool: str


_decode = decoder(list[CompletedUrl])


class Completions:
    """Watches for what this node's clients sent their people to, and passes on what other nodes have noted for them."""

    def __init__(self, node: Node, subscriptions: Subscriptions, own: OwnCalls) -> None:
        self._node, self._store, self._subscriptions, self._own = node, node.store, subscriptions, own
        self._expected: OrderedDict[tuple[str, str], Callable[[], None]] = OrderedDict()
        """By session and elicitation: what to call to watch no more."""

    def expect(self, missing: Missing, tool: str, peer: Peer) -> None:
        """A client was told where its person has to go, for a call of the tool of this reference."""
        if not peer.revision.completes or peer.session is None:
            return
        for each in missing.authorization:
            key = number_in(each.id) if missing.approval else each.id
            self._watch(key, CompletedUrl(each.id, tool), peer, peer.session)

    @contextmanager
    def heard_by(self, peer: Peer, tell: Tell) -> Iterator[None]:
        """While a stream of the session is open: what other nodes have noted, and what was noted before."""
        if not peer.revision.completes or peer.session is None:
            yield
            return

        def look() -> None:
            self._node.beside(self._pass_on(peer, tell))

        forget = self._store.hints.watch(Topic.HEARD, peer.session, look)
        look()
        try:
            yield
        finally:
            forget()

    def _watch(self, key: int | str | None, url: CompletedUrl, peer: Peer, session: str) -> None:
        id = url.id
        if (session, id) in self._expected:
            return

        def done() -> None:
            self._expected.pop((session, id))()
            may_hear = partial(self._own.is_for, url.tool)
            if not self._subscriptions.tell_one(session, COMPLETE, {"elicitationId": id}, may_hear):
                self._node.beside(self._note(url, peer))

        self._expected[session, id] = self._store.hints.watch(Topic.DECIDED, key, done)
        if len(self._expected) > MOST:
            self._expected.popitem(last=False)[1]()

    async def _note(self, url: CompletedUrl, peer: Peer) -> None:
        """For whichever node the client listens to."""
        place = _place(peer)
        before = await self._store.note(*place)
        urls = dict.fromkeys([*(_decode(before) if before else ()), url])
        await self._store.put_note(Note(*place, msgspec.json.encode(list(urls))), KEEP_S)
        self._store.tell(Topic.HEARD, peer.session or "")

    async def _pass_on(self, peer: Peer, tell: Tell) -> None:
        """To one of the client's streams: whoever takes the note out. What is not for that one's credentials is left
        for another."""
        noted = await self._store.note(*_place(peer))
        if noted is None:
            return
        told = [url for url in _decode(noted) if self._own.is_for(url.tool, peer.caller)]
        if not told or not await self._store.drop_note(*_place(peer), noted):
            return
        left = [url for url in _decode(noted) if url not in told]
        if left:
            await self._store.put_note(Note(*_place(peer), msgspec.json.encode(left)), KEEP_S)
            self._store.tell(Topic.HEARD, peer.session or "")  # who would have heard them may have looked meanwhile
        for url in told:
            tell(COMPLETE, {"elicitationId": url.id})


def _place(peer: Peer) -> tuple[str, str, str, str]:
    return KIND, peer.caller.tenant, peer.caller.subject, peer.session or ""
