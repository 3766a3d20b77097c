"""One request to an upstream while it is under way: what the upstream says and asks before it answers.

Whoever made the request is its `RequestListener`. What the upstream asks in between is answered by tasks that end with
the request; where the listener cannot answer, the request itself fails with the reason.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from ..model.json_value import decode
from ..wires.mcp.envelope import METHOD_NOT_FOUND, Id, Incoming, RpcError, encode_error, encode_result
from .faults import LONGEST_TEXT, Misbehaved, RefusalDetails, Unanswerable, UpstreamFault, UpstreamRefusal

MOST_ASKED = 8
"""Questions of one request that are open at the same time."""
MOST_LEFT = 1000
"""Requests that were given up, and are remembered."""
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
        """Has the listener answer a request of the upstream's. Too many fail the listener's own; but pings, and what
        nobody is asked, are then left without an answer."""
        if len(self._asks) >= MOST_ASKED:
            if message.method != "ping" and self.listener is not DEAF:
                self.fail(Unanswerable(f"asked more than {MOST_ASKED} things at once"))
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
            return  # the upstream hears that the request is given up, and not first that a question was
        with suppress(UpstreamFault):  # it is gone: whoever waits for it hears that, too
            await self._send(reply)

    def _settle(self, message: Incoming) -> None:
        if self.answer.done():
            return
        if isinstance(message.result, Raw) and message.error is UNSET:
            # A copy: what msgspec gives is a view of all that was read.
            self.answer.set_result(message.result.copy())
        else:
            self.answer.set_exception(refusal_in(message))


class OpenRequests:
    """The requests of one connection that wait for their answers, and whose they are."""

    def __init__(self, left_s: float) -> None:
        """`left_s`: how long the upstream may go on with a request that nobody waits for any more."""
        self._left_s = left_s
        self._open: dict[Id, PendingRequest] = {}
        self._left: OrderedDict[Id, tuple[object, float]] = OrderedDict()
        """Those that were given up, with who had made them, and until when that counts."""

    def add(self, request: PendingRequest) -> None:
        self._open[request.id] = request

    def get(self, id: object) -> PendingRequest | None:
        return self._open.get(id) if isinstance(id, int | str) else None

    def all(self) -> list[PendingRequest]:
        return list(self._open.values())

    def remove(self, request: PendingRequest, *, is_answered: bool = True) -> None:
        if self._open.pop(request.id, None) is None or is_answered or request.listener.principal is None:
            return
        until = asyncio.get_running_loop().time() + self._left_s
        self._left[request.id] = request.listener.principal, until
        if len(self._left) > MOST_LEFT:
            self._left.popitem(last=False)

    def end(self, id: object) -> None:
        """An answer came to a request that was given up."""
        if isinstance(id, int | str):
            self._left.pop(id, None)

    def whom_to_ask(self) -> PendingRequest | None:
        """The request that a question must belong to which names none; or the newest, where all of them are the same
        caller's. Whoever left a request behind may be meant, too, as long as the upstream may work on that."""
        now = asyncio.get_running_loop().time()
        waiting = [each for each in self._open.values() if each.listener.principal is not None]
        callers = {each.listener.principal for each in waiting}
        callers |= {principal for principal, until in self._left.values() if until > now}
        return waiting[-1] if waiting and len(callers) == 1 else None


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
