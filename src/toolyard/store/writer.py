"""One thread that writes, and commits for many at once.

A durable commit costs a flush of the disk, whether it holds one write or a hundred. So writes are put in a queue, and
the thread takes all that have come while it was committing the ones before. Nobody is told that a write is done before
the commit that holds it is.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from ..model.errors import ToolyardError

MOST_AT_ONCE = 512
CANNOT = (apsw.Error, ValueError, TypeError, OverflowError)
"""What a write may raise: the file's errors, and those of a value that SQLite cannot hold. The thread outlives them."""
T = TypeVar("T")
Write = Callable[[apsw.Cursor], Any]


class Writer:
    """Use from one event loop. `connection` is handed over: no other thread may touch it until `close` returned."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection, self._cursor = connection, connection.cursor()
        self._queue: SimpleQueue[tuple[Write, asyncio.Future[Any]] | None] = SimpleQueue()
        self._loop, self._closed = asyncio.get_running_loop(), False
        self._thread = threading.Thread(target=self._work, name="toolyard-ledger", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[apsw.Cursor], T]) -> "asyncio.Future[T]":
        """Done when the write is durable, with what it returned; or with the error it failed with."""
        done: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            done.set_exception(apsw.ConnectionClosedError("it is closed"))
        else:
            self._queue.put((write, done))
        return done

    async def close(self) -> None:
        """After everything that was submitted."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._cursor.close()
        self._connection.close()

    def _work(self) -> None:
        while True:
            batch, last = self._take()
            if batch:
                outcomes = self._together(batch)
                try:
                    self._loop.call_soon_threadsafe(_tell, batch, outcomes)
                except RuntimeError:
                    return  # the loop is gone: nobody waits
            if last:
                return

    def _take(self) -> tuple[list[tuple[Write, "asyncio.Future[Any]"]], bool]:
        """What is in the queue, and whether it is the end."""
        batch: list[tuple[Write, asyncio.Future[Any]]] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) == MOST_AT_ONCE:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _together(self, batch: list[tuple[Write, "asyncio.Future[Any]"]]) -> list[Any]:
        """In one transaction; if one of them fails, each in its own, so that it fails alone."""
        try:
            return self._committed([write for write, _ in batch])
        except CANNOT as error:
            if len(batch) == 1:
                return [error]
        return [outcome for one in batch for outcome in self._together([one])]

    def _committed(self, writes: list[Write]) -> list[Any]:
        cursor = self._cursor
        cursor.execute("BEGIN IMMEDIATE")
        try:
            results = [_result(write, cursor) for write in writes]
            cursor.execute("COMMIT")
        except BaseException:
            if not cursor.connection.get_autocommit():
                cursor.execute("ROLLBACK")
            raise
        return results


def _result(write: Write, cursor: apsw.Cursor) -> Any:
    """A write that is refused raises before it changes anything, and so does not spoil the others'."""
    try:
        return write(cursor)
    except ToolyardError as refused:
        return refused


def _tell(batch: list[tuple[Write, "asyncio.Future[Any]"]], outcomes: list[Any]) -> None:
    for (_, done), outcome in zip(batch, outcomes, strict=True):
        if done.done():
            continue  # nobody waits any more
        if isinstance(outcome, BaseException):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
