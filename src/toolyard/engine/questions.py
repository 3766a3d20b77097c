"""Questions that a running tool puts to its client. A run that asks is parked, not ended: its call is in the ledger,
the question is a row there, and so is the answer, whichever node it reaches. Run again, it finds what was answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any

import msgspec

from ..model.caller import Caller
from ..model.channel import Asks, Channel, Question, QuietChannel
from ..model.errors import ToolError, ToolTimedOut
from ..model.json_value import decode, decoder
from ..model.lifecycle import ENDED, WaitingFor
from ..model.record import CallRecord
from ..model.run import Run
from ..runners.sandbox import Sandbox, Whose
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import StoreDown, StoredQuestion
from ..trust.approvals.links import ApprovalLinks
from .wait import Wait, holding

LOOK_AGAIN_S = 1.0
REFUSED = "toolyard/refused"
"""In the place of an answer: why the client gave none."""
CANNOT: dict[Asks, str] = {
    "form": "ask its person with a form",
    "url": "send its person to an address",
    "sampling": "ask its model",
    "roots": "say in which folders it works",
}
AskForAccounts = Callable[[CallRecord, Caller], Awaitable[list[Question]]]
"""Where the user of a call is sent whose account is not connected, for whoever looks at the call."""
_encode = msgspec.json.Encoder().encode
_decode_question = decoder(Question)


class Questions:
    """The questions of every call that runs on this node, and the answers to those of any node."""

    def __init__(
        self, store: Store, wait_s: float, links: ApprovalLinks, sandbox: Sandbox, ask_for_accounts: AskForAccounts
    ) -> None:
        """`wait_s`: how long a tool waits for an answer."""
        self._store, self._wait_s, self._links, self._sandbox = store, wait_s, links, sandbox
        self._ask_for_accounts = ask_for_accounts

    async def ask(self, run: Run, question: Question) -> Any:
        """Waits for the answer. Raises ToolError where nobody can be asked or nobody answers in time, and ValueError
        for a form that no answer can be checked against."""
        whose = (run.caller.tenant, run.caller.subject)
        if question.kind == "form":
            await self._sandbox.prove(dict(question.schema), whose)
        if question.name in run.answers and await self.lacking(question, run.answers[question.name], whose) is None:
            return run.answers[question.name]
        if not run.channel.can_ask(question.kind):
            raise ToolError(
                f"{run.tool.id} has to ask '{question.name}', and this client cannot {CANNOT[question.kind]}",
                can_retry=False,
            )
        seq = await run.recorded()
        deadline = asyncio.get_running_loop().time() + self._wait_s
        with self._store.hints.waiting(Topic.QUESTION, seq) as bell:
            answer = await self._put(run, seq, question)
            while answer is None:
                if self._store.hints.is_leaving and run.task is not None:
                    # Nobody waits for a person while the server stops. Between two steps of the tool: what happens
                    # within one counts as its own doing.
                    asyncio.get_running_loop().call_soon(run.task.cancel)
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    raise ToolTimedOut(f"Nobody answered '{question.name}' in {self._wait_s:g} seconds", can_retry=True)
                await bell.wait(min(left, LOOK_AGAIN_S))
                answer = await self._answer(seq, question.name)
        return await self._checked(question, decode(answer), whose)

    async def _put(self, run: Run, seq: int, question: Question) -> bytes | None:
        """Records the question and puts it to the client, unless it was answered before."""
        while True:
            try:
                answer = await self._store.ask(seq, run.attempt, question.name, _encode(question))
            except StoreDown:
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            if answer is None:
                run.channel.put(question, seq)
            return answer

    async def _answer(self, seq: int, name: str) -> bytes | None:
        try:
            asked = await self._store.questions(seq)
        except StoreDown:
            return None
        return next((each.answer for each in asked if each.name == name), None)

    async def open(self, call: CallRecord, looks: Caller) -> list[Question]:
        """Those that a call waits for now. `looks` is its caller, as it is known now."""
        if call.waiting_for == WaitingFor.APPROVAL:
            return [self._links.question(call.tool, call.name)]
        if call.waiting_for == WaitingFor.AUTHORIZATION:
            return await self._ask_for_accounts(call, looks)
        return await self.unanswered(call) if call.waiting_for == WaitingFor.ANSWER else []

    async def unanswered(self, call: CallRecord) -> list[Question]:
        """Those that nobody has answered, also of an attempt that was lost: the next one will ask them again."""
        if call.state in ENDED:
            return []
        return [_decode_question(each.question) for each in await self._store.questions(call.seq) if _is_open(each)]

    async def answer(self, call: CallRecord, answers: Mapping[str, Any]) -> None:
        """Answers those of its open questions that are named; the first answer counts, and what nobody asked is
        ignored."""
        await self._store.answer_questions(call.seq, {name: _encode(answer) for name, answer in answers.items()})

    async def hear(self, seq: int, channel: Channel, caller: Caller) -> None:
        """Puts what a call asks to somebody who joined it, until it has ended: it may run on another node, or have
        been begun for nobody, after a person's yes."""
        put: set[str] = set()
        while any(channel.can_ask(kind) for kind in CANNOT):
            try:
                call = await self.next_step(seq, Wait(None, QuietChannel()), put)
                if call is None or call.state in ENDED:
                    return
                asked = await self.open(call, caller)
            except StoreDown:
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            for question in asked:
                if question.name not in put and channel.can_ask(question.kind):
                    channel.put(question, seq)
                put.add(question.name)  # also one that this client cannot answer: another may

    async def next_step(self, seq: int, wait: Wait, known: Container[str] = ()) -> CallRecord | None:
        """The call as soon as it has ended or asks something that is not known; None if that takes too long, or the
        server stops."""
        call: CallRecord | None = None

        async def came() -> bool:
            nonlocal call
            call = None  # while this waits nothing of it is held: its input may be large
            found = await self._store.glance(seq)
            is_there = found is None or found.state in ENDED or await self._asks(found, known)
            call = found if is_there else None
            return is_there

        topics = ((Topic.ENDED, seq), (Topic.QUESTION, seq))
        if not await holding(self._store, topics, wait, came, LOOK_AGAIN_S) or call is None:
            return None
        return await self._store.row(seq) if call.is_cut else call

    async def lacking(self, question: Question, answer: Any, whose: Whose) -> str | None:
        """What an answer must do, if this one does not: be of the question's kind, and fit its form."""
        lacking = question.wants(answer)
        if lacking is None and question.kind == "form" and answer["action"] == "accept":
            problems = await self._sandbox.check(dict(question.schema), answer["content"], whose)
            return "fit the form's schema" if problems else None
        return lacking

    async def _checked(self, question: Question, answer: Any, whose: Whose) -> Any:
        """Raises ToolError for a client that answered with an error, or with something else."""
        if isinstance(answer, dict) and (refusal := answer.get(REFUSED)) is not None:
            raise ToolError(f"The client could not answer '{question.name}': {refusal}", can_retry=False)
        if lacking := await self.lacking(question, answer, whose):
            raise ToolError(f"The client's answer to '{question.name}' must {lacking}", can_retry=False)
        return answer

    async def _asks(self, call: CallRecord, known: Container[str]) -> bool:
        return any(
            question.name not in known for question in await self.open(call, Caller(call.key.tenant, call.key.subject))
        )


def _is_open(asked: StoredQuestion) -> bool:
    return asked.answer is None
