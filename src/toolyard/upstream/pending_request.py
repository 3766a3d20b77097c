"""One request to an upstream while it is under way: what the upstream says and asks before it answers.

Whoever made the request is its `RequestListener`. What the upstream asks in between is answered by tasks that end with
the request; where the listener cannot answer, the request itself fails with the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from ..model.json_value import decode
from ..wires.mcp.envelope import INTERNAL_ERROR, METHOD_NOT_FOUND, Id, Incoming, RpcError, encode_error, encode_result
from .faults import LONGEST_TEXT, Misbehaved, RefusalDetails, UpstreamRefusal

MOST_ASKED = 8
"""Questions of one request that are open at the same time."""
Send = Callable[[bytes], Awaitable[None]]
"""Sends a message to the upstream, beside the request."""
_encode = msgspec.json.Encoder().encode


class RequestListener(Protocol):
    """Whoever waits for the answer to a request."""

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """The upstream says something about the request: how far it is, or a line for the log."""
        ...

    async def asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of a request that the upstream makes. Raises RpcError for one that is answered with an error;
        anything else that is raised fails the listener's own request."""
        ...

    @property
    def principal(self) -> object | None:
        """Who would be asked, where the upstream asks something without saying in which request; None: nobody."""
        ...


class Deaf:
    """The listener of requests about which nothing is said or asked: lists, pings."""

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Nobody wants to know."""

    async def asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "ping":
            return {}
        raise RpcError(METHOD_NOT_FOUND, f"Nobody is here to answer {method[:100]}")

    @property
    def principal(self) -> None:
        """Nobody is asked."""


DEAF = Deaf()


class PendingRequest:
    """A request that was sent, or is about to be, and waits for its answer."""

    def __init__(self, id: Id, listener: RequestListener, send: Send) -> None:
        self.id, self.listener, self._send = id, listener, send
        self.answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._asks: set[asyncio.Task[None]] = set()

    def hear(self, message: Incoming) -> None:
        """Takes a message of the upstream that belongs to this request."""
        if message.method is UNSET:
            if message.id == self.id or (message.id is None and message.error is not UNSET):
                self._settle(message)
        elif message.id is UNSET:
            self.listener.notified(message.method, params_of(message))
        else:
            self.ask(message)

    def ask(self, message: Incoming) -> None:
        """Has the listener answer a request of the upstream's."""
        if len(self._asks) >= MOST_ASKED:
            self.fail(Misbehaved(f"asked more than {MOST_ASKED} things at once"))
            return
        task = asyncio.get_running_loop().create_task(self._answered(message))
        self._asks.add(task)
        task.add_done_callback(self._asks.discard)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def end(self) -> None:
        """Nobody waits for it any more."""
        for task in self._asks:
            task.cancel()
        if not self.answer.done():
            self.answer.cancel()
        elif not self.answer.cancelled():
            self.answer.exception()  # somebody has looked at it

    async def _answered(self, message: Incoming) -> None:
        id, method = message.id, message.method
        if not isinstance(id, int | str) or not isinstance(method, str):
            return
        try:
            reply = encode_result(id, _encode(await self.listener.asked(method, params_of(message))))
        except RpcError as error:
            reply = encode_error(id, error)
        except Exception as error:  # an answer that nobody has: the call that needs it cannot go on
            self.fail(error)
            reply = encode_error(id, RpcError(INTERNAL_ERROR, "Nobody can answer this"))
        await self._send(reply)

    def _settle(self, message: Incoming) -> None:
        if self.answer.done():
            return
        if isinstance(message.result, Raw) and message.error is UNSET:
            # A copy: what msgspec gives is a view of all that was read.
            self.answer.set_result(message.result.copy())
        else:
            self.answer.set_exception(refusal_in(message))


def params_of(message: Incoming) -> Mapping[str, Any]:
    """The parameters of a notification or a request; none where they are no object."""
    if not isinstance(message.params, Raw):
        return {}
    try:
        params = decode(message.params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return params if isinstance(params, dict) else {}


def refusal_in(message: Incoming, status: int = 200, retry_after_ms: int | None = None) -> UpstreamRefusal | Misbehaved:
    """The error that a response is."""
    try:
        error = decode(message.error) if isinstance(message.error, Raw) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        error = None
    if not isinstance(error, dict):
        return Misbehaved("answered with neither a result nor an error")
    code, text = error.get("code"), error.get("message")
    said = text if isinstance(text, str) and text else "the request was refused"
    known = code if isinstance(code, int) and not isinstance(code, bool) else None
    return UpstreamRefusal(said[:LONGEST_TEXT], RefusalDetails(known, status, error.get("data"), retry_after_ms))


def object_of(result: Raw) -> dict[str, Any]:
    """A result as it has to be. Raises Misbehaved."""
    try:
        decoded = decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise Misbehaved("answered with a result that is no object")
    return decoded
