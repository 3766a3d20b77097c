"""What a running tool may ask of the server: a tool with a parameter of type `Context` gets one for each call.

That parameter is never part of the schema. A tool sees the secrets and tokens that it declares with `requires=`, and no
others.

The methods that ask the client are no coroutine functions: they check their arguments and name their question when they
are called, and return a coroutine that waits for the answer. So questions that are put at once (`asyncio.gather`) are
numbered by the order in which they stand in the tool, and get the same names when the tool is run again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from typing_extensions import TypeVar as TypeVarWithDefault

from ..model.caller import Caller
from ..model.channel import Asks, Question
from ..model.errors import ToolError
from ..model.run import Run
from .forms import accepted, form_of, root_uris, sampled

Answer = TypeVar("Answer")
Resources = TypeVarWithDefault("Resources", default=Any, covariant=True)
"""What an app's lifespan yields. `Context` alone is `Context[Any]`."""


class Hidden:
    """Marks a parameter that a model must not fill in: `order: Annotated[str, Hidden]`. The program that calls gives
    it. It is in the schema for programs, and not in what is listed for models."""


class Depends:
    """Marks a parameter that is given what a function makes, for each call: `db: Annotated[Database, Depends(get_db)]`.
    It is in no schema, and no caller can set it.

    The function is plain or async; one that yields its value instead of returning it goes on after the tool has ended,
    to clean up. It runs once a call, whoever needs it. Its own parameters are given what the app's lifespan yielded
    (a parameter named `resources`), the call's `Context` (by its type), or what further dependencies make.

    Args:
        maker: The function.

    >>> from typing import Annotated
    >>> from toolyard import App, Toolkit
    >>> from toolyard.testing import call
    >>> shop = Toolkit("Shop")
    >>> def get_prices(resources: dict[str, int]) -> dict[str, int]:
    ...     return resources
    >>> @shop.tool
    ... def price(item: str, prices: Annotated[dict[str, int], Depends(get_prices)]) -> int:
    ...     '''Says what an item costs.'''
    ...     return prices[item]
    >>> async def lifespan():
    ...     yield {"tea": 3}
    >>> call(App(shop, lifespan=lifespan), "Shop.Price", {"item": "tea"})
    3
    """

    def __init__(self, maker: Callable[..., Any]) -> None:
        self.maker = maker


class Context(Generic[Resources]):
    """What a tool knows of the call it runs for: who called, what was given in confidence; and ways to report and to
    ask. A tool that has a parameter of this type is given one; the parameter is in no schema. `Context[Shop]` says what
    the app's lifespan yields, so that a type checker knows `ctx.resources`.

    >>> from toolyard import Toolkit
    >>> from toolyard.testing import call
    >>> mail = Toolkit("Mail")
    >>> @mail.tool
    ... def greet(ctx: Context) -> str:
    ...     '''Greets the user.'''
    ...     return f"Hello, {ctx.user_id}"
    >>> call(mail, "Mail.Greet", user_id="ada")
    'Hello, ada'
    """

    __slots__ = ("_asked", "_run", "_unnamed")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._asked: dict[str, Question] = {}
        self._unnamed = 0

    @property
    def call_id(self) -> str:
        """The call's id: the caller's, or one that the server made. A good idempotency key for what the tool calls."""
        return self._run.call_id

    @property
    def trace_id(self) -> str | None:
        """The caller's trace id, from the request or its `traceparent` header."""
        return self._run.trace_id

    @property
    def caller(self) -> Caller:
        """Whom the server authenticated: `ctx.caller.subject`. Without authentication, `local`."""
        return self._run.caller

    @property
    def user_id(self) -> str | None:
        """The end user that the caller says it speaks for, or None. With `requires=user_id` there always is one."""
        return self._run.caller.user_id

    @property
    def user_info(self) -> Mapping[str, Any]:
        """What the caller says about the end user. Nobody has checked it."""
        return self._run.user_info

    @property
    def resources(self) -> Resources:
        """What the app's lifespan yielded; None without one. In a `Context[Shop]` it is a `Shop`."""
        resources: Resources = self._run.resources
        return resources

    @property
    def cancelled(self) -> bool:
        """True once the result is not wanted any more. A thread cannot be stopped: a sync tool should look at this now
        and then."""
        return self._run.channel.cancelled

    def secret(self, id: str) -> str:
        """The value of a secret.

        Args:
            id: Its id, as in `requires=secret("API_KEY")`.

        Raises:
            LookupError: The tool does not declare it.
        """
        if id not in self._run.tool.requirements.secrets:
            raise LookupError(f"{self._run.tool.id} does not declare the secret {id!r}: requires=secret({id!r})")
        return self._run.secrets[id]

    def token(self, provider: str) -> str:
        """The user's access token at a provider.

        Args:
            provider: The provider's id, as in `requires=authorization("google")`.

        Raises:
            LookupError: The tool does not declare it.
        """
        if all(provider != needed.id for needed in self._run.tool.requirements.authorization):
            raise LookupError(
                f"{self._run.tool.id} does not declare authorization at {provider!r}: "
                f"requires=authorization({provider!r})"
            )
        return self._run.tokens[provider]

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Reports how far the tool has come: to the client where its protocol can tell it, and to `toolyard show`. It
        is also a sign of life, from which the tool's timeout starts anew.

        Args:
            done: How much is done. A number that is not finite is not reported.
            total: Of how much, if that is known.
            message: What is being done, for people.
        """
        self._run.progress(done, total, message)

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """Writes to the server's log, with the tool and the call id, and to the client where its protocol has log
        messages. The call's secrets and tokens are taken out first.

        Args:
            message: What happened.
            level: `"debug"`, `"info"`, `"warning"` or `"error"`.
            **fields: More about it, by name.
        """
        self._run.log(level, message, fields)

    def can_ask(self, kind: Asks) -> bool:
        """Whether the client can answer questions of a kind: `"form"` (`ask`), `"url"` (`ask_url`), `"sampling"`
        (`sample`) or `"roots"` (`roots`)."""
        return self._run.asking is not None and self._run.channel.can_ask(kind)

    def ask(self, message: str, schema: Any = str, *, name: str | None = None) -> Coroutine[Any, Any, Any]:
        """Asks a person, through the client, and awaits what they fill in: `days = await ctx.ask("How many?", int)`.
        For async tools alone.

        Args:
            message: What the person reads.
            schema: What the form has: a plain type, or a model, dataclass or TypedDict of plain fields, of which the
                answer is a value; or a JSON Schema, with a dict as the answer.
            name: Tells the questions of a call apart: an answer is found by it where a tool is run again. Default:
                question-1, question-2, …

        Raises:
            Declined: The person said no, or closed the form.
            ToolError: The answer does not fit, or there is nobody who could be asked.
            TypeError: The schema cannot be a form.
        """
        form = form_of(schema)
        question = Question(self._name(name), "form", message, form.schema)
        return self._put(question, lambda answer: form.read(accepted(answer, question.name)))

    def ask_url(self, message: str, url: str, *, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Asks a person to open an address, and awaits their consent. For what no form may ask for, such as passwords
        and payments. What the person does there is not reported here.

        Args:
            message: Why, for the person.
            url: The address.
            name: As for `ask`.

        Raises:
            Declined: The person said no.
            ToolError: There is nobody who could be asked.
        """
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
        """Asks the client's model, and awaits its text, or the whole result where that is not a text.

        Args:
            messages: A prompt, or messages as MCP has them.
            max_tokens: How much it may say.
            system: The system prompt.
            name: As for `ask`.
            **more: Further members of the request, sent as they are: `temperature=0.5`, `modelPreferences={…}`.

        Raises:
            ToolError: The client has no model for tools, or the answer cannot be used.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        prompt = {} if system is None else {"systemPrompt": system}
        request = {"messages": messages, "maxTokens": max_tokens, **prompt, **more}
        return self._put(Question(self._name(name), "sampling", request=request), sampled)

    def roots(self, *, name: str | None = None) -> Coroutine[Any, Any, list[str]]:
        """Asks the client for the folders that it works in, and awaits their URIs.

        Raises:
            ToolError: The client has none to tell.
        """
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
