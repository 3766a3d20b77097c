"""MCP over standard input and output: one client, a message a line, both eras.

Nothing but messages may reach the output: what a tool prints, or a process it starts, goes where the log goes.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from msgspec import UNSET

from ...model.caller import LOCAL
from ...model.errors import ToolyardError
from ...wires.mcp.envelope import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Id,
    Incoming,
    RpcError,
    decode_message,
    encode_error,
    encode_notification,
    encode_result,
    id_of,
    split_batch,
)
from ...wires.mcp.params import Cancelled, Initialize, Wanted, decode_params
from ...wires.mcp.revisions import HANDSHAKE, R_2025_03_26, negotiated
from .dispatcher import McpParts
from .eras import SETTINGS, change, modern_peer, params_of
from .peer import Peer
from .sessions import SessionState
from .subscriptions import Subscriber

CHUNK = 64 * 2**10


class Line:
    """The output. Whole lines, from the loop alone."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output

    def write(self, message: bytes) -> None:
        try:
            self._output.write(message + b"\n")
            self._output.flush()
        except (BrokenPipeError, ValueError):
            """The client has gone; the input's end says so, too."""


class StdioOutlet:
    """To the client, about one of its requests."""

    is_open = True

    def __init__(self, line: Line, id: Id, last: Callable[[bytes], None]) -> None:
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
        """There is one pipe: nothing to take up again."""

    def is_recorded(self, seq: int) -> None:
        self.seq = seq

    def when_gone(self, callback: Callable[[], object]) -> None:
        self._when_gone.append(callback)

    def cancel(self) -> None:
        """The client wants no response any more."""
        self.is_answered = True
        for callback in self._when_gone:
            callback()


class StdioServer:
    """One client, as long as its input lasts."""

    def __init__(self, parts: McpParts, cancel: Callable[[int], Any], output: BinaryIO) -> None:
        """`cancel` ends a call of the ledger."""
        self._parts, self._cancel, self._line = parts, cancel, Line(output)
        self._state: SessionState | None = None
        self._running: dict[Id, StdioOutlet] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted = Wanted()

    async def serve(self, input: int) -> None:
        """Until the input, a file descriptor, ends; what is under way is then given up."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        read_lines(input, asyncio.get_running_loop(), lines)
        with self._parts.subscriptions.hearing(Subscriber(self._wanted, self._tell, LOCAL)):
            while (line := await lines.get()) is not None:
                if line.strip():
                    self._take(line)
        for outlet in list(self._running.values()):
            outlet.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        self._line.write(encode_notification(method, params or None))

    def _take(self, line: bytes) -> None:
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
        await asyncio.gather(*(self._work(body, answers.append) for body in bodies))
        if answers:
            self._line.write(b"[" + b",".join(answers) + b"]")

    async def _work(self, line: bytes, last: Callable[[bytes], None]) -> None:
        try:
            message = decode_message(line)
            params = params_of(message) if message.method is not UNSET else None
            peer = None if params is None else modern_peer(message, params, LOCAL)
        except RpcError as error:
            last(encode_error(id_of(line), error))
            return
        if message.method is UNSET:
            await self._parts.answers.take(message, LOCAL)
        elif message.id is UNSET:
            await self._notified(message)
        else:
            await self._answer(message, message.id, peer, last)  # type: ignore[arg-type]

    async def _answer(self, message: Incoming, id: Id, peer: Peer | None, last: Callable[[bytes], None]) -> None:
        outlet = StdioOutlet(self._line, id, last)
        self._running[id] = outlet
        try:
            outlet.finish(encode_result(id, await self._result(message, peer, outlet)))
        except RpcError as error:
            outlet.finish(encode_error(id, error))
        except ToolyardError as error:
            outlet.finish(encode_error(id, RpcError(INTERNAL_ERROR, error.message)))
        finally:
            if self._running.get(id) is outlet:
                del self._running[id]

    async def _result(self, message: Incoming, peer: Peer | None, outlet: StdioOutlet) -> bytes:
        if peer is not None:
            return await self._parts.dispatcher.answer(message, peer, outlet, str)
        if message.method == "initialize":
            return self._initialize(message)
        if self._state is None and message.method != "ping":
            raise RpcError(INVALID_REQUEST, "Invalid request: send initialize first, or the newer revision's _meta")
        state = self._state or SessionState("2025-11-25", {})
        if message.method in SETTINGS:
            change(message, state)
            self._wanted.uris = tuple(state.subscriptions)
            return b"{}"
        revision = HANDSHAKE[state.version]
        older = Peer(revision, LOCAL, state.capabilities, state.log_level, "stdio")
        return await self._parts.dispatcher.answer(message, older, outlet, str)

    def _initialize(self, message: Incoming) -> bytes:
        params = decode_params(message, Initialize)
        revision = negotiated(params.version)
        self._state = SessionState(revision.name, params.capabilities)
        self._wanted.tools = self._wanted.prompts = self._wanted.resources = True
        return self._parts.dispatcher.initialized(revision)

    async def _notified(self, message: Incoming) -> None:
        if message.method != "notifications/cancelled":
            return
        try:
            outlet = self._running.get(decode_params(message, Cancelled).id)
        except RpcError:
            return
        if outlet is not None:
            outlet.cancel()
            if outlet.seq:
                await self._cancel(outlet.seq)


def own_output() -> BinaryIO:
    """The real output, for messages alone: from now on everything else that is printed goes to the errors' side."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return output


def read_lines(input: int, loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]") -> None:
    """In a thread: not every input can be waited for on a loop. And from the descriptor itself: a thread that is in
    the middle of a buffered read keeps the program from ending."""

    def read() -> None:
        parts: list[bytes] = []
        while chunk := os.read(input, CHUNK):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                loop.call_soon_threadsafe(lines.put_nowait, b"".join((*parts, line)))
                parts = []
            parts.append(rest)
        loop.call_soon_threadsafe(lines.put_nowait, b"".join(parts))
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, name="toolyard-stdin", daemon=True).start()
