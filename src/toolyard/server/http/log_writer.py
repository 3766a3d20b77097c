"""Writes the log's lines in a thread of its own, so that logging never waits for whoever reads the log.

A pipe that nobody reads, a terminal on hold and a slow disk take a line when they like. Lines wait for that in a buffer
that is bounded in number and in bytes; what finds it full is dropped, and counted in a line of the log as soon as there
is room. At the end of the process, what is left has a short time to be written.
"""

import fcntl
import logging
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from ...supervision import SupervisedThread

MOST_LINES, MOST_BYTES = 10_000, 8 * 2**20
"""How many lines, and bytes of them, may wait to be written."""
LINE_BYTES = 128
"""What a line takes beside its text."""
LEAVING_S = 1.0
"""How long the lines that are left at the end of the process have to be written."""
NAME = "toolyard.log"


class LogWriter(logging.Handler):
    """A handler of log records that makes their lines at once, in the task or thread that logs, and writes them
    later."""

    def __init__(self, stream: TextIO, lock: Path | None = None) -> None:
        """`lock` is a file by which several processes that write to one stream take turns: a pipe takes a long line in
        parts, and theirs would come in between."""
        super().__init__()
        self._stream = stream
        self._lock = None if lock is None else os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._descriptor = _own_descriptor(stream)
        # No lock of Python's is held while a line is written: neither a signal's handler that logs, nor the end of the
        # process could wait for it then.
        self._waiting: SimpleQueue[bytes | threading.Event | None] = SimpleQueue()
        self._counts = threading.RLock()
        self._lines = self._bytes = self._dropped = 0
        self._is_mid_line = False
        self.thread = SupervisedThread("log", self._run)
        self._excepthook, sys.excepthook = sys.excepthook, self._crash

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = _encoded(self.format(record))
        except Exception:  # an author's arguments
            self.handleError(record)
            return
        with self._counts:
            if self._lines >= MOST_LINES or self._bytes + len(line) > MOST_BYTES:
                self._dropped += 1
                return
            self._tell_dropped()
            self._put(line)

    def flush(self) -> None:
        """Waits for what was logged so far to be written, for a short time."""
        self.wait(LEAVING_S)

    def wait(self, seconds: float) -> bool:
        """Waits for what was logged so far to be written, or not to be. Returns whether that was done in the time."""
        if self.thread.is_over or threading.current_thread() is self.thread.thread:
            return True
        written = threading.Event()
        self._waiting.put(written)
        return written.wait(seconds)

    def stop(self) -> None:
        """Ends the thread, once it has written what is left, for one that takes its place."""
        if sys.excepthook == self._crash:
            sys.excepthook = self._excepthook
        self.wait(LEAVING_S)
        self._waiting.put(None)
        if self.thread.join(LEAVING_S):
            for descriptor in filter(None, (self._descriptor, self._lock)):
                os.close(descriptor)
        self.close()

    def _crash(self, *raised: object) -> None:
        """An exception that ends the process is written by Python itself, after the lines that were logged before. That
        would wait for ever where nobody reads."""
        if self.wait(LEAVING_S):
            self._excepthook(*raised)  # type: ignore[arg-type]

    def _put(self, line: bytes) -> None:
        self._lines += 1
        self._bytes += len(line) + LINE_BYTES
        self._waiting.put(line)

    def _tell_dropped(self) -> None:
        if self._dropped:
            message = f"{self._dropped} lines of the log were dropped here: they could not be written"
            record = logging.LogRecord(NAME, logging.WARNING, __file__, 0, message, None, None)
            self._dropped = 0
            self._put(_encoded(self.format(record)))

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            is_written = False
            try:
                is_written = self._write(item)
            finally:
                with self._counts:
                    self._lines -= 1
                    self._bytes -= len(item) + LINE_BYTES
                    self._dropped += not is_written
                    if self._waiting.empty():  # also of lines that were lost with a run of this thread
                        self._lines = self._bytes = 0
                    # At the end of a flood nobody may come who would say it.
                    if is_written and not self._lines:
                        self._tell_dropped()

    def _write(self, line: bytes) -> bool:
        """Whether a line could be written. A full disk is no reason to stop: it may have room for the next one."""
        try:
            if self._descriptor is None:
                self._stream.write(line.decode())
                self._stream.flush()
            else:
                with _held(self._lock):
                    self._write_all(self._descriptor, b"\n" + line if self._is_mid_line else line)
        except (OSError, ValueError):  # nobody is there to read, the disk is full, or somebody has closed the stream
            return False
        return True

    def _write_all(self, descriptor: int, line: bytes) -> None:
        left = memoryview(line)
        while left:
            try:
                count = os.write(descriptor, left)
            except BlockingIOError:  # whoever shares the terminal with us has asked not to wait
                _wait_for_room(descriptor)
                continue
            left = left[count:]
            self._is_mid_line = bool(left)


@contextmanager
def _held(lock: int | None) -> Iterator[None]:
    """The turn of this process, which ends with it if it is killed."""
    if lock is None:
        yield
        return
    fcntl.lockf(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)


def _wait_for_room(descriptor: int) -> None:
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    room.poll()


def log_writers() -> list[LogWriter]:
    """Those of this process: one, where its log was set up."""
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LogWriter)]


def wait_for_log() -> None:
    """Waits for a short time for the lines of this process's log to be written, before it ends at once. It takes no
    lock that others could hold."""
    for writer in log_writers():
        writer.wait(LEAVING_S)


def _own_descriptor(stream: TextIO) -> int | None:
    """A descriptor of the log's own: a tool that closes standard error does not close this one, and whatever gets the
    number next is not the log. None for a stream that has none."""
    try:
        return os.dup(stream.fileno())
    except (OSError, ValueError):  # in memory, or closed
        return None


def _encoded(line: str) -> bytes:
    return f"{line}\n".encode(errors="backslashreplace")
