"""MCP over standard input and output: one client, a message a line, both eras.

When the input ends, or somebody stops the server, what runs may end and is answered; what only waits is given up.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct

from ....model.caller import LOCAL, Caller
from ....model.channel import nothing
from ....model.errors import RequestError, ToolyardError
from ....wires.mcp.envelope import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Id,
    Incoming,
    RpcError,
    encode_error,
    encode_notification,
    encode_result,
    id_of,
    split_batch,
)
from ....wires.mcp.params import (
    CallMessage,
    Cancelled,
    Initialize,
    Message,
    SubscriptionFilter,
    decode_incoming,
    decode_params,
)
from ....wires.mcp.revisions import HANDSHAKE, R_2025_03_26, negotiated
from ...http.reply_budget import Place
from ..methods.dispatcher import McpParts
from ..methods.resumed_calls import stopping
from ..methods.subscriptions import Subscriber
from ..protocol.eras import SETTINGS, change, modern_peer, params_of
from ..protocol.peer import Peer
from ..protocol.refusals import as_rpc
from ..protocol.sessions import SessionState, kept
from .pipes import InputLines, OutputPipe

LOOK_S = 0.1
SESSION = "stdio"
ANY = "2025-11-25"
"""The revision of what needs no handshake."""
"""There is one."""


class StdioOutlet:
    """The way to the client of one request over pipes: every message is a line, and there is one pipe for all."""

    def __init__(self, line: OutputPipe, id: Id, last: Callable[[bytes], None]) -> None:
        """`last` takes the response."""
        self._line, self._id, self._last = line, id, last
        self.seq = 0
        self.is_answered = False
        self._when_gone: list[Callable[[], object]] = []

    def send(self, message: bytes) -> None:
        if not self.is_answered:
            self._line.write(message)

    def respond(self, result: bytes) -> None:
        self.finish(encode_result(self._id, result))

    def finish(self, message: bytes) -> None:
        if not self.is_answered:
            self.is_answered = True
            self._last(message)

    def takes_long(self, record: Callable[[], None]) -> None:
        """Nothing can be taken up again: a pipe that broke is the end of the server."""

    def on_recorded(self, seq: int) -> None:
        self.seq = seq

    def no_resumption(self) -> None:
        """Nothing can be, anyway."""

    def when_gone(self, callback: Callable[[], object]) -> None:
        self._when_gone.append(callback)

    def when_expired(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Whoever started the process needs no credentials."""
        return nothing

    def cancel(self) -> None:
        """The client wants no response any more."""
        self.is_answered = True
        for callback in self._when_gone:
            callback()


class ThisMachine(Struct, frozen=True):
    """Where a client over pipes is: it has no address."""

    address: str = ""


THIS_MACHINE = ThisMachine()


class StdioRequest(Struct, eq=False):
    """A request over pipes (an `McpRequest`): there are no headers, and anything can be said at any time."""

    message: Message
    body: bytes
    peer: Peer
    outlet: StdioOutlet
    base_url: Callable[[], str]
    is_open: bool = True
    headers: Mapping[bytes, bytes] | None = None
    origin: ThisMachine = THIS_MACHINE

    async def read(self) -> Place:
        """The pipe itself holds up a client that does not read."""
        return Place(nothing)

    def may_keep(self, size: int) -> bool:
        return True

    def when_answered(self, callback: Callable[[], None]) -> None:
        """What is written to the pipe is the pipe's."""
        callback()


class Surroundings(Struct):
    """What a server over pipes needs of the yard beside MCP's parts."""

    check: Callable[[bytes], None]
    """Raises for a message that is too large or too deep."""
    cancel: Callable[[int], Any]
    """Ends a call of the ledger."""
    leave: Callable[[], None]
    """Who only waits is told to stop waiting."""
    base_url: Callable[[], str] = str
    """Where a server that shares the ledger has its pages."""
    caller: Caller = LOCAL
    """Whoever started the process, with the limits that are about them."""


class StdioServer:
    """Serves one client over pipes, as long as its input lasts and what it asked for has not ended."""

    def __init__(self, parts: McpParts, around: Surroundings, line: OutputPipe) -> None:
        self._parts, self._around, self._line = parts, around, line
        self._state: SessionState | None = None
        self._running: dict[Id, StdioOutlet] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted = SubscriptionFilter()

    async def serve(self, lines: InputLines) -> None:
        """Until None comes, and what is under way has ended. Who cancels this has waited long enough."""
        try:
            hearing = Subscriber(self._wanted, self._tell, self._around.caller, session=SESSION)
            with self._parts.subscriptions.hearing(hearing):
                while (line := await lines.get()) is not None:
                    await self._line.wait_for_room()
                    if line.strip():
                        self._take(line)
            self._around.leave()
            await self._finish()
        finally:
            for task in self._tasks:
                task.cancel()

    async def _finish(self) -> None:
        """A client that has closed both pipes is gone, and takes its calls with it as far as their tools want that."""
        is_told = False
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=LOOK_S)
            if not is_told and self._line.is_gone:
                is_told = True
                for outlet in list(self._running.values()):
                    outlet.cancel()
        await self._line.wait_until_empty()

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        self._line.write(encode_notification(method, params or None))

    def _take(self, line: bytes) -> None:
        try:
            self._around.check(line)
        except RequestError as error:
            self._line.write(encode_error(id_of(line), as_rpc(error)))
            return
        is_batch = line.lstrip()[:1] == b"[" and self._state is not None and self._state.version == R_2025_03_26.name
        work = self._together(line) if is_batch else self._work(line, self._line.write)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _together(self, line: bytes) -> None:
        """2025-03-26 alone: several at once, answered together."""
        answers: list[bytes] = []
        try:
            bodies = split_batch(line)
        except RpcError as error:
            self._line.write(encode_error(None, error))
            return
        await asyncio.gather(*(self._work(body, answers.append) for body in bodies), return_exceptions=True)
        if answers:
            self._line.write(b"[" + b",".join(answers) + b"]")

    async def _work(self, line: bytes, last: Callable[[bytes], None]) -> None:
        """A notification is never answered, also one that is not as it must be."""
        try:
            message = decode_incoming(line)
            if type(message) is not CallMessage and (message.method is UNSET or message.id is UNSET):
                await self._told(message)
                return
            peer = modern_peer(message, params_of(message), self._around.caller, self._parts.dispatcher.modern)
        except RpcError as error:
            last(encode_error(id_of(line), error))
            return
        await self._answer(message, line, message.id, peer, last)  # type: ignore[arg-type]

    async def _told(self, message: Incoming) -> None:
        """What wants no answer."""
        if message.method is UNSET:
            await self._parts.answers.take(message, self._older_peer(self._state or SessionState(ANY)))
        elif message.method == "notifications/cancelled":
            try:
                id = decode_params(message, Cancelled).id
            except RpcError:
                return
            await self._give_up(id)

    async def _answer(
        self, message: Message, body: bytes, id: Id, peer: Peer | None, last: Callable[[bytes], None]
    ) -> None:
        outlet = StdioOutlet(self._line, id, last)
        self._running[id] = outlet
        try:
            outlet.finish(encode_result(id, await self._result(message, body, peer, outlet)))
        except RpcError as error:
            outlet.finish(encode_error(id, error))
        except ToolyardError as error:
            outlet.finish(encode_error(id, RpcError(INTERNAL_ERROR, error.message)))
        except asyncio.CancelledError:
            outlet.finish(encode_error(id, stopping()))
            raise
        finally:
            if self._running.get(id) is outlet:
                del self._running[id]

    async def _result(self, message: Message, body: bytes, peer: Peer | None, outlet: StdioOutlet) -> bytes:
        if peer is not None:
            request = StdioRequest(message, body, peer, outlet, self._around.base_url)
            return await self._parts.dispatcher.answer(request)
        if message.method == "initialize":
            return self._initialize(message)
        if self._state is None and message.method != "ping":
            raise RpcError(INVALID_REQUEST, "Invalid request: send initialize first, or the newer revision's _meta")
        state = self._state or SessionState(ANY)
        if message.method in SETTINGS:
            change(message, state, self._parts.subscriptions.most)
            self._wanted.uris = tuple(state.subscriptions)
            self._parts.subscriptions.follows_others()
            return b"{}"
        older = self._older_peer(state)
        return await self._parts.dispatcher.answer(StdioRequest(message, body, older, outlet, self._around.base_url))

    def _older_peer(self, state: SessionState) -> Peer:
        return Peer(HANDSHAKE[state.version], self._around.caller, state.stated(), state.log_level, SESSION)

    def _initialize(self, message: Message) -> bytes:
        params = decode_params(message, Initialize)
        revision = negotiated(params.version)
        self._state = SessionState(revision.name, kept(params.capabilities))
        self._wanted.tools = self._wanted.prompts = self._wanted.resources = True
        return self._parts.dispatcher.initialized(revision)

    async def _give_up(self, id: Id) -> None:
        outlet = self._running.get(id)
        if outlet is not None:
            outlet.cancel()
            if outlet.seq:
                await self._around.cancel(outlet.seq)
