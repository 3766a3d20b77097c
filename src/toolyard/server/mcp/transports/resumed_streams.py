"""The streams that a client of the older era opens by itself: what changes, and the rest of one that broke off."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from ....engine.node import Node
from ....engine.own_calls import OwnCalls
from ....model.lifecycle import ENDED
from ....store.hints import Topic
from ....wires.mcp.envelope import INVALID_REQUEST, RpcError, encode_notification, encode_result
from ....wires.mcp.params import SubscriptionFilter
from ...http.reply_budget import ReplyBudget
from ..methods.client_answers import ClientAnswers
from ..methods.subscriptions import Subscriber, Subscriptions
from ..methods.tasks import Tasks
from ..methods.url_completions import Completions
from ..protocol.event_ids import Place
from ..protocol.peer import Peer
from ..protocol.sessions import McpSessions, SessionState
from .http_stream import Events, Keeping, event

LOOK_S = 1.0


class OlderStreams:
    """Makes the streams that a client asks for by itself, on whichever node it asks."""

    def __init__(
        self,
        keeping: Keeping,
        own: OwnCalls,
        subscriptions: Subscriptions,
        answers: ClientAnswers,
        tasks: Tasks,
        completions: Completions,
        replies: ReplyBudget,
        sessions: McpSessions,
        node: Node,
    ) -> None:
        self._store, self._subscriptions, self._answers, self._tasks = keeping.store, subscriptions, answers, tasks
        self._own, self._places, self._completions, self._replies = own, keeping.places, completions, replies
        self._sessions, self._node = sessions, node

    def place(self, last_event: bytes, peer: Peer) -> Place:
        """Raises RpcError for what was not given out to this session."""
        place = self._places.read(last_event, peer)
        if place is None:
            raise RpcError(INVALID_REQUEST, "Last-Event-ID is not one that this server gave out in this session")
        return place

    async def changes(self, state: SessionState, peer: Peer) -> AsyncIterator[bytes]:
        """Of the catalogue, of what the session has subscribed to, and of what its person was sent for."""
        events, caller = Events(), peer.caller
        wanted = SubscriptionFilter(tools=True, prompts=True, resources=True, uris=state.subscriptions)

        def tell(method: str, params: dict[str, Any]) -> None:
            events.put(event(encode_notification(method, params or None)), is_optional=True)

        yield b": changes\n\n"
        hearing = Subscriber(wanted, tell, caller, caller.current, peer.session)
        with self._subscriptions.hearing(hearing), self._completions.heard_by(peer, tell), self._followed(hearing):
            async for chunk in events.chunks():
                yield chunk

    @contextmanager
    def _followed(self, hearing: Subscriber) -> Iterator[None]:
        """Keeps what a stream tells of what its session follows, which may be set on another node."""
        session, caller = hearing.session, hearing.tasks_of
        if session is None or caller is None:
            yield
            return

        async def look() -> None:
            with suppress(RpcError):  # the session has ended
                state = await self._sessions.find(session, caller)
                hearing.wanted = msgspec.structs.replace(hearing.wanted, uris=state.subscriptions)
                self._subscriptions.follows_others()

        # Looked at now as well: it may have been set while the stream was being opened.
        self._node.beside(look())
        forget = self._store.hints.watch(Topic.FOLLOWED, session, lambda: self._node.beside(look()))
        try:
            yield
        finally:
            forget()

    async def rest(self, place: Place, peer: Peer) -> AsyncIterator[bytes]:
        """What came after an event, and the response. The call may be large, and is read and sent in a place for that,
        which is given up while there is nothing to send."""
        seq, number, id = place
        put: set[bytes] = set()
        with self._store.hints.waiting(Topic.ENDED, seq) as bell:
            while True:
                read = await self._replies.place(peer.caller)
                try:
                    call = await self._own.row(peer.caller, seq)
                    if call is None:
                        return
                    for each, data in await self._store.call_events(seq, number):
                        number = each
                        yield event(data, self._places.id_of((seq, number, id), peer))
                    for question in await self._answers.unseen(call, peer):
                        if question not in put:
                            put.add(question)
                            yield event(question)
                    if call.state in ENDED:
                        yield event(encode_result(id, self._tasks.result_of(call, peer.revision)))
                        return
                    if self._store.hints.is_leaving and call.holder != self._store.node:
                        return  # nothing will come of it here; another node knows more
                    del call
                finally:
                    read.give()
                if not await bell.wait(LOOK_S):
                    yield b": still here\n\n"
