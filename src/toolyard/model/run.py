"""What runs: a call's attempt, the code behind it, and the channel through which it speaks while it runs."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from math import isfinite
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from ..text.scrubber import Scrubber
from .call import ResultExtra
from .caller import Caller
from .channel import Channel, Question, scrub_question, tellable
from .errors import ToolError
from .tool import Host, Proceed, Tool
from .upstream import Upstream


class ResultPlace(Protocol):
    """The place that a large result takes among those of its caller that are in memory, from before it is encoded.
    Whoever has to do with the result holds the place: the attempt to begin with. It is free when nobody does."""

    def hold(self) -> None:
        """One more has to do with the result, until it calls `give`."""
        ...

    def give(self) -> None: ...


class Run(Struct, eq=False):
    """One attempt at one call, as the hooks of an app are given it (`App.around`)."""

    tool: Tool
    """The tool that runs: `run.tool.id` is `Calculator.Add`."""
    call_id: str
    """The call's id: the caller's, or one that the server made."""
    caller: Caller
    """Whom the server authenticated."""
    input: dict[str, Any]
    """The input, checked."""
    channel: Channel
    trace_id: str | None = None
    """The caller's trace id."""
    user_info: Mapping[str, Any] = {}
    """What the caller says about the end user."""
    secrets: Mapping[str, str] = {}
    tokens: Mapping[str, str] = {}
    resources: Any = None
    """What the app's lifespan yielded."""
    last_sign_of_life: float = 0.0
    """When it last said how far it is, by the monotonic clock."""
    last_progress: tuple[float, float | None, str | None] | None = None
    """How far it said that it is: what is done, of how much, and a message."""
    asking: "Asking | None" = None
    answers: Mapping[str, Any] = {}
    """What the client knew would be asked, by name."""
    seq: int = 0
    """Its number in the ledger; 0 while it is not there."""
    attempt: int = 0
    """Which attempt at the recorded call this is, from 1; 0 where the call is not recorded."""
    open_questions: int = 0
    """How many of its questions nobody has answered. A run that waits for an answer is not stuck."""
    task: "asyncio.Task[Any] | None" = None
    """What it runs in, once it did not end at once."""
    promote: Callable[[], None] | None = None
    """Has the call recorded, if it is not."""
    promoted: "asyncio.Future[int] | None" = None
    scrubber: Scrubber | None = None
    """Keeps the secrets and tokens it was given out of what it says; None where it was given none."""
    input_json: bytes = b""
    """The input as it came, for a process elsewhere. `input` may have been changed by the author's validators."""
    loop: "asyncio.AbstractEventLoop | None" = None
    """The event loop of its call, where it runs in a thread: there, what is async has to be handed over."""
    family: str = ""
    """The wires that share the space of its key."""
    keyed: bool = False
    """Whether its caller chose the `call_id`."""
    meta: Mapping[str, Any] = {}
    """What its client said beside the call that is for whoever runs it elsewhere: members of MCP's `_meta`."""
    place: ResultPlace | None = None
    """What its result holds, where that is large. Whoever made the run gives it back."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Reports how far it is to whoever waits, and to the ledger; and is a sign that it is not stuck. From any
        thread. What is not a finite number cannot be told, and what is a secret must not be: no text can stand in a
        number's place."""
        self.last_sign_of_life = time.monotonic()
        done_now = self._tellable_number(done)
        if done_now is None:
            return
        said = None if message is None else self._without_secrets(tellable(message))
        self.last_progress = done_now, self._tellable_number(total), said
        self.channel.progress(*self.last_progress)

    async def ask(self, question: Question) -> Any:
        """The client's answer, as the protocol has it. On the loop."""
        if self.asking is None:
            raise ToolError(f"{self.tool.id} has to ask '{question.name}', which cannot be done where it runs")
        if self.scrubber is not None:
            question = scrub_question(self.scrubber, question)
        self.open_questions += 1
        try:
            return await self.asking(self, question)
        finally:
            self.open_questions -= 1
            self.last_sign_of_life = time.monotonic()

    async def recorded(self) -> int:
        """Its number in the ledger, where it is recorded now if it was not."""
        if self.seq == 0 and self.promoted is None:
            self.promoted = asyncio.get_running_loop().create_future()
            if self.promote is not None:
                self.promote()
        return self.seq or await asyncio.shield(self.promoted)  # type: ignore[arg-type]

    def on_recorded(self, seq: int, attempt: int) -> None:
        """The call is in the ledger now, or was from the start. On the loop."""
        self.seq, self.attempt = seq, attempt
        self.channel.on_recorded(seq)
        if self.promoted is not None and not self.promoted.done():
            self.promoted.set_result(seq)

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Writes to the server's log, and to the client where its protocol has log messages, without secrets."""
        said = self._without_secrets(f"{message} {dict(fields)}" if fields else message)
        _log.log(_LEVELS.get(level, logging.INFO), "%s %s: %s", self.tool.id, self.call_id, said)
        plain = {tellable(name): _plain(value) for name, value in fields.items()}
        if self.scrubber is not None:
            plain = self.scrubber.value(plain)
        self.channel.log(level, self._without_secrets(tellable(message)), plain)

    def _tellable_number(self, number: Any) -> float | None:
        finite = _finite(number)
        return None if finite is None or (self.scrubber is not None and self.scrubber.is_number(finite)) else finite

    def _without_secrets(self, text: str) -> str:
        return text if self.scrubber is None else self.scrubber.text(str(text))


class RichResult(Struct, frozen=True):
    """What a runner returns for a result that has more than a value. The value may be `Raw`: JSON as it came. It alone
    has to fit the tool's output schema."""

    value: Any
    extra: ResultExtra


Asking = Callable[[Run, Question], Awaitable[Any]]
Hook = Callable[[Run, Proceed], Awaitable[Any]]


class Runner(Protocol):
    """A way to run a tool: on the loop, in a thread, in a child process, at a worker elsewhere.

    `Tool.runs` names the runner of a tool in the composition root's table, and nothing else: whoever has to know how
    a tool's calls are handled asks its runner. So a new kind of runner is a class with these answers and one line in
    that table.
    """

    @property
    def waits_for_claim(self) -> bool:
        """Whether a call waits in the ledger until a worker claims it. Then the call is always recorded first, its
        result comes back as the worker's answer, and nobody calls `run` here."""
        ...

    @property
    def has_foreign_schemas(self) -> bool:
        """Whether strangers wrote the schemas of its tools. Such a schema may be made to be costly, so the sandbox
        checks input and results against it; an author's own schema is compiled into this process."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether a tool can put questions to its client while it runs."""
        ...

    @property
    def takes_meta(self) -> bool:
        """Whether its tools are run by another server, for which clients may say something beside the call: members of
        MCP's `_meta`, as `Run.meta`."""
        ...

    @property
    def place(self) -> str:
        """Where it runs tools, in words for people."""
        ...

    def run(self, arguments: dict[str, Any], run: Run) -> Coroutine[Any, Any, Any]:
        """The tool's result as plain JSON values, or a `RichResult` of them where it is an MCP result. Raises ToolError
        for a failure on purpose, with an `extra` where that is one; anything else for a failure that is not.
        Cancelling the awaiting task gives the run up: what can be stopped is stopped."""
        ...

    async def close(self) -> None:
        """Ends what the runner has started. It can be used again afterwards."""
        ...


@runtime_checkable
class Source(Protocol):
    """What an author's file offers: a toolkit, or an app of toolkits."""

    host: Host

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Its own, without those of what is inside it."""
        ...

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Other servers whose tools it offers beside its own."""
        ...

    @property
    def inner(self) -> tuple["Source", ...]:
        """The apps inside it, each with hooks and resources of its own."""
        ...

    def running(self) -> AbstractAsyncContextManager[Any]:
        """Makes what the tools share, gives it, and closes it."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` after each change of `tools`, until what this returns is called."""
        ...


def each_once(sources: Iterable[Source]) -> list[Source]:
    """These and all that is inside them, each once, an app before those inside it."""
    found: dict[int, Source] = {}
    for source in sources:
        if id(source) not in found:
            found |= {id(each): each for each in (source, *each_once(source.inner)) if id(each) not in found}
    return list(found.values())


_log = logging.getLogger("toolyard.tool")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else tellable(value)


def _finite(number: Any) -> float | None:
    """Whatever an author passes, as a number that JSON has; None where it is none."""
    try:
        if not isfinite(number):
            return None
        return number if type(number) in (int, float) else float(number)
    except (TypeError, ValueError, OverflowError):
        return None
