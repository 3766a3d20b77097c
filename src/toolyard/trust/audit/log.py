"""The audit log of a node, written behind: entries are collected, and written as a signed block every now and then.

An entry becomes a line of JSON as soon as it is made, so that nothing else of a call is held on to. It is signed and
stored together with many others: 50 ms later, or at once when somebody waits for it (`written`), as `audit = "strict"`
does before each answer. While the store is away lines wait, up to a limit; how many did not fit is itself an entry as
soon as there is room, so that nothing is missing without a word. A process that is killed takes with it what it had not
written.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate

from msgspec import Struct

from ...model.audit import AuditBlock
from ...model.errors import InternalError, ToolyardError
from ...store.contract import AuditStore
from ...store.values import StoreDown
from ...supervision import SupervisedTask, Supervisor
from ..sealing.fingerprints import Fingerprints
from ..sealing.ring import KeyRing
from .chain import BLOCKS_AT_ONCE, HEAD, ChainPosition, is_ours, position_after, sealed, signed
from .entry import AuditKind, Entry, line_of
from .retention import AuditRetention

FLUSH_S = 0.05
"""How long entries are collected where nobody waits for them: as much as a killed process takes with it."""
MOST_IN_A_BLOCK = 2000
MOST_BYTES_IN_A_BLOCK = 2**20
MOST_WAITING = 20_000
"""Entries in memory while the store is away; those beyond are counted, and lost."""
TRY_AGAIN_S = 0.25
LAST_TRIES = 4
"""How often a store that is away is tried when the server stops."""
MAIN = "main"
"""The chain of a ledger that one process at a time writes to."""
VERBS = "verbs"
"""The chain of what is done to a shared ledger without a server."""
_log = logging.getLogger("toolyard.audit")


class AuditSettings(Struct, frozen=True):
    """How a server keeps its log. `strict`: whoever answers a request awaits `written` first."""

    strict: bool = False
    with_input: bool = False
    retention_s: float = 90 * 86400.0


class _Batch(Struct):
    """Entries that are on their way to the store, as lines."""

    lines: list[bytes]
    times: tuple[float, float]
    taken: int
    """How many of the lines are entries that were waiting; one more line may say how many were lost."""
    before: ChainPosition = ChainPosition()
    block: AuditBlock | None = None
    """The block as it was sent, to come after `before`. A block of which nobody knows whether it is stored is sent
    again byte for byte, so that the store recognises it instead of taking it twice."""


class Audit:
    """The log of one node: takes entries, and writes them to its chain, in their order. To be used from one event loop
    at a time, between `open` and `close`. `chain` is the chain that this node writes."""

    def __init__(
        self,
        store: AuditStore,
        ring: KeyRing,
        chain: str,
        settings: AuditSettings,
        now: Callable[[], float],
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor or Supervisor()
        self._store, self._ring, self.chain, self._now = store, ring, chain, now
        self.strict, self._with_input = settings.strict, settings.with_input
        self._fingerprint = Fingerprints(ring).of
        self._retention = AuditRetention(store, ring, settings.retention_s, now)
        self._waiting: list[bytes] = []
        self._times: list[float] = []
        """Of the entries whose lines are waiting."""
        self._batch: _Batch | None = None
        self._room, self._lost = 0, 0  # no room before `open` and after `close`
        self._added, self._stored = 0, 0
        self._position = ChainPosition()
        self._there, self._hurry = asyncio.Event(), asyncio.Event()
        self._kept: list[SupervisedTask] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._tries_left: int | None = None
        self._is_up = True

    async def open(self) -> None:
        """Goes on where the chain ends, and makes that the first entry. Raises StoreDown."""
        if not is_ours(self._ring, await self._store.chain(self.chain)):
            _log.error(
                "the audit log was signed with another key, and so was all that is sealed in this ledger: "
                "put its key file back, or name its key first or second in secret_key"
            )
        self._position = await end_of(self._store, self.chain)
        self._room, self._tries_left = MOST_WAITING, None
        self.add(Entry(self._now(), AuditKind.START, outcome="continued" if self._position.number else "began"))
        self._kept = [
            self._supervisor.task("audit log", self._run),
            self._supervisor.task("audit retention", self._retention.run),
        ]

    async def close(self) -> None:
        """Writes what is left, and as the last entry that this is the end."""
        # Only then is nobody else writing: the rest is written from here.
        for each in self._kept:
            await each.stop()
        self._append(Entry(self._now(), AuditKind.STOP, outcome="closed"))
        self._room, self._tries_left = 0, LAST_TRIES
        await self._write()
        if missing := self._added - self._stored + self._lost:
            _log.error("%d entries are missing in the audit log: the server stopped without its store", missing)

    @property
    def has_room(self) -> bool:
        """Whether another entry would be kept. A strict server asks before it lets anything happen."""
        return len(self._waiting) < self._room

    def add(self, entry: Entry) -> None:
        """Adds an entry, which is the log's from now on."""
        count = len(self._waiting)
        if count >= self._room:
            self._lost += 1
            return
        self._append(entry)
        if count == 0:
            self._there.set()
        elif count == MOST_IN_A_BLOCK:
            self._hurry.set()

    def _append(self, entry: Entry) -> None:
        self._waiting.append(self._line(entry))
        self._times.append(entry.at)
        self._added += 1

    async def written(self) -> None:
        """Returns when everything that was added so far is durable. Raises StoreDown where that cannot be had now; what
        waits stays in line and is written later."""
        if self._lost:
            raise StoreDown("The audit log cannot be written now", retry_after_ms=1000)
        if self._stored == self._added:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._added, waiter))
        self._there.set()
        self._hurry.set()
        await waiter

    # -- writing -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Writes blocks until cancelled. What is on its way then is sent again as it is by the next run."""
        self._there, self._hurry = asyncio.Event(), asyncio.Event()  # those of this loop: a log may be opened again
        while True:
            if not self._has_work:
                await self._there.wait()
            if not self._is_urgent():
                with suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_S):
                        await self._hurry.wait()
            self._there.clear()
            self._hurry.clear()
            try:
                await self._write()
            except Exception as defect:  # its supervisor starts this again, and nobody is left waiting until then
                self._tell(InternalError("The audit log could not be written", developer_message=repr(defect)))
                raise

    @property
    def _has_work(self) -> bool:
        return self._batch is not None or bool(self._waiting) or self._lost > 0

    async def _write(self) -> None:
        """Writes one block, and then others as long as there is a hurry."""
        while self._has_work:
            if self._batch is None:
                self._batch = self._take()
            if await self._is_stored(self._batch):
                self._stored += self._batch.taken
                self._batch = None
                self._tell(None)
                if not self._is_urgent():
                    break
            elif self._tries_left == 0:
                break

    def _is_urgent(self) -> bool:
        return len(self._waiting) >= MOST_IN_A_BLOCK or bool(self._waiters) or self._room == 0

    def _take(self) -> _Batch:
        """The next lines, and how many entries were lost before them."""
        sizes = accumulate(map(len, self._waiting[: MOST_IN_A_BLOCK - 1]))
        fits = 1 + sum(size <= MOST_BYTES_IN_A_BLOCK for size in sizes)
        lines, times = self._waiting[:fits], self._times[:fits]
        taken = len(lines)
        del self._waiting[:taken], self._times[:taken]
        if self._lost:
            times.append(self._now())
            lost = Entry(times[-1], AuditKind.LOST, outcome="lost", count=self._lost)
            lines.append(line_of(lost, self._fingerprint, with_input=False))
            _log.error("%d entries are missing in the audit log: its store was away for too long", self._lost)
            self._lost = 0
        return _Batch(lines, (min(times), max(times)), taken)

    def _line(self, entry: Entry) -> bytes:
        """An entry as a line. One that cannot be written does not keep the others from it."""
        try:
            return line_of(entry, self._fingerprint, with_input=self._with_input)
        except Exception:  # an author's values are in it, and a tool may change them while they are written
            _log.exception("an entry of the audit log cannot be written as it is")
            return line_of(Entry(entry.at, entry.kind, outcome="unreadable"), self._fingerprint, with_input=False)

    async def _is_stored(self, batch: _Batch) -> bool:
        """Sends a batch as a block; whether it is stored now. Where it is not, it is to be tried again."""
        if batch.block is None:
            batch.before = self._position
            batch.block = signed(self._ring, batch.before, self.chain, batch.times, batch.lines)
        position = position_after(batch.before, batch.block)
        try:
            # Refused where the chain does not end where we thought: made anew, the block comes after its real end.
            if not await self._store.add(batch.block, sealed(self._ring, HEAD, self.chain, position)):
                batch.block, self._position = None, await end_of(self._store, self.chain)
                return False
        except ToolyardError as error:
            self._note_store(False, error)
            self._tell(error)
            await self._pause()
            return False
        self._note_store(True)
        self._position = position
        return True

    async def _pause(self) -> None:
        await asyncio.sleep(TRY_AGAIN_S)
        if self._tries_left is not None:
            self._tries_left -= 1

    def _tell(self, error: Exception | None) -> None:
        """Tells those who wait for what is stored by now; or all of them, where `error` is why nothing is."""
        waiters, self._waiters = self._waiters, []
        for target, waiter in waiters:
            if waiter.done():
                continue
            if error is not None:
                waiter.set_exception(error)
            elif target <= self._stored:
                waiter.set_result(None)
            else:
                self._waiters.append((target, waiter))

    def _note_store(self, up: bool, why: ToolyardError | None = None) -> None:
        """Whether the store took the last block. Logged when that changes, and not for every try."""
        if up != self._is_up:
            self._is_up = up
            reason = "" if why is None else why.developer_message or why.message
            _log.warning("the audit log is written again" if up else f"the audit log waits for its store: {reason}")


async def put(store: AuditStore, ring: KeyRing, chain: str, entry: Entry) -> None:
    """Writes one entry durably, for somebody who has no log open, such as a verb. Others may write to the same chain at
    the same time: whoever was too late begins again behind them. Raises StoreDown."""
    line, times = line_of(entry, Fingerprints(ring).of, with_input=False), (entry.at, entry.at)
    while True:
        position = await end_of(store, chain)
        block = signed(ring, position, chain, times, [line])
        if await store.add(block, sealed(ring, HEAD, chain, position_after(position, block))):
            return


async def end_of(store: AuditStore, name: str) -> ChainPosition:
    """Where the chain goes on: after its head, and after whatever stands behind that."""
    chain = await store.chain(name)
    marks = [mark for mark in (chain.head, chain.anchor) if mark is not None]
    last = max(marks, key=lambda mark: mark.number, default=None)
    position = ChainPosition() if last is None else ChainPosition(last.number, last.mac, last.count, last.at)
    # There are some where somebody has put an older head back: the chain goes on behind them, and none is lost.
    while blocks := await store.blocks(name, position.number, BLOCKS_AT_ONCE):
        for block in blocks:
            position = position_after(position, block)
    return position
