"""Calls that are under way, taken up by another request: with the client's answers, or by the call's key.

Whoever asks last hears what the call asks and how it ends; where it runs here, also how far it is.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import UNSET

from ....engine.engine import Engine
from ....engine.node import Node
from ....engine.wait import Wait, holding
from ....model.channel import Channel, Question
from ....model.lifecycle import ENDED, FOR_A_PERSON
from ....model.record import CallRecord
from ....model.tool import Tool
from ....store.hints import Topic
from ....wires.mcp.envelope import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from ....wires.mcp.outcomes import encode_outcome
from ....wires.mcp.params import CallParams
from ....wires.mcp.questions import encode_complete, encode_input_required
from ....wires.mcp.tasks import encode_created
from ....wires.model_text import ModelText
from ..protocol.peer import McpRequest, Outlet, Peer
from ..protocol.question_ids import QuestionIds
from ..protocol.request_state import States, digest_of
from .resources import GivenResources


class Following:
    """Answers requests about a call that another request began: waits for its end or its next question, and hands out
    what it asks in the way of the client's era."""

    def __init__(
        self,
        engine: Engine,
        node: Node,
        states: States,
        ids: QuestionIds,
        given: GivenResources,
        sync_wait_s: float,
        ttl_ms: int,
        telling: ModelText,
    ) -> None:
        self._telling, self.ids = telling, ids
        self._engine, self._questions = engine, engine.questions
        self._node, self._store, self._states = node, node.store, states
        self._given, self._sync_wait_s, self._ttl_ms = given, sync_wait_s, ttl_ms

    async def resumed(self, tool: Tool, params: CallParams, state: str, request: McpRequest, channel: Channel) -> bytes:
        """With the client's answers. What is still open is asked again."""
        peer, outlet = request.peer, request.outlet
        opened = self._states.open(state, peer.caller, digest_of(tool.id, params, peer.caller))
        call = await self._store.row(opened.seq)
        if call is None or call.name.digest() != opened.digest:
            raise RpcError(INVALID_PARAMS, "Invalid params: the call of this requestState is no longer kept")
        if not call.keyed and tool.on_disconnect != "continue":
            outlet.when_gone(lambda: self._node.beside(self._store.cancel(call.seq)))
        answered = await self.answer(call, {} if params.responses is UNSET else params.responses)
        self._take_over(call, outlet, channel)  # not before: what was just answered would be asked of this client again
        return await self._next(tool, call, params, request, () if answered else opened.asked)

    async def joined(
        self, tool: Tool, call: CallRecord, params: CallParams, request: McpRequest, channel: Channel
    ) -> bytes:
        """By its key, while it runs."""
        peer, outlet = request.peer, request.outlet
        self._take_over(call, outlet, channel)
        if peer.revision.is_modern:
            return await self._next(tool, call, params, request)
        ended = await self.until_ended(call, outlet, lambda question: channel.put(question, call.seq), peer)
        self._engine.refuse_unseen(tool, peer.caller)
        self._given.keep(tool, ended.outcome(), peer.caller, ended.user)
        return encode_outcome(tool, ended.outcome(), peer.revision, self._telling)

    async def answer(self, call: CallRecord, responses: Mapping[str, Any]) -> bool:
        """Whether anything was answered. Raises RpcError for an answer that is none; what was not asked is ignored."""
        given = {}
        for question in await self._questions.unanswered(call):
            if question.name in responses:
                whose = (call.key.tenant, call.key.subject)
                if lacking := await self._questions.lacking(question, responses[question.name], whose):
                    raise RpcError(INVALID_PARAMS, f"Invalid params: the answer to '{question.name}' must {lacking}")
                given[question.name] = responses[question.name]
        if given:
            await self._questions.answer(call, given)
        return bool(given)

    async def until_ended(
        self, call: CallRecord, outlet: Outlet, put: Callable[[Question], None], peer: Peer
    ) -> CallRecord:
        """The older era: has what the call asks `put` meanwhile, and says when a person has done it. Raises RpcError if
        the server stops first."""
        known: set[str] = set()
        with ExitStack() as watching:
            while call.state not in ENDED:
                for question in await self._questions.open(call, peer.caller):
                    if question.name not in known:
                        known.add(question.name)
                        put(question)
                        if peer.revision.completes and call.waiting_for in FOR_A_PERSON:
                            watching.callback(
                                self._tell_once(call.seq, self.ids.id_of(call.seq, question.name, peer), outlet)
                            )
                after = await self._questions.next_step(call.seq, Wait(None, outlet), known)
                if after is None:
                    raise stopping()
                call = after
        return call

    async def until_decided(self, call: CallRecord, outlet: Outlet) -> CallRecord:
        """Once it waits for something else than now, or after as long as one waits for a tool."""
        now = call

        async def came() -> bool:
            nonlocal now
            now = await self._store.row(call.seq) or call
            return now.waiting_for != call.waiting_for

        wait = Wait(self._sync_wait_s, outlet)
        await holding(self._store, ((Topic.DECIDED, call.seq), (Topic.ENDED, call.seq)), wait, came)
        return now

    def _tell_once(self, seq: int, id: str, outlet: Outlet) -> Callable[[], None]:
        """As soon as what the call waits for has come. What to call to stop."""

        def tell() -> None:
            forget()
            outlet.send(encode_complete(id))

        forget = self._store.hints.watch(Topic.DECIDED, seq, tell)
        return forget

    def _take_over(self, call: CallRecord, outlet: Outlet, channel: Channel) -> None:
        # What the stream of the first request would have kept for a client that comes back is kept there alone.
        outlet.no_resumption()
        run = self._node.run_of(call.seq)
        if run is not None:
            run.channel = channel

    async def _next(
        self, tool: Tool, call: CallRecord, params: CallParams, request: McpRequest, asked: Sequence[str] = ()
    ) -> bytes:
        """The newer era: its end, what it asks, or, for who can have one, a task. What this client was `asked` before
        and has not answered is asked again only after a while: clients count how often they are."""
        peer, outlet = request.peer, request.outlet
        while True:
            is_held = any(question.name in asked for question in await self._questions.open(call, peer.caller))
            wait = Wait(self._sync_wait_s if peer.has_tasks or is_held else None, outlet)
            after = await self._questions.next_step(call.seq, wait, asked)
            self._engine.refuse_unseen(tool, peer.caller)
            if after is not None and after.state in ENDED:
                await self._engine.on_collected(after)
                self._given.keep(tool, after.outcome(), peer.caller, after.user)
                return encode_outcome(tool, after.outcome(), peer.revision, self._telling)
            call = after or await self._store.row(call.seq) or call
            if questions := await self._questions.open(call, peer.caller):
                state = self._states.make(call, peer.caller, digest_of(tool.id, params, peer.caller), questions)
                return encode_input_required(questions, state, peer.revision)
            if peer.has_tasks:
                return encode_created(self._telling.record(call), peer.revision, self._ttl_ms)
            if self._store.hints.is_leaving or not is_held:
                raise stopping()


def stopping() -> RpcError:
    """For who waits on a server that leaves; the call goes on elsewhere, or after it."""
    return RpcError(INTERNAL_ERROR, "The server is stopping; send the request again", status=503)
