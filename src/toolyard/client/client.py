"""The clients: `Client` and, for asynchronous programs, `AsyncClient`. Both speak OXP by default, OTC where `wire` says
so, and MCP at an address that ends in `/mcp`.

with Client("http://127.0.0.1:8000") as client:
    client.call("Calculator.Add", {"a": 10, "b": 5})
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol, Self, TypedDict, Unpack

from ..model.call import CallContext, CallTool, Outcome
from ..model.clock import random_id
from ..model.errors import Challenge, Declined, ServerError, ToolyardError
from ..wires.contract import Reply, Request
from .confirm import AsyncConfirm, Confirm, declined, is_on_this_machine, shown
from .flows import Flow, Pause, check_challenge, value_of
from .protocols import WIRES as WIRES
from .protocols import ClientProtocol, protocol_of
from .protocols import WireName as WireName
from .transport import AsyncHttpTransport, HttpTransport, TimedOut, Unreachable

DEFAULT_URL = "http://127.0.0.1:8000"
_log = logging.getLogger("toolyard.client")
Rows = list[dict[str, Any]]


class Transport(Protocol):
    """Sends a request to the server and returns its reply: over HTTP, or to a server in the same process."""

    def send(self, request: Request) -> Reply: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """As `Transport`, for asynchronous programs."""

    async def send(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...


class CallOptions(TypedDict, total=False):
    """The options of a call besides its input."""

    call_id: str | None
    """The call's idempotency key: a second call with the same one is not run, and gets the first one's result. Without
    it, one is made."""
    trace_id: str | None
    """An id that joins the call to a trace of yours."""
    user_id: str | None
    """The end user that the call is made for."""
    user_info: Mapping[str, Any]
    """What the tool may know about that user."""
    secrets: Mapping[str, str]
    """Secrets for the tool, by id."""
    tokens: Mapping[str, str]
    """The user's tokens for the tool, by provider."""
    wait: bool
    """Whether to wait for a call that is still running, however long it takes."""


def command(tool_id: str, input: Mapping[str, Any] | None, **options: Unpack[CallOptions]) -> CallTool:
    """A call request. It always has a `call_id`: where a request is sent again, the server has to see the same call."""
    if unknown := options.keys() - CallOptions.__annotations__.keys():
        known = ", ".join(CallOptions.__annotations__)
        raise TypeError(f"a call has no option {min(unknown)!r}; the options are {known}")
    given = options.get("call_id")
    call_id = random_id() if given is None else given  # an empty one is a mistake, and the server says so
    context = CallContext(
        options.get("tokens", {}), options.get("secrets", {}), options.get("user_id"), options.get("user_info", {})
    )
    return CallTool(tool_id, dict(input or {}), call_id, options.get("trace_id"), context)


def log_use(url: str, tool_id: str, outcome: Outcome) -> None:
    """Logs which tool a program used and how the call ended, without its input."""
    ended = "success" if outcome.error is None else outcome.error.code
    _log.info("%s at %s: %s in %g ms, call %s", tool_id, url, ended, outcome.duration_ms, outcome.call_id)


@contextmanager
def logging_failures(url: str, command: CallTool) -> Iterator[None]:
    """Logs a call that has no outcome: declined, refused, or not answered."""
    try:
        yield
    except ToolyardError as error:
        _log.info("%s at %s: %s, call %s", command.tool_id, url, _why(error), command.call_id)
        raise


def _why(error: ToolyardError) -> str:
    if isinstance(error, Declined):
        return "declined"
    if isinstance(error, Unreachable):
        return "timed out" if isinstance(error, TimedOut) else "no answer"
    return f"refused ({type(error).__name__})"


def drive(flow: Flow, transport: Transport) -> Any:
    """Sends the requests that a flow yields, pauses where it wants to, and returns the value that it returns."""
    reply: Reply | None = None
    with closing(flow):  # a flow that is given up half way runs its own `finally` blocks now
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                return end.value
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                reply = None
            else:
                reply = transport.send(step)


class Client:
    """A client of one server, for synchronous programs. It is a context manager; outside of `with`, call `close`.

    Args:
        url: The server's address. MCP is spoken where it ends in `/mcp`.
        key: An API key or a token.
        wire: The protocol, where the address does not tell: `"oxp"`, `"otc"`, `"otc_draft"` or `"mcp"`. Default: OXP.
        retries: How many times a call is made again where the server is busy, or the tool says that it may help.
        timeout_s: How long to wait for an answer.
        ca: A file of certificate authorities to trust instead of the system's.
        confirm: Asked before each call, with the tool as it is listed and the input. Where it says no, nothing is sent
            and `Declined` is raised.
        trusted: Which hints `confirm` is shown: the server's own, or what MCP assumes of a stranger's. Default: only a
            server on this machine is trusted.
        sending: The transport, if not HTTP.

    >>> with Client("http://127.0.0.1:8000") as client:
    ...     client.call("Calculator.Add", {"a": 10, "b": 5})
    15
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        wire: WireName | None = None,
        retries: int = 2,
        timeout_s: float = 60.0,
        ca: str | None = None,
        confirm: Confirm | None = None,
        trusted: bool | None = None,
        sending: Transport | None = None,
    ) -> None:
        self._protocol: ClientProtocol
        self._protocol, address = protocol_of(url, wire)
        self._url, self._retries, self._confirm = url, retries, confirm
        self._is_trusted = is_on_this_machine(url) if trusted is None else trusted
        self._transport = sending or HttpTransport(address, key, timeout_s, ca=ca)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session, where the protocol has one, and the connections."""
        with suppress(ServerError):  # a server that is gone needs no goodbye
            self._drive(self._protocol.end())
        self._transport.close()

    def call(self, tool_id: str, input: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> Any:
        """Calls a tool and returns its result.

        Args:
            tool_id: The tool: `Calculator.Add`, or with a version, `Calculator.Add@1` or `@1.2.3`.
            input: Its parameters.
            **options: Those of `CallOptions`: `client.call("Sms.Send", {…}, secrets={"SMS_KEY": "…"}, wait=True)`.

        Raises:
            ToolError: The tool failed.
            InvalidInput: The input does not fit.
            MissingRequirements: Something is missing besides input, or a person has to agree first.
            RequestError: The request cannot be taken: `ToolNotFound`, `NotAuthenticated` and others.
            ServerError: The server cannot take it, `Busy` where later it may; or nobody answered.
            Declined: `confirm` said no.
        """
        return value_of(self.outcome(tool_id, input, **options))

    def outcome(self, tool_id: str, input: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> Outcome:
        """Calls a tool and returns how the call ended, a tool's failure included: `outcome.error` is then set.
        Arguments are those of `call`, and so is what it raises, but for `ToolError`."""
        call, wait = command(tool_id, input, **options), bool(options.get("wait"))
        with logging_failures(self._url, call):
            if self._confirm is not None:
                # Listed anew for each call: what a person confirms is the tool as it is now.
                tools = self.list(all_versions="@" in tool_id)
                if not self._confirm(shown(tools, tool_id, is_trusted=self._is_trusted), call.input):
                    raise declined(tool_id)
            outcome: Outcome = self._drive(self._called(call, wait))
        log_use(self._url, tool_id, outcome)
        return outcome

    def list(self, *, all_versions: bool = False, for_model: bool = False) -> Rows:
        """The tools that this caller sees, as the protocol describes them.

        Args:
            all_versions: Every version, and not the newest alone.
            for_model: Without the parameters that a model must not fill in.
        """
        tools: Rows = self._drive(self._protocol.list_tools(all_versions=all_versions, for_model=for_model))
        return tools

    def show(self, call_id: str, wait_s: float = 0.0, family: str | None = None) -> dict[str, Any]:
        """A call of this caller's, as the ledger has it: its state, input, progress and result.

        Args:
            call_id: The call's id.
            wait_s: How long to wait for its end, if it is still running.
            family: Which call, where an id means several: one each of `oxp` (OTC 1.0, too), `otc_draft`, `mcp`, or a
                session's id. Without it the newest is shown, and `otherFamilies` names the others.

        Raises:
            RequestError: There is no such call of this caller's.
        """
        call: dict[str, Any] = self._drive(self._protocol.show_call(call_id, wait_s, family))
        return call

    def calls(self, *, state: str | None = None, tool: str | None = None, limit: int = 50) -> Rows:
        """This caller's calls, newest first.

        Args:
            state: Only those that are `pending`, `processing`, `complete` or `error`.
            tool: Only those of this tool.
            limit: How many, at most.
        """
        calls: Rows = self._drive(self._protocol.list_calls({"state": state, "tool": tool, "limit": str(limit)}))
        return calls

    def cancel(self, call_id: str, family: str | None = None) -> dict[str, Any]:
        """Cancels a call of this caller's, unless it has ended, and returns the call after that.

        Args:
            call_id: The call's id.
            family: Which call, where the id means several. Without it none of several is cancelled, and the request is
                refused.

        Raises:
            RequestError: There is no such call of this caller's, or there are several.
        """
        call: dict[str, Any] = self._drive(self._protocol.cancel_call(call_id, family))
        return call

    def challenge_status(self, challenge: Challenge) -> str:
        """The status of an authorization or approval that a call waits for: `pending`, `completed` or `failed`.

        Args:
            challenge: One of `MissingRequirements.missing.authorization`.
        """
        status: str = self._drive(check_challenge(challenge))
        return status

    def healthy(self) -> bool:
        """Whether the server takes calls."""
        return bool(self._drive(self._protocol.health()))

    def _called(self, command: CallTool, wait: bool) -> Flow:
        """The flow of a call."""
        return self._protocol.call(command, self._retries, wait=wait)

    def _drive(self, flow: Flow) -> Any:
        return drive(flow, self._transport)


class AsyncClient:
    """A client of one server, for asynchronous programs. Arguments and methods are those of `Client`; `confirm` may be
    a coroutine function.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncClient("http://127.0.0.1:8000") as client:
    ...         return await client.call("Calculator.Add", {"a": 10, "b": 5})
    >>> asyncio.run(main())
    15
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        wire: WireName | None = None,
        retries: int = 2,
        timeout_s: float = 60.0,
        ca: str | None = None,
        confirm: AsyncConfirm | None = None,
        trusted: bool | None = None,
        sending: AsyncTransport | None = None,
    ) -> None:
        self._protocol: ClientProtocol
        self._protocol, address = protocol_of(url, wire)
        self._url, self._retries, self._confirm = url, retries, confirm
        self._is_trusted = is_on_this_machine(url) if trusted is None else trusted
        self._transport = sending or AsyncHttpTransport(address, key, timeout_s, ca=ca)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As `Client.close`."""
        with suppress(ServerError):
            await self._drive(self._protocol.end())
        await self._transport.close()

    async def call(self, tool_id: str, input: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> Any:
        """As `Client.call`."""
        return value_of(await self.outcome(tool_id, input, **options))

    async def outcome(
        self, tool_id: str, input: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> Outcome:
        """As `Client.outcome`."""
        call, wait = command(tool_id, input, **options), bool(options.get("wait"))
        with logging_failures(self._url, call):
            if self._confirm is not None:
                tools = await self.list(all_versions="@" in tool_id)
                answer = self._confirm(shown(tools, tool_id, is_trusted=self._is_trusted), call.input)
                if not (await answer if inspect.isawaitable(answer) else answer):
                    raise declined(tool_id)
            outcome: Outcome = await self._drive(self._called(call, wait))
        log_use(self._url, tool_id, outcome)
        return outcome

    async def list(self, *, all_versions: bool = False, for_model: bool = False) -> Rows:
        """As `Client.list`."""
        flow = self._protocol.list_tools(all_versions=all_versions, for_model=for_model)
        tools: Rows = await self._drive(flow)
        return tools

    async def show(self, call_id: str, wait_s: float = 0.0, family: str | None = None) -> dict[str, Any]:
        """As `Client.show`."""
        call: dict[str, Any] = await self._drive(self._protocol.show_call(call_id, wait_s, family))
        return call

    async def calls(self, *, state: str | None = None, tool: str | None = None, limit: int = 50) -> Rows:
        """As `Client.calls`."""
        flow = self._protocol.list_calls({"state": state, "tool": tool, "limit": str(limit)})
        calls: Rows = await self._drive(flow)
        return calls

    async def cancel(self, call_id: str, family: str | None = None) -> dict[str, Any]:
        """As `Client.cancel`."""
        call: dict[str, Any] = await self._drive(self._protocol.cancel_call(call_id, family))
        return call

    async def healthy(self) -> bool:
        """As `Client.healthy`."""
        return bool(await self._drive(self._protocol.health()))

    def _called(self, command: CallTool, wait: bool) -> Flow:
        """The flow of a call."""
        return self._protocol.call(command, self._retries, wait=wait)

    async def _drive(self, flow: Flow) -> Any:
        reply: Reply | None = None
        with closing(flow):
            while True:
                try:
                    step = flow.send(reply)
                except StopIteration as end:
                    return end.value
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    reply = None
                else:
                    reply = await self._transport.send(step)
