"""For authors' tests: calls of tools through the whole server, in this process and without a socket. `call` makes one
call, `client` and `async_client` give a client for several. A `Person` is whoever is at the other end of those calls:
answers what tools ask, approves or rejects calls, and keeps what tools report.

A person hears a tool by a hook around it, which puts itself between the run and its client. So questions, progress and
log lines come here whichever protocol the client speaks, also one that carries none of them. A yes or no is given as an
operator gives it, by the operator's routes, and the call is made again, as its caller would.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Unpack
from urllib.parse import unquote

from msgspec.structs import replace
from pydantic_core import to_jsonable_python

from .client.client import AsyncClient, CallOptions, Client
from .client.flows import Flow
from .client.protocols import WireName
from .model.call import CallTool
from .model.channel import Asks, Question
from .model.errors import RequestError, ToolError
from .model.json_value import decode
from .model.run import Asking, Run, Source
from .model.tool import Host, Proceed, Tool
from .model.upstream import Upstream
from .server.app.compose import Yard
from .server.settings.table import exactly
from .text.addresses import LOCALHOST
from .wires.contract import Reply, Request
from .wires.lifecycle import approvals

Answers = Mapping[str, Any] | Callable[[Question], Any]
Approves = bool | Callable[[str, Mapping[str, Any]], bool]


class Person:
    """Whoever is at the other end of a test's calls: answers questions for a person, a client and its model, approves
    or rejects calls, and keeps what tools report. Give it to `call`, `client` or `async_client`.

    Args:
        answers: The answers by the questions' names, `question-1` and so on for those that have none, or a function of
            the question. To `Context.ask` a value of the form's type, or a dict of its fields; to `Context.ask_url`
            True; to `Context.sample` the model's text, or MCP's whole result; to `Context.roots` a list of URIs. An
            exception, such as `Declined("No")`, is raised where the tool asked.
        approves: Whether calls that need a person's yes get it, or a function of the tool's id and the input that says
            so. Default: nobody decides, and such a call raises `MissingRequirements`.

    >>> from toolyard import Context, Toolkit
    >>> travel = Toolkit("Travel")
    >>> @travel.tool(approval="always")
    ... async def book(city: str, ctx: Context) -> str:
    ...     '''Books a trip.'''
    ...     ctx.progress(1, 2, "asking")
    ...     return f"{city}, {await ctx.ask('Which seat?', name='seat')}"
    >>> ada = Person({"seat": "window"}, approves=True)
    >>> call(travel, "Travel.Book", {"city": "Oslo"}, person=ada)
    'Oslo, window'
    >>> ada.progress
    [(1, 2, 'asking')]
    """

    def __init__(self, answers: Answers | None = None, *, approves: Approves | None = None) -> None:
        self._answers: Answers = {} if answers is None else answers
        self._approves = approves
        self.asked: list[Question] = []
        """The questions that were asked, each with its `name`, `kind`, `message`, and what its kind has besides."""
        self.progress: list[tuple[float, float | None, str | None]] = []
        """What tools reported with `Context.progress`: what is done, of how much, and the message."""
        self.logs: list[tuple[str, str, Mapping[str, Any]]] = []
        """What tools said with `Context.log`: the level, the message, and the fields."""

    def answer(self, tool: Tool, question: Question) -> Any:
        """The answer to a question of a tool, as MCP has it. Raises ToolError where there is none, and an answer that
        is an exception."""
        self.asked.append(question)
        if callable(self._answers):
            given = self._answers(question)
        elif question.name in self._answers:
            given = self._answers[question.name]
        else:
            raise ToolError(
                f"{tool.id} asks '{question.name}' ({question.message or question.kind}), and the test has no answer: "
                f"Person({{'{question.name}': …}})",
                can_retry=False,
            )
        if isinstance(given, Exception):
            raise given
        return _IN_MCP[question.kind](given)

    def decide(self, tool_id: str, input: Mapping[str, Any]) -> bool | None:
        """Whether a call that waits for a yes gets it; None where this person says nothing to it."""
        return self._approves(tool_id, input) if callable(self._approves) else self._approves


def call(
    source: Source,
    tool_id: str,
    input: Mapping[str, Any] | None = None,
    *,
    person: Person | None = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Calls one tool and returns its result. The server is started for the call, with the app's lifespan, and stopped
    after it.

    Args:
        source: A toolkit or an app.
        tool_id: The tool, such as `Calculator.Add`.
        input: Its parameters.
        person: Who answers the tool's questions, approves the call, and hears of its progress.
        **options: Those of `CallOptions`, such as `secrets={"SMS_KEY": "…"}`, `tokens`, `user_id` and `call_id`.

    Raises:
        ToolyardError: Whatever a client would be told: `ToolError`, `InvalidInput`, `MissingRequirements`, …

    >>> from toolyard import Toolkit
    >>> calculator = Toolkit("Calculator")
    >>> @calculator.tool
    ... def add(a: int, b: int) -> int:
    ...     '''Adds two numbers.'''
    ...     return a + b
    >>> call(calculator, "Calculator.Add", {"a": 10, "b": 5})
    15
    """
    with client(source, person=person) as yard:
        return yard.call(tool_id, input, **options)


@contextmanager
def client(
    *sources: Source, person: Person | None = None, wire: WireName = "oxp", retries: int = 0, **settings: Any
) -> Iterator[Client]:
    """A context manager that serves tools and gives a `Client` of them, for several calls: state, such as what the
    lifespan made and which `call_id` was used, lasts as long as the block. The server runs on an event loop of its own,
    in another thread.

    Args:
        *sources: Toolkits or apps.
        person: Who answers tools' questions, approves calls, and hears of their progress.
        wire: The protocol to call by, as for `Client`.
        retries: As for `Client`; none by default, so that a test sees the first error.
        **settings: Settings of the server by name: `show_exceptions=True`. Those that are not named have their
            defaults, whatever `toolyard.toml` and the environment say.

    Raises:
        SetupError: The tools or the settings cannot be served.

    >>> from toolyard.reference.calculator import calculator
    >>> with client(calculator) as bound:
    ...     bound.call("Calculator.Add", {"a": 10, "b": 5})
    ...     bound.list()[0]["id"]
    15
    'Calculator.Add@1.0.0'
    """
    yard = Yard(_attended(sources, person), exactly(**settings))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="toolyard-testing", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(yard.start(), loop).result()
        transport = _ThreadedTransport(yard, loop)
        with _DecidedClient(_Decider(yard, person), wire=wire, retries=retries, sending=transport) as bound:
            yield bound
    finally:
        asyncio.run_coroutine_threadsafe(yard.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def async_client(
    *sources: Source, person: Person | None = None, wire: WireName = "oxp", retries: int = 0, **settings: Any
) -> AsyncIterator[AsyncClient]:
    """As `client`, for asynchronous tests: `async with async_client(app) as bound`. It gives an `AsyncClient`, and the
    server runs on the event loop that is running. Arguments are those of `client`."""
    yard = Yard(_attended(sources, person), exactly(**settings))
    decider, transport = _Decider(yard, person), InProcessTransport(yard)
    async with yard.lifetime(), _DecidedAsyncClient(decider, wire=wire, retries=retries, sending=transport) as bound:
        yield bound


class InProcessTransport:
    """A client's transport that calls the server's ASGI application directly, as an ASGI server would."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    async def send(self, request: Request) -> Reply:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._yard.asgi(_scope(request), receive, send)
        return Reply(sent[0]["status"], b"".join(part["body"] for part in sent[1:]), sent[0]["headers"])

    async def close(self) -> None:
        """There is nothing to close."""


class _ThreadedTransport:
    """The same transport for synchronous code: requests are handed to the server's event loop in its own thread."""

    def __init__(self, yard: Yard, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = InProcessTransport(yard), loop

    def send(self, request: Request) -> Reply:
        return asyncio.run_coroutine_threadsafe(self._transport.send(request), self._loop).result()

    def close(self) -> None:
        """There is nothing to close."""


def _scope(request: Request) -> dict[str, Any]:
    """The ASGI scope of a request. The host is one that the server's check of `Host` lets through."""
    return {
        "type": "http",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "headers": [(b"host", LOCALHOST.encode()), *request.headers.items()],
        "scheme": "http",
        "root_path": "",
    }


# --- a yes or no ---------------------------------------------------------------------------------


class _Decider:
    """A person in the place of a server's operator, who decides about calls that wait for a yes."""

    def __init__(self, yard: Yard, person: Person | None) -> None:
        self._person = person
        self._credentials = {b"authorization": f"Bearer {yard.operators_token.text}".encode()}

    def attend(self, called: Callable[[bool], Flow], command: CallTool, wait: bool) -> Flow:
        """A call; where it waited for a yes and was decided about, the same call again, to its end. `called` is given
        whether to wait for that."""
        # Each protocol tells of an approval in its own way, as a refusal or as a failure. The ledger knows.
        try:
            outcome = yield from called(wait)
        except RequestError:
            if not (yield from self._decide(command)):
                raise
        else:
            if outcome.error is None or not (yield from self._decide(command)):
                return outcome
        return (yield from called(True))

    def _decide(self, command: CallTool) -> Flow:
        """Whether the call waited, and was decided about now."""
        if self._person is None:
            return False
        listed = yield from self._ask(approvals.encode_list(approvals.MOST_LISTED))
        for id in (each["id"] for each in listed["approvals"] if each["callId"] == command.call_id):
            is_approved = self._person.decide(command.tool_id, command.input)
            if is_approved is not None:
                yield from self._ask(approvals.encode_decision(id, is_approved, ""))
                return True
        return False

    def _ask(self, request: Request) -> Flow:
        reply = yield replace(request, headers={**request.headers, **self._credentials})
        assert reply is not None  # noqa: S101
        return decode(reply.body)


class _DecidedClient(Client):
    """A client whose calls are decided about where they wait for a yes."""

    def __init__(self, decider: _Decider, **options: Any) -> None:
        super().__init__(**options)
        self._decider = decider

    def _called(self, command: CallTool, wait: bool) -> Flow:
        return self._decider.attend(partial(super()._called, command), command, wait)


class _DecidedAsyncClient(AsyncClient):
    """The same for asynchronous tests."""

    def __init__(self, decider: _Decider, **options: Any) -> None:
        super().__init__(**options)
        self._decider = decider

    def _called(self, command: CallTool, wait: bool) -> Flow:
        return self._decider.attend(partial(super()._called, command), command, wait)


# --- questions, progress, log lines --------------------------------------------------------------


def _attended(sources: Sequence[Source], person: Person | None) -> Sequence[Source]:
    return sources if person is None else [_AttendedSource(source, person) for source in sources]


class _AttendedSource:
    """A toolkit or an app whose tools ask a person, and report to it."""

    def __init__(self, source: Source, person: Person) -> None:
        self._source, self._person = source, person
        self.running, self.subscribe = source.running, source.subscribe
        self.host = Host()
        self.host.target = source.host.target
        self.host.around = [self._attend, *source.host.around]

    @property
    def tools(self) -> tuple[Tool, ...]:
        # Without `asks`: a client that can answer nothing would be refused, and here the person answers.
        return tuple(replace(tool, host=self.host, asks=()) for tool in self._source.tools)

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        return self._source.upstreams

    async def _attend(self, run: Run, proceed: Proceed) -> Any:
        run.channel = _PersonsChannel(run, self._person)
        if run.asking is not None:
            run.asking = partial(self._ask, run.asking)
        return await proceed()

    async def _ask(self, asking: Asking, run: Run, question: Question) -> Any:
        # As if the client had answered before it was asked: the engine takes such an answer, if it fits the question.
        run.answers = {**run.answers, question.name: self._person.answer(run.tool, question)}
        return await asking(run, question)


class _PersonsChannel:
    """The channel of a run to its client, with a person who listens and can be asked anything."""

    def __init__(self, run: Run, person: Person) -> None:
        self._run, self._person, channel = run, person, run.channel
        self.cancelled = channel.cancelled
        self.takes_long, self.on_recorded, self.joins = channel.takes_long, channel.on_recorded, channel.joins
        self.answer, self.when_answered = channel.answer, channel.when_answered
        self.when_gone, self.when_expired = channel.when_gone, channel.when_expired

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self._person.progress.append((done, total, message))

    def log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self._person.logs.append((level, message, fields))

    def can_ask(self, kind: Asks) -> bool:
        return True

    def put(self, question: Question, seq: int) -> None:
        """Raises ToolError: a question comes here where the person's answer does not fit it."""
        answer = self._run.answers[question.name]
        wanted = question.wants(answer) or f"fit the form {question.schema}"
        raise ToolError(f"The answer to '{question.name}' must {wanted}, and is {answer}", can_retry=False)


def _accepted(given: Any) -> dict[str, Any]:
    """What somebody fills in. A form has no null: what is None was left out. A plain type is asked for as the one
    member of a form, `value`."""
    content = to_jsonable_python(given, exclude_none=True)
    return {"action": "accept", "content": content if isinstance(content, dict) else {"value": content}}


def _model_says(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return {"role": "assistant", "model": "test", "content": {"type": "text", "text": given}}


_IN_MCP: dict[Asks, Callable[[Any], Any]] = {
    "form": _accepted,
    "url": lambda given: {"action": "accept" if given is True else given},
    "sampling": _model_says,
    "roots": lambda given: {"roots": [{"uri": uri} for uri in given] if isinstance(given, list) else given},
}
"""The answers to each kind of question, as MCP's results."""
