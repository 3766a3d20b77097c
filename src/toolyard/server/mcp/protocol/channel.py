"""A running call's way to an MCP client."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ....model.channel import Asks, Question
from ....wires.mcp.envelope import encode_notification, encode_request
from ....wires.mcp.params import LEVELS
from ....wires.mcp.questions import can_answer, encode_question
from ....wires.model_text import ModelText
from .peer import McpRequest
from .question_ids import QuestionIds

TOGETHER_S = 0.01
"""Questions that are asked at once are put at once."""
_LEVELS = {"warn": "warning", "fatal": "critical"}


class McpChannel(Struct, eq=False):
    """A call's `Channel` to an MCP client, but for `answer`: progress and logs go out as notifications, questions as
    each era has them (as requests to the client, or in the answer to its own request). It goes by way of the request's
    outlet, which is not made before there is something to say."""

    request: McpRequest
    telling: ModelText
    ids: QuestionIds
    loop: asyncio.AbstractEventLoop
    """The server's: tools in threads have something to say, too."""
    token: int | str | None
    """What the client calls the progress of this request; None where it wants none."""
    cancelled: bool = False
    last_progress: float | None = None
    is_putting: bool = False
    was_put: tuple[str, ...] = ()
    """The ids of the questions that went out as requests."""

    def answer_with_questions(self, seq: int) -> None:
        """The newer era: the call with that number in the ledger asks something, with which the request is to be
        answered."""
        raise NotImplementedError

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        if self.token is None or (self.last_progress is not None and done <= self.last_progress):
            return
        self.last_progress = done
        said: dict[str, Any] = {"progressToken": self.token, "progress": done, "total": total}
        told = {} if message is None else self._told({"message": message})
        self._notify("notifications/progress", {n: value for n, value in said.items() if value is not None} | told)

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        wanted, level = self.request.peer.log_level, _LEVELS.get(level, level)
        if wanted is None or level not in LEVELS or LEVELS.index(level) < LEVELS.index(wanted):
            return
        data = {"message": message, **fields} if fields else message
        self._notify("notifications/message", {"level": level, "logger": "tool", **self._told({"data": data})})

    def can_ask(self, kind: Asks) -> bool:
        peer = self.request.peer
        is_reachable = peer.revision.is_modern or self.request.is_open
        return is_reachable and can_answer(peer.capabilities, kind)

    def put(self, question: Question, seq: int) -> None:
        """Once: who joined a call that runs here is told of a question by the run, and by whoever looks at the ledger
        for those that joined."""
        peer = self.request.peer
        if not peer.revision.is_modern:
            id = self.ids.id_of(seq, question.name, peer)
            if id not in self.was_put:
                self.was_put += (id,)
                self.request.outlet.send(encode_request(id, *encode_question(question, peer.revision, id)))
            return
        if not self.is_putting:
            self.is_putting = True
            self.loop.call_later(TOGETHER_S, self._put_all, seq)

    def takes_long(self, record: Callable[[], None]) -> None:
        self.request.outlet.takes_long(record)

    def on_recorded(self, seq: int) -> None:
        self.request.outlet.on_recorded(seq)

    def joins(self) -> None:
        self.request.outlet.no_resumption()

    def when_answered(self, callback: Callable[[], None]) -> None:
        self.request.when_answered(callback)

    def when_gone(self, callback: Callable[[], None]) -> None:
        self.request.outlet.when_gone(callback)

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self.request.outlet.when_expired(callback)

    def _put_all(self, seq: int) -> None:
        self.is_putting = False
        self.answer_with_questions(seq)

    def _told(self, said: dict[str, Any]) -> dict[str, Any]:
        """A model may read it. What was done to it stands beside it."""
        notes: dict[str, Any] = {}
        made = self.telling.throughout(said, notes)
        return {**made, "_meta": notes} if notes else made

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        message = encode_notification(method, params)
        if asyncio._get_running_loop() is self.loop:
            self._send(message)
        else:
            self.loop.call_soon_threadsafe(self._send, message)

    def _send(self, message: bytes) -> None:
        """On the loop, as an outlet may be made here."""
        self.request.outlet.send(message)
