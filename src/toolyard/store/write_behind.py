"""The calls of the fast lane on their way to the ledger: written behind, many at once, never more of them waiting than
a limit.

A call without a key is answered as soon as it has run. It is encoded at that moment, so that nothing of it is held but
a line of text; what is too large for a line waits as it is and becomes a row. What is lost of them when the process
dies was never promised to anybody: it is what has come since the last flush, a tenth of a second ago at most.

Whoever reads calls has the store flush first, so that a node's own calls are there at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ..model.call import CallTool, Outcome
from ..model.record import Ran
from ..model.run import Run
from .blocks import CallLines, NewBlock
from .values import StoreDown

FLUSH_S = 0.05
MOST_WAITING = 10_000
"""Calls. A line has four kilobytes at most, and a little more."""
MOST_BYTES_WAITING = 256 * 2**20
"""Of what is too large for a line, with what is being written."""
WRITTEN_AT_ONCE = 2**20
"""Bytes of such calls, or one that is larger, before others have their turn in the ledger."""
_log = logging.getLogger("toolyard.ledger")
Write = Callable[[list[NewBlock], list[Ran]], Awaitable[int]]
"""Writes blocks and rows. How many calls of them could not be written, whatever is wrong with those; the others are."""


class WriteBehind:
    """Collects calls that have ended and writes them to the ledger a moment later, many at once. `now` is the time of
    day."""

    def __init__(self, write: Write, now: Callable[[], float]) -> None:
        self._write, self._now = write, now
        self._lines = CallLines()
        self._full: list[NewBlock] = []
        self._rows: list[Ran] = []
        self._row_bytes, self._without_room = 0, 0
        self._count, self._since = 0, 0.0
        self.writes_since = 0.0
        """When the first of the calls ended that are being written."""
        self._there = asyncio.Event()
        self._writing = asyncio.Lock()
        self.lost = 0

    def add(self, command: CallTool, run: Run, outcome: Outcome) -> None:
        """Encodes a call. A store that does not keep up costs calls in the ledger, never their callers, and says how
        many."""
        if self._count >= MOST_WAITING:
            self.lost += 1
            return
        lines = self._lines
        try:
            if not lines.add(command, run, outcome, self._now()):
                self._add_row((command, run, outcome))
        except ValueError as error:  # a text that is no Unicode
            self._lose(1, f"a call of {run.tool.reference} cannot be written: {error}")
            return
        if self._count == 0:
            self._since = self._now()
            self._there.set()
        self._count += 1
        if lines.is_full:
            self._full.append(lines.taken())
            self._lines = CallLines()

    def _add_row(self, call: Ran) -> None:
        """Of what is too large for a line. Its result keeps its place until it is written, so that its caller's next
        ones wait for the ledger; where all callers together have too much waiting, the call is left out."""
        size = size_of(call)
        if self._row_bytes and self._row_bytes + size > MOST_BYTES_WAITING:
            self._without_room += 1
            return
        self._row_bytes += size
        self._rows.append(call)
        if (place := call[1].place) is not None:
            place.hold()

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything that was not written yet."""
        return self._count > 0 or self._writing.locked()

    async def run(self) -> None:
        """Until cancelled. Both are made anew: a server that is started again may run on another event loop."""
        self._there, self._writing = asyncio.Event(), asyncio.Lock()
        while True:
            if not self._count:
                await self._there.wait()
            await asyncio.sleep(FLUSH_S)
            self._there.clear()
            await self.flush()

    async def flush(self) -> None:
        """Writes what waits. After this it is written, or lost, also where whoever waits for it is cancelled."""
        async with self._writing:
            writing = asyncio.ensure_future(self._flush())
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait((writing,))
                raise

    async def _flush(self) -> None:
        count, rows, blocks = self._count, self._rows, self._full
        if self._lines.lines:
            blocks.append(self._lines.taken())
        without_room = self._without_room
        self._count, self._rows, self._full, self._lines, self._without_room = 0, [], [], CallLines(), 0
        self.writes_since = self._since
        if not count:
            return
        self._lose(without_room, f"more than {MOST_BYTES_WAITING} bytes of them wait to be written")
        try:
            self._lose(await self._write(blocks, rows), "they cannot be written")
        except StoreDown as down:
            self._lose(count - without_room, down.developer_message or down.message)
        finally:
            self._let_go(rows)

    def _let_go(self, rows: list[Ran]) -> None:
        """They are written, or lost."""
        for call in rows:
            self._row_bytes -= size_of(call)
            if (place := call[1].place) is not None:
                place.give()

    def _lose(self, count: int, why: str) -> None:
        if count:
            self.lost += count
            _log.error("%d calls are missing in the ledger (%d in all): %s", count, self.lost, why)


def size_of(call: Ran) -> int:
    """In bytes, as far as it can be large."""
    command, _, outcome = call
    return len(command.input_json) + outcome.size


def in_portions(calls: Iterable[Ran]) -> list[list[Ran]]:
    """Calls that are too large for a block, as they are written one portion after the other: whoever else writes or
    reads comes in between."""
    portions, left = list[list[Ran]](), 0
    for call in calls:
        size = size_of(call)
        if size > left:
            portions.append([])
            left = WRITTEN_AT_ONCE
        portions[-1].append(call)
        left -= size
    return portions


def in_blocks(calls: Iterable[Ran], now: float) -> tuple[list[NewBlock], list[Ran]]:
    """Calls that have ended, as blocks, and those that are too large for one."""
    blocks, rows, lines = list[NewBlock](), list[Ran](), CallLines()
    for call in calls:
        if not lines.add(*call, now):
            rows.append(call)
        elif lines.is_full:
            blocks.append(lines.taken())
            lines = CallLines()
    return [*blocks, *([lines.taken()] if lines.lines else [])], rows
