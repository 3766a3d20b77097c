"""What clients of the older era answer, whoever asked."""

from typing import Any

import msgspec
from msgspec import Raw

from ....engine.questions import REFUSED, Questions
from ....model.caller import Caller
from ....model.json_value import decode
from ....model.record import CallRecord
from ....store.contract import Store
from ....wires.mcp.envelope import Incoming, encode_request
from ....wires.mcp.questions import encode_question, question_id, question_of
from ....wires.mcp.revisions import Revision
from ..protocol.peer import owns
from .client_requests import Asking


class ClientAnswers:
    """Takes a client's responses to whoever asked: to a tool's question by way of the ledger, since the tool may run on
    another node, and else to the author's handler that waits for it."""

    def __init__(self, store: Store, questions: Questions, asking: Asking) -> None:
        self._store, self._questions, self._asking = store, questions, asking

    async def take(self, message: Incoming, caller: Caller) -> None:
        """What nobody asked is ignored; an error is an answer, too: the tool is told of it."""
        about = question_of(message.id)
        if about is None:
            await self._asking.take(message, caller)
            return
        seq, name = about
        call = await self._store.row(seq)
        if call is None or not owns(caller, call):
            return
        if isinstance(message.error, Raw):
            answer: Any = {REFUSED: _reason(decode(message.error))}
        else:
            answer = decode(message.result)  # type: ignore[arg-type]
        await self._questions.answer(call, {name: answer})

    async def unseen(self, call: CallRecord, caller: Caller, revision: Revision) -> list[bytes]:
        """What a call asks and no event has told yet, as requests: it was asked again after its node was gone."""
        open = await self._questions.open(call, caller)
        if not open:
            return []
        told = b"".join(data for _, data in await self._store.call_events(call.seq, 0))
        ids = {question.name: question_id(call.seq, question.name) for question in open}
        return [
            encode_request(ids[question.name], *encode_question(question, revision, ids[question.name]))
            for question in open
            if msgspec.json.encode(ids[question.name]) not in told
        ]


def _reason(error: Any) -> str:
    return str(error.get("message") or "it refused") if isinstance(error, dict) else "it refused"
