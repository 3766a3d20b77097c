"""What clients of the older era answer, whoever asked."""

from typing import Any

import msgspec
from msgspec import Raw

from ....engine.own_calls import OwnCalls
from ....engine.questions import REFUSED, Questions
from ....model.json_value import decode
from ....model.record import CallRecord
from ....store.contract import Store
from ....wires.mcp.envelope import Incoming, encode_request
from ....wires.mcp.questions import encode_question
from ..protocol.peer import Peer
from ..protocol.question_ids import QuestionIds, is_question
from .client_requests import Asking


class ClientAnswers:
    """Takes a client's responses to whoever asked: to a tool's question by way of the ledger, since the tool may run on
    another node, and else to the author's handler that waits for it."""

    def __init__(self, store: Store, own: OwnCalls, questions: Questions, asking: Asking, ids: QuestionIds) -> None:
        self._store, self._own, self._questions, self._asking, self._ids = store, own, questions, asking, ids

    async def take(self, message: Incoming, peer: Peer) -> None:
        """What nobody asked this client is ignored; an error is an answer, too: the tool is told of it."""
        if not is_question(message.id):
            await self._asking.take(message, peer.caller)
            return
        if (about := self._ids.read(message.id, peer)) is None:
            return
        seq, name = about
        call = await self._own.row(peer.caller, seq)
        if call is None:
            return
        if isinstance(message.error, Raw):
            answer: Any = {REFUSED: _reason(decode(message.error))}
        else:
            answer = decode(message.result)  # type: ignore[arg-type]
        await self._questions.answer(call, {name: answer})

    async def unseen(self, call: CallRecord, peer: Peer) -> list[bytes]:
        """What a call asks and no event has told yet, as requests: it was asked again after its node was gone."""
        open = await self._questions.open(call, peer.caller)
        if not open:
            return []
        told = b"".join(data for _, data in await self._store.call_events(call.seq, 0))
        ids = {question.name: self._ids.id_of(call.seq, question.name, peer) for question in open}
        return [
            encode_request(ids[question.name], *encode_question(question, peer.revision, ids[question.name]))
            for question in open
            if msgspec.json.encode(ids[question.name]) not in told
        ]


def _reason(error: Any) -> str:
    return str(error.get("message") or "it refused") if isinstance(error, dict) else "it refused"
