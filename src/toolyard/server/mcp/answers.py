"""What clients of the older era answer, whoever asked."""

import msgspec
from msgspec import UNSET

from ...engine.questions import Questions
from ...model.caller import Caller
from ...store.contract import Store
from ...wires.mcp.envelope import Incoming
from ...wires.mcp.questions import question_of
from .asking import Asking
from .peer import owns


class ClientAnswers:
    """To a tool's questions, through the ledger, and to the author's handlers."""

    def __init__(self, store: Store, questions: Questions, asking: Asking) -> None:
        self._store, self._questions, self._asking = store, questions, asking

    async def take(self, message: Incoming, caller: Caller) -> None:
        """What nobody asked is ignored; an error counts as no answer that anybody gave."""
        about = question_of(message.id)
        if about is None:
            await self._asking.take(message, caller)
            return
        seq, name = about
        call = await self._store.row(seq)
        if call is None or not owns(caller, call):
            return
        answer = {"action": "cancel"} if message.result is UNSET else msgspec.json.decode(message.result)
        await self._questions.answer(call, {name: answer})
