"""What a running tool may ask of the server: a tool with a parameter of type `Context` gets one for each call.

That parameter is never part of the schema. A tool sees the secrets and tokens that it declares with `requires=`, and no
others.

The methods that ask the client are no coroutine functions: they check their arguments and name their question when they
are called, and return a coroutine that waits for the answer. So questions that are put at once (`asyncio.gather`) are
numbered by the order in which they stand in the tool, and get the same names when the tool is run again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ..model.caller import Caller
from ..model.channel import Asks, Question
from ..model.errors import ToolError
from ..model.run import Run
from .forms import accepted, form_of, root_uris, sampled

Answer = TypeVar("Answer")


class Hidden:
    """`Annotated[str, Hidden]`: a parameter that a model must not fill in; the client passes it."""


class Context:
    """The call that a tool is running for: who called, what was given in confidence, and ways to report and to ask."""

    __slots__ = ("_asked", "_run", "_unnamed")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._asked: dict[str, Question] = {}
        self._unnamed = 0

    @property
    def call_id(self) -> str:
        return self._run.call_id

    @property
    def trace_id(self) -> str | None:
        return self._run.trace_id

    @property
    def caller(self) -> Caller:
        """Whom the server authenticated."""
        return self._run.caller

    @property
    def user_id(self) -> str | None:
        """The end user that the caller says it speaks for."""
        return self._run.caller.user_id

    @property
    def user_info(self) -> Mapping[str, Any]:
        """What the caller says about the end user."""
        return self._run.user_info

    @property
    def resources(self) -> Any:
        """What the app's lifespan yielded."""
        return self._run.resources

    @property
    def cancelled(self) -> bool:
        """True once the result is not wanted any more. A thread cannot be stopped: a sync tool should look at this now
        and then."""
        return self._run.channel.cancelled

    def secret(self, id: str) -> str:
        """The value of a secret this tool requires."""
        if id not in self._run.tool.requirements.secrets:
            raise LookupError(f"{self._run.tool.id} does not declare the secret {id!r}: requires=secret({id!r})")
        return self._run.secrets[id]

    def token(self, provider: str) -> str:
        """The user's token at a provider this tool requires authorization for."""
        if all(provider != needed.id for needed in self._run.tool.requirements.authorization):
            raise LookupError(
                f"{self._run.tool.id} does not declare authorization at {provider!r}: "
                f"requires=authorization({provider!r})"
            )
        return self._run.tokens[provider]

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Reports to the client how far the tool has come. A number that is not finite is not reported."""
        self._run.progress(done, total, message)

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """Logs a message in the server's log, and sends it to the client where its protocol has log messages."""
        self._run.log(level, message, fields)

    def can_ask(self, kind: Asks) -> bool:
        """Whether the client can answer questions of this kind: "form", "url", "sampling" or "roots"."""
        return self._run.asking is not None and self._run.channel.can_ask(kind)

    def ask(self, message: str, schema: Any = str, *, name: str | None = None) -> Coroutine[Any, Any, Any]:
        """Awaits what a person fills in: a value of the type `schema`, or a dict if `schema` is a JSON Schema.

        A type is a model, dataclass or TypedDict of plain fields, or a plain type; TypeError for what cannot be a form.
        Raises Declined, and ToolError for an answer that does not fit. `name` tells a call's questions apart (default:
        question-1, question-2, …).
        """
        form = form_of(schema)
        question = Question(self._name(name), "form", message, form.schema)
        return self._put(question, lambda answer: form.read(accepted(answer, question.name)))

    def ask_url(self, message: str, url: str, *, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Awaits a person's consent to open a URL. Raises Declined. What the person does there is not reported here."""
        question = Question(self._name(name), "url", message, url=url)

        def read(answer: Any) -> None:
            accepted(answer, question.name)

        return self._put(question, read)

    def sample(
        self,
        messages: str | list[dict[str, Any]],
        *,
        max_tokens: int = 1000,
        system: str | None = None,
        name: str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, str | dict[str, Any]]:
        """Awaits what the client's model says: its text, or the whole result where that is not a text.

        `more` is sent as it is: temperature=0.5, modelPreferences={…}.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        prompt = {} if system is None else {"systemPrompt": system}
        request = {"messages": messages, "maxTokens": max_tokens, **prompt, **more}
        return self._put(Question(self._name(name), "sampling", request=request), sampled)

    def roots(self, *, name: str | None = None) -> Coroutine[Any, Any, list[str]]:
        """Awaits the URIs of the folders that the client works in."""
        return self._put(Question(self._name(name), "roots"), root_uris)

    def _name(self, given: str | None) -> str:
        if given is not None:
            return given
        self._unnamed += 1
        return f"question-{self._unnamed}"

    def _put(self, question: Question, read: Callable[[Any], Answer]) -> Coroutine[Any, Any, Answer]:
        """Checks that a question can be asked here, at once, and returns the coroutine that waits for its answer."""
        tool = self._run.tool
        if not tool.code.is_async or not _on_a_loop():
            raise RuntimeError(f"{tool.id} asks '{question.name}', and to ask needs an async tool")
        # The ledger finds an answer by its question's name: two questions of one name would share an answer.
        if self._asked.setdefault(question.name, question) != question:
            raise ToolError(f"{tool.id} asks two questions with the name '{question.name}'", can_retry=False)
        return self._answered(question, read)

    async def _answered(self, question: Question, read: Callable[[Any], Answer]) -> Answer:
        answer = await self._run.ask(question)
        try:
            return read(answer)
        except ValueError as error:
            raise ToolError(f"The answer to '{question.name}' cannot be used: {error}") from None


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
