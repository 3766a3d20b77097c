"""A running call's way to an MCP client."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ....model.call import Outcome
from ....model.channel import Asks, Question
from ....wires.mcp.envelope import encode_notification, encode_request
from ....wires.mcp.params import LEVELS
from ....wires.mcp.questions import can_answer, encode_question
from ....wires.model_text import ModelText
from .peer import Outlet, Peer
from .question_ids import QuestionIds

TOGETHER_S = 0.01
"""Questions that are asked at once are put at once."""
_LEVELS = {"warn": "warning", "fatal": "critical"}


class RequestHooks(Protocol):
    """What becomes of a request whose call asks something, or takes long."""

    def put(self, seq: int) -> None:
        """The call with that number in the ledger asks something: the request is to be answered with its questions."""
        ...

    def on_slow(self, outcome: Outcome) -> None:
        """The call goes on for longer than one waits; `outcome` says under which id."""
        ...


class McpChannel:
    """A call's `Channel` to an MCP client: progress and logs go out as notifications, questions as each era has them
    (as requests to the client, or in the answer to its own request)."""

    cancelled = False
    _last: float | None = None
    _is_putting = False

    def __init__(
        self,
        peer: Peer,
        outlet: Outlet,
        token: int | str | None,
        asks: RequestHooks,
        telling: ModelText,
        ids: QuestionIds,
    ) -> None:
        """`asks` is told what is to be put where there are no requests to clients, and when it takes long."""
        self._telling, self._ids = telling, ids
        self._peer, self._outlet, self._token, self._asks = peer, outlet, token, asks
        self._loop = asyncio.get_running_loop()

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        if self._token is None or (self._last is not None and done <= self._last):
            return
        self._last = done
        said: dict[str, Any] = {"progressToken": self._token, "progress": done, "total": total}
        told = {} if message is None else self._told({"message": message})
        self._notify("notifications/progress", {n: value for n, value in said.items() if value is not None} | told)

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        wanted, level = self._peer.log_level, _LEVELS.get(level, level)
        if wanted is None or level not in LEVELS or LEVELS.index(level) < LEVELS.index(wanted):
            return
        data = {"message": message, **fields} if fields else message
        self._notify("notifications/message", {"level": level, "logger": "tool", **self._told({"data": data})})

    def can_ask(self, kind: Asks) -> bool:
        is_reachable = self._outlet.is_open or self._peer.revision.is_modern
        return is_reachable and can_answer(self._peer.capabilities, kind)

    def put(self, question: Question, seq: int) -> None:
        if not self._peer.revision.is_modern:
            id = self._ids.id_of(seq, question.name, self._peer)
            self._outlet.send(encode_request(id, *encode_question(question, self._peer.revision, id)))
            return
        if not self._is_putting:
            self._is_putting = True
            self._loop.call_later(TOGETHER_S, self._put_all, seq)

    def takes_long(self, record: Callable[[], None]) -> None:
        self._outlet.takes_long(record)

    def on_recorded(self, seq: int) -> None:
        self._outlet.on_recorded(seq)

    def joins(self) -> None:
        self._outlet.no_resumption()

    def answer(self, outcome: Outcome) -> None:
        self._asks.on_slow(outcome)

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._outlet.when_gone(callback)

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._outlet.when_expired(callback)

    def _put_all(self, seq: int) -> None:
        self._is_putting = False
        self._asks.put(seq)

    def _told(self, said: dict[str, Any]) -> dict[str, Any]:
        """A model may read it. What was done to it stands beside it."""
        notes: dict[str, Any] = {}
        made = self._telling.throughout(said, notes)
        return {**made, "_meta": notes} if notes else made

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        message = encode_notification(method, params)
        if asyncio._get_running_loop() is self._loop:
            self._outlet.send(message)
        else:
            self._loop.call_soon_threadsafe(self._outlet.send, message)
