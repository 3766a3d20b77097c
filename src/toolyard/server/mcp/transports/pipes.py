"""The pipes to a client over standard input and output, kept for messages alone.

What a tool prints, reads or closes, and what a process does that it starts, meets other descriptors: the log's side for
output, and nothing at all for input. So none of it can reach the client, or take a request from under our eyes.

A client that does not read must hold nobody up: what its pipe has no room for is written in a thread. Nor may one fill
the memory with what it writes: where more has come than was taken, no more is read until it is, and its pipe fills up.
"""

import asyncio
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from msgspec import Struct

CHUNK = 64 * 2**10
MOST_UNREAD = 8 * 2**20
"""How many bytes may wait for a client that does not read, before no more of its requests are taken."""
MOST_UNTAKEN = 8 * 2**20
"""How many bytes of lines may wait to be taken, before no more are read."""
LINE_BYTES = 128
"""What a line takes beside its text."""
LOOK_S = 0.2
NOTIFICATION = b'{"jsonrpc":"2.0","method"'
INPUT, OUTPUT, ERRORS = range(3)


class Pipes(Struct):
    """The two descriptors on which messages come and go, and which nobody else has."""

    input: int
    output: int


class Shared(io.TextIOWrapper):
    """Standard output or error, as tools see it: whoever closes it closes it for nobody."""

    def close(self) -> None:
        self.flush()


def own_pipes() -> Pipes:
    """The real ones, for messages alone. From now on input is empty, and output goes to the errors' side."""
    for descriptor in (INPUT, OUTPUT, ERRORS):
        _make_present(descriptor)
    if sys.stdout is not None:
        sys.stdout.flush()
    pipes = Pipes(os.dup(INPUT), os.dup(OUTPUT))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, INPUT)
    os.close(nothing)
    os.dup2(ERRORS, OUTPUT)
    sys.stdin = open(INPUT, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _shared(), _shared()
    return pipes


def _make_present(descriptor: int) -> None:
    """Whoever started us may have closed it; then the next file that is opened would be taken for it."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)


def _shared() -> Shared:
    errors = io.BufferedWriter(io.FileIO(ERRORS, "w", closefd=False))
    return Shared(errors, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def read_lines(input: int, take: Callable[[bytes | None], None], most: int) -> None:
    """Calls `take` with each line, and with None at the end. Of a line that is much longer than `most` bytes no more
    is kept than shows that; one that is a little longer is kept whole, so that its id is known. In a thread: not every
    input can be waited for on a loop. And from the descriptor itself: a thread that is in the middle of a buffered read
    keeps the program from ending."""
    kept = most + CHUNK

    def read() -> None:
        line = bytearray()
        try:
            while chunk := os.read(input, CHUNK):
                *whole, rest = chunk.split(b"\n")
                for end in whole:
                    # An empty line says nothing: it is not worth a turn of the loop.
                    if line or (end and not end.isspace()):
                        take(bytes(line + end[: max(0, kept - len(line))]))
                    line.clear()
                line += rest[: max(0, kept - len(line))]
            take(bytes(line))
        finally:
            take(None)

    threading.Thread(target=read, name="toolyard-stdin", daemon=True).start()


class InputLines:
    """Lines on their way from the thread that reads them to the loop. The thread waits where too many are."""

    def __init__(self, input: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._closing = _poll(input, select.POLLHUP)
        self._size, self._taken = 0, threading.Condition()

    def put(self, line: bytes) -> None:
        """Hands a line over, in the thread that reads; returns when there is room for another. A client that has closed
        its side is not waited for: it sends no more than its pipe holds, and its end has to be seen."""
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:
            return  # the server has ended, and its loop is closed
        with self._taken:
            self._size += len(line) + LINE_BYTES
            while self._size > MOST_UNTAKEN and not self._closing.poll(0):
                self._taken.wait(LOOK_S)

    def end(self) -> None:
        """No more are taken after those that have come. On the loop."""
        self._lines.put_nowait(None)

    async def get(self) -> bytes | None:
        """The next line; None after the last."""
        line = await self._lines.get()
        if line is not None:
            with self._taken:
                self._size -= len(line) + LINE_BYTES
                self._taken.notify()
        return line


def _poll(descriptor: int, event: int) -> "select.poll":
    made = select.poll()
    made.register(descriptor, event)
    return made


class OutputPipe:
    """The way out to the client: whole lines, written from the loop, and by a thread what the pipe has no room for."""

    def __init__(self, output: int) -> None:
        self._output, self._loop = output, asyncio.get_running_loop()
        self._ready = _poll(output, select.POLLOUT)
        self._unread: SimpleQueue[bytes] = SimpleQueue()
        self._size = 0
        self._thread: threading.Thread | None = None
        self._has_room, self._is_empty = asyncio.Event(), asyncio.Event()
        self._has_room.set()
        self._is_empty.set()

    def write(self, message: bytes) -> None:
        """What nobody reads is written as soon as somebody does; of notifications only so many."""
        line = message + b"\n"
        if self._size == 0 and len(line) <= select.PIPE_BUF and self._is_ready():
            line = line[self._write(line) :]
        if line and not (self._size > MOST_UNREAD and message.startswith(NOTIFICATION)):
            self._write_later(line)

    @property
    def is_gone(self) -> bool:
        """Whether nobody can read any more."""
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in self._ready.poll(0))

    async def wait_for_room(self) -> None:
        """Until the client has read enough for more of its requests to be taken."""
        await self._has_room.wait()

    async def wait_until_empty(self) -> None:
        """Until all is written."""
        await self._is_empty.wait()

    def _is_ready(self) -> bool:
        """As much as PIPE_BUF can then be written without waiting."""
        return any(event & select.POLLOUT for _, event in self._ready.poll(0))

    def _write(self, data: bytes | memoryview) -> int:
        """How much is done with. To a client that has gone, all; the input's end says so, too."""
        try:
            return os.write(self._output, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def _write_later(self, line: bytes) -> None:
        self._size += len(line)
        self._is_empty.clear()
        if self._size > MOST_UNREAD:
            self._has_room.clear()
        self._unread.put(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_on, name="toolyard-stdout", daemon=True)
            self._thread.start()

    def _write_on(self) -> None:
        ready = _poll(self._output, select.POLLOUT)  # of its own: one is for one thread
        while True:
            line = self._unread.get()
            rest = memoryview(line)
            while rest:
                ready.poll()
                rest = rest[self._write(rest) :]
            try:
                self._loop.call_soon_threadsafe(self._written, len(line))
            except RuntimeError:
                return  # the loop is closed: nobody writes any more

    def _written(self, size: int) -> None:
        self._size -= size
        if self._size <= MOST_UNREAD:
            self._has_room.set()
        if self._size == 0:
            self._is_empty.set()
