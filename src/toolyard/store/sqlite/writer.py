"""One thread that writes, and commits for many at once.

A durable commit costs a flush of the disk, whether it holds one write or a hundred. So writes are put in a queue, and
the thread takes all that have come in a turn of the event loop, or while it was committing the ones before. Nobody is
told that a write is done before the commit that holds it is.

A large write is the last of its commit, so that nobody waits for more than one of them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from ...model.errors import ToolyardError
from ...supervision import Supervisor
from ..hints import Hints
from ..values import StoreDown
from .file import BUSY_MS, close
from .rows import PendingHints

MOST_AT_ONCE = 512
LOG_BUSY_MS = 200
CLOSE_S = 10.0
"""How long a thread that hangs in the file is waited for at the end."""
MOST_REWRITTEN = 64 * 2**20
"""Bytes of a file that is rewritten while calls wait, which takes half a second."""
SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
UNUSED = "in parts of its pages that are not used, something of what was erased may be left"
LARGE_CALL = 2**20
"""How many bytes are written in one commit before it is made."""
T = TypeVar("T")
Write = Callable[[apsw.Cursor], Any]
Submitted = tuple[Write, "asyncio.Future[Any]", int]
"""A write, who waits for it, and how many bytes it has as far as it can be large."""
_log = logging.getLogger("toolyard.ledger")


class HintingWriter:
    """What every part of the store writes and reads by, from `start` to `close`: work is done in the writer's thread,
    hints are given once it is durable, and an error of SQLite is a StoreDown."""

    def __init__(self, hints: Hints, supervisor: Supervisor) -> None:
        self._hints, self._supervisor = hints, supervisor
        self.has_failed = False
        """Whether a write failed, until somebody has found out that one can be made again."""

    def start(self, connection: apsw.Connection) -> None:
        self._writer = Writer(connection, self._supervisor)

    async def close(self) -> None:
        await self._writer.close()

    async def change(self, write: Callable[[apsw.Cursor, PendingHints], T], size: int = 0) -> T:
        """A write, and hints about it once it is durable: whoever gets one finds in the ledger what it is about."""
        told: PendingHints = set()
        try:
            done = await self._writer.submit(lambda cursor: write(cursor, told), size)
        except apsw.Error as error:
            raise self._down(error) from error
        for topic, key in told:
            self._hints.tell(topic, key)
        return done

    async def write(self, write: Callable[[apsw.Cursor], T], size: int = 0) -> T:
        """Reads stand in line, too: so they see everything that was written before them."""
        try:
            return await self._writer.submit(write, size)
        except apsw.Error as error:
            raise self._down(error) from error

    async def clear_traces(self) -> None:
        """Has nothing left of what was removed: not in the file, if that is not too large, nor in the log beside it."""
        await self.write(self._writer.clear_traces_then)

    def _down(self, error: apsw.Error) -> StoreDown:
        self.has_failed = True
        return StoreDown(
            "The server cannot record calls now", retry_after_ms=1000, developer_message=f"the ledger: {error}"
        )


class Writer:
    """The thread, its queue, and its connection to the file. Use from one event loop. `connection` is handed over: no
    other thread may touch it until `close` returned."""

    def __init__(self, connection: apsw.Connection, supervisor: Supervisor) -> None:
        self._connection, self._cursor = connection, connection.cursor()
        self._waiting: deque[Submitted] = deque()
        """A write stays here until it is known what became of it."""
        self._taken = 0
        """How many of the first of them are being written."""
        self._submitted = self._rung = self._told = 0
        """How many writes there have been in all, how many of them in turns of the loop that are over, and of how many
        it is known what became of them. The thread takes no part of a turn that is not over."""
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._is_to_ring = self._is_to_clear = False
        self._loop, self._closed = asyncio.get_running_loop(), False
        self._thread = supervisor.thread("ledger writer", self._work)

    def submit(self, write: Callable[[apsw.Cursor], T], size: int = 0) -> "asyncio.Future[T]":
        """Done when the write is durable, with what it returned; or with the error it failed with. `size` is how many
        bytes it has, as far as it can be large."""
        done: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            done.set_exception(apsw.ConnectionClosedError("it is closed"))
            return done
        self._waiting.append((write, done, size))
        self._submitted += 1
        if not self._is_to_ring:
            # After all that is ready to run now: the thread is woken once for whatever they submit, and does not take
            # the interpreter from them meanwhile.
            self._is_to_ring = True
            self._loop.call_soon(self._ring)
        return done

    def clear_traces_then(self, cursor: apsw.Cursor) -> None:
        """A write that changes nothing. After the commit that it is part of, the file is rewritten and the log is
        emptied."""
        self._is_to_clear = True

    def _ring(self) -> None:
        self._is_to_ring = False
        self._rung = self._submitted
        self._bell.put(None)

    async def close(self) -> None:
        """After everything that was submitted."""
        self._rung = self._submitted
        self._closed = True
        self._bell.put(None)
        if not await asyncio.to_thread(self._thread.join, CLOSE_S):
            _log.error("the ledger's thread does not end; it is left behind")
            return
        self._cursor.close()
        close(self._connection)

    def _work(self) -> None:
        self._leave_taken()
        while True:
            is_last = self._closed  # asked before the queue is: nothing is submitted after it
            while batch := self._next():
                self._taken = len(batch)
                outcomes = self._together(batch)
                if self._is_to_clear:
                    self._clear_traces()
                if not self._tell(outcomes):
                    return  # the loop is gone: nobody waits
                del outcomes  # one may be large
            if is_last:
                return
            self._bell.get()
            while not self._bell.empty():
                self._bell.get()

    def _clear_traces(self) -> None:
        """Outside of any transaction. SQLite overwrites what is removed where it stands, but not where it stood before
        its page was split or filled up, so the whole file is written anew. Nobody's write waits long for a program that
        reads the file just now: what is in the log then stays there until a later checkpoint."""
        self._is_to_clear = False
        try:
            (size,) = self._cursor.execute(SIZE).fetchone() or (0,)
            if size <= MOST_REWRITTEN:
                overwriting(lambda cursor: cursor.execute("VACUUM"))(self._cursor)
            else:
                _log.warning("the ledger is too large to be rewritten while it is used: %s", UNUSED)
        except apsw.Error as error:
            _log.warning("the ledger could not be rewritten: %s; %s", error, UNUSED)
        try:
            self._connection.set_busy_timeout(LOG_BUSY_MS)
            (is_busy, *_) = self._cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (0,)
            if is_busy:
                _log.warning("another program reads the ledger, so that its log (-wal) still has what was erased")
        except apsw.Error as error:
            _log.warning("the ledger's log (-wal) still has what was erased: %s", error)
        finally:
            self._connection.set_busy_timeout(BUSY_MS)

    def _next(self) -> list[Submitted]:
        """What goes into one commit of what waits."""
        batch, size = list[Submitted](), 0
        for place in range(min(self._rung - self._told, MOST_AT_ONCE)):
            one = self._waiting[place]  # by its place: others are submitted meanwhile
            batch.append(one)
            size += one[2]
            if size > LARGE_CALL:
                break
        return batch

    def _leave_taken(self) -> None:
        """Of what was being written when this thread died nobody knows whether it is durable."""
        if not self._connection.get_autocommit():
            self._cursor.execute("ROLLBACK")
        self._tell([apsw.InterruptError("its thread died while it was written")] * self._taken)

    def _tell(self, outcomes: list[Any]) -> bool:
        """Whoever waits for the first of the writes, and forgets those. Whether there is anybody."""
        try:
            told = [self._waiting[place] for place in range(len(outcomes))]
            self._loop.call_soon_threadsafe(_tell, told, outcomes)
        except RuntimeError:
            return False
        for _ in outcomes:
            self._waiting.popleft()
        self._told += len(outcomes)
        self._taken = 0
        return True

    def _together(self, batch: list[Submitted]) -> list[Any]:
        """In one transaction; if one of them fails, each in its own, so that it fails alone."""
        try:
            return self._committed([write for write, _, _ in batch])
        except apsw.BusyError as error:
            # another program has the file, which is nobody's write's fault: one by one each would wait for it again
            return [error] * len(batch)
        except Exception as error:  # whatever one of them raises, the thread goes on with the others
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


def _tell(batch: list[Submitted], outcomes: list[Any]) -> None:
    for (_, done, _), outcome in zip(batch, outcomes, strict=True):
        if done.done():
            continue  # nobody waits any more
        if isinstance(outcome, BaseException):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)


def overwriting(write: Callable[[apsw.Cursor], T]) -> Callable[[apsw.Cursor], T]:
    """A write that overwrites in the file what it removes."""

    def overwrites(cursor: apsw.Cursor) -> T:
        cursor.execute("PRAGMA secure_delete = ON").fetchall()
        try:
            return write(cursor)
        finally:
            cursor.execute("PRAGMA secure_delete = OFF").fetchall()

    return overwrites
