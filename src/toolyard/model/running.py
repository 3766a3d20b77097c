"""What runs: a call's attempt, the code behind it, and the channel through which it speaks while it runs."""

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from .call import Outcome
from .caller import Caller
from .errors import Place, ToolError

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


class Question(Struct, frozen=True):
    """Something only the client or its person can answer."""

    name: str
    message: str
    schema: Mapping[str, Any] = {}


class Channel(Protocol):
    """A running call's way out to whoever waits for it. Every method may be called from any thread.

    `ask` is the one that waits; a wire that cannot carry a question raises ToolError from it.
    """

    cancelled: bool

    def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...

    async def ask(self, question: Question) -> Any: ...

    def answer(self, outcome: Outcome) -> None:
        """Tells whoever waits something now, while the call goes on: where to ask for its result."""
        ...

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Calls it, on the loop, should whoever waits go away before an answer."""
        ...


class QuietChannel:
    """For a wire that answers once and streams nothing, and for calls that nobody waits for."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Nobody is listening."""

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Nobody is listening; the engine has logged it already."""

    async def ask(self, question: Question) -> Any:
        raise ToolError(f"This tool has to ask '{question.name}', and this protocol cannot carry a question")

    def answer(self, outcome: Outcome) -> None:
        """Nobody is listening."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Nobody can go."""


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

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """To whoever waits, and to the ledger; and a sign that it is not stuck. From any thread."""
        self.said, self.alive_at = (done, total, message), time.monotonic()
        self.channel.progress(done, total, message)

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """To the server's log, and to the channel."""
        said = f"{message} {dict(fields)}" if fields else message
        _log.log(_LEVELS.get(level, logging.INFO), "%s %s: %s", self.tool.id, self.call_id, said)
        self.channel.log(level, message, fields)


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
