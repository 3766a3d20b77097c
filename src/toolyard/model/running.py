"""What runs: a call's attempt, the code behind it, and the channel through which it speaks while it runs."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from .call import Outcome
from .caller import Caller
from .errors import Place, ToolError
from .scrubbing import Scrubber

if TYPE_CHECKING:
    from .tool import Tool


_log = logging.getLogger("toolyard.tool")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Origin(Struct, frozen=True):
    """Where a function was written: for messages, and for a child process that must find it again."""

    module: str
    file: str
    line: int

    @property
    def place(self) -> Place:
        return Place(self.file, self.line)


Asks = Literal["form", "url", "sampling", "roots"]
"""What a question may want of a client: a person's answer in a form, their visit to an address, its model's answer, the
folders it works in."""


class Question(Struct, frozen=True, omit_defaults=True):
    """Something only the client or its person can answer. `name` tells a call's questions apart, and is the same when
    the call is run again."""

    name: str
    kind: Asks = "form"
    message: str = ""
    schema: Mapping[str, Any] = {}
    """Of a form's answer."""
    url: str = ""
    request: Mapping[str, Any] = {}
    """What the client's model is to be asked, as MCP has it."""

    def wants(self, answer: Any) -> str | None:
        """What such a question is answered with, if this is not it."""
        if not isinstance(answer, dict):
            return "be an object"
        if self.kind in ("form", "url"):
            if answer.get("action") not in ("accept", "decline", "cancel"):
                return "have an 'action' that is accept, decline or cancel"
            if self.kind == "form" and answer["action"] == "accept" and not isinstance(answer.get("content"), dict):
                return "have a 'content' object"
        elif self.kind == "roots" and not _are_roots(answer.get("roots")):
            return "have a list of 'roots', each with a 'uri'"
        elif self.kind == "sampling" and not _are_blocks(answer.get("content")):
            return "have a 'content' that is a block, or a list of blocks, each with a 'type'"
        elif self.kind == "sampling" and not all(isinstance(answer.get(name, ""), str) for name in ("role", "model")):
            return "have texts as 'role' and 'model'"
        return None


def _are_roots(roots: Any) -> bool:
    return isinstance(roots, list) and all(
        isinstance(each, dict) and isinstance(each.get("uri"), str) for each in roots
    )


def _are_blocks(content: Any) -> bool:
    """What a model said: one block of it, or several."""
    blocks = content if isinstance(content, list) else [content]
    return all(
        isinstance(block, dict)
        and isinstance(block.get("type"), str)
        and (block["type"] != "text" or isinstance(block.get("text"), str))
        for block in blocks
    )


class Channel(Protocol):
    """A running call's way out to whoever waits for it. Every method may be called from any thread, but `put`."""

    cancelled: bool

    def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...

    def can_ask(self, kind: Asks) -> bool:
        """Whether there is somebody who can be asked that."""
        ...

    def put(self, question: Question, seq: int) -> None:
        """Puts a question of the call with that number to whoever waits. On the loop. Its answer is found in the
        ledger."""
        ...

    def takes_long(self, record: Callable[[], None]) -> None:
        """The call did not end at once; `record` has it put in the ledger. On the loop."""
        ...

    def is_recorded(self, seq: int) -> None:
        """The call is in the ledger, under that number. On the loop."""
        ...

    def joins(self) -> None:
        """Whoever waits did not begin the call: others may be told of it, too. On the loop."""
        ...

    def answer(self, outcome: Outcome) -> None:
        """Tells whoever waits something now, while the call goes on: where to ask for its result."""
        ...

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Calls it, on the loop, should whoever waits go away before an answer."""
        ...


def tellable(text: Any) -> str:
    """As text that can be sent: a file's name, say, may have characters in it that are none."""
    return str(text).encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else tellable(value)


class QuietChannel:
    """For a wire that answers once and streams nothing, and for calls that nobody waits for."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Nobody is listening."""

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Nobody is listening; the engine has logged it already."""

    def can_ask(self, kind: Asks) -> bool:
        return False

    def put(self, question: Question, seq: int) -> None:
        """Nobody is listening."""

    def takes_long(self, record: Callable[[], None]) -> None:
        """Nobody is listening."""

    def is_recorded(self, seq: int) -> None:
        """Nobody is listening."""

    def joins(self) -> None:
        """Nobody is listening."""

    def answer(self, outcome: Outcome) -> None:
        """Nobody is listening."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Nobody can go."""


class LedgerChannel(QuietChannel):
    """For a call whose client is not there now, and will look for its questions in the ledger."""

    __slots__ = ()

    def can_ask(self, kind: Asks) -> bool:
        return True


class Run(Struct, eq=False):
    """One attempt at one call: everything a tool may know of it."""

    tool: "Tool"
    call_id: str
    caller: Caller
    input: dict[str, Any]
    channel: Channel
    trace_id: str | None = None
    user_info: Mapping[str, Any] = {}
    secrets: Mapping[str, str] = {}
    tokens: Mapping[str, str] = {}
    resources: Any = None
    alive_at: float = 0.0
    """When it last said how far it is, by the monotonic clock."""
    said: tuple[float, float | None, str | None] | None = None
    """How far it is."""
    asking: "Asking | None" = None
    answers: Mapping[str, Any] = {}
    """What the client knew would be asked, by name."""
    seq: int = 0
    """Its number in the ledger, once it is there, and which attempt at it this is."""
    attempt: int = 0
    waits: int = 0
    """How many of its questions are open. Who waits for an answer is not stuck."""
    task: "asyncio.Task[Any] | None" = None
    """What it runs in, once it did not end at once."""
    promote: Callable[[], None] | None = None
    """Has the call recorded, if it is not."""
    promoted: "asyncio.Future[int] | None" = None
    scrubber: Scrubber | None = None
    """Keeps the secrets and tokens it was given out of what it says; None where it was given none."""
    input_json: bytes = b""
    """The input as it came, for a process elsewhere. `input` may have been changed by the author's validators."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """To whoever waits, and to the ledger; and a sign that it is not stuck. From any thread. What is not a finite
        number cannot be told."""
        self.alive_at = time.monotonic()
        done_now = _finite(done)
        if done_now is None:
            return
        self.said = done_now, _finite(total), None if message is None else self._without_secrets(tellable(message))
        self.channel.progress(*self.said)

    async def ask(self, question: Question) -> Any:
        """The client's answer, as the protocol has it. On the loop."""
        if self.asking is None:
            raise ToolError(f"{self.tool.id} has to ask '{question.name}', which cannot be done where it runs")
        if self.scrubber is not None:
            question = self.scrubber.question(question)
        self.waits += 1
        try:
            return await self.asking(self, question)
        finally:
            self.waits -= 1
            self.alive_at = time.monotonic()

    async def recorded(self) -> int:
        """Its number in the ledger, where it is recorded now if it was not."""
        if self.seq == 0 and self.promoted is None:
            self.promoted = asyncio.get_running_loop().create_future()
            if self.promote is not None:
                self.promote()
        return self.seq or await asyncio.shield(self.promoted)  # type: ignore[arg-type]

    def is_recorded(self, seq: int, attempt: int) -> None:
        self.seq, self.attempt = seq, attempt
        self.channel.is_recorded(seq)
        if self.promoted is not None and not self.promoted.done():
            self.promoted.set_result(seq)

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """To the server's log, and to the channel."""
        said = self._without_secrets(f"{message} {dict(fields)}" if fields else message)
        _log.log(_LEVELS.get(level, logging.INFO), "%s %s: %s", self.tool.id, self.call_id, said)
        plain = {tellable(name): _plain(value) for name, value in fields.items()}
        if self.scrubber is not None:
            plain = self.scrubber.value(plain)
        self.channel.log(level, self._without_secrets(tellable(message)), plain)

    def _without_secrets(self, text: str) -> str:
        return text if self.scrubber is None else self.scrubber.text(str(text))


Asking = Callable[[Run, Question], Awaitable[Any]]
Proceed = Callable[[], Awaitable[Any]]
Hook = Callable[[Run, Proceed], Awaitable[Any]]


class Host:
    """What an app does around the calls of its tools.

    `target` is how it was loaded (`file.py`, `package.module:name`), so that a child process can load it again.
    """

    __slots__ = ("around", "target")

    def __init__(self) -> None:
        self.around: list[Hook] = []
        self.target: str | None = None


class Code(Protocol):
    """A tool's own function, as the engine and the runners see it."""

    @property
    def is_async(self) -> bool: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def has_validators(self) -> bool:
        """Whether `bind` runs the author's own code."""
        ...

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """Typed arguments from input that fits the schema. Raises InvalidInput."""
        ...

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        """The function's result; for an async function, its awaitable."""
        ...

    def dump(self, value: Any) -> Any:
        """The result as plain JSON values."""
        ...


class Runner(Protocol):
    """A way to run a tool: on the loop, in a thread, in a child process, on a worker elsewhere.

    Returns plain JSON values. Raises ToolError for a failure on purpose, anything else for one that
    is not. Cancelling the awaiting task gives the run up: what can be stopped is stopped.
    """

    def run(self, arguments: dict[str, Any], run: Run) -> Coroutine[Any, Any, Any]: ...


@runtime_checkable
class Source(Protocol):
    """What an author's file offers: a toolkit, or an app of toolkits."""

    host: Host

    @property
    def tools(self) -> "tuple[Tool, ...]": ...

    def running(self) -> AbstractAsyncContextManager[Any]:
        """Makes what the tools share, gives it, and closes it."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` after each change of `tools`, until what this returns is called."""
        ...


def _finite(number: Any) -> float | None:
    """Whatever an author passes, as a number that JSON has; None where it is none."""
    try:
        if not isfinite(number):
            return None
        return number if type(number) in (int, float) else float(number)
    except (TypeError, ValueError, OverflowError):
        return None
