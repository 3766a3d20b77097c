"""The ledger in a SQLite file: WAL, a flush for every commit, one process that writes.

Because one process writes, its writer thread may look before it leaps: a SELECT and the INSERT after it are one step.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ...model.errors import SetupError
from ...model.judge import Judged, Verdict, claimed, frees_key, is_accepted, is_news, judge, settle, verdict_of
from ...model.lifecycle import ENDED, State
from ...model.record import CallKey, CallRecord, Ending, NewCall, Ran
from ...model.session import Event, RequestEvent, Session, SessionStanding
from ...model.worker import WorkerRecord
from ...model.writes import (
    Answer,
    ByNumber,
    CallState,
    Cancel,
    Claimant,
    Decision,
    GiveUp,
    GoBack,
    HandBack,
    HeartbeatWrite,
    LeaseTerms,
    NodeHandBack,
    Resolve,
    Restart,
    WaitForAccount,
    Write,
)
from ...supervision import Supervisor
from ..blocks import ListStep, NewBlock
from ..fresh_numbers import fresh_numbers
from ..hints import Hints, Topic, came, changed
from ..read_turns import ReadTurns
from ..rollups import added_up, rollup_values
from ..values import (
    LEASE_TERMS,
    MOST_BYTES,
    RETENTION,
    ROLLUPS_KEPT_S,
    Begun,
    ClaimFilter,
    Filter,
    Held,
    Note,
    NotedCalls,
    Retention,
    Rollup,
    StoreDown,
    StoredQuestion,
    UpstreamRecord,
    Usage,
    WentBack,
)
from ..write_behind import WriteBehind, in_blocks, in_portions, size_of
from . import blocks, rows, sessions
from .file import MEMORY, lock, opened
from .rows import SQL, PendingHints
from .trust import SqliteApiKeys, SqliteAudit, SqliteSealed
from .writer import HintingWriter, overwriting

T = TypeVar("T")
_log = logging.getLogger("toolyard.ledger")
TRY_EVERY_S = 10.0
MERGED_AFTER_S = 10.0
"""How old small blocks are before they are merged: in a busy moment the next flush makes larger ones anyway."""
ERASED_AT_ONCE = 50
"""Blocks that are looked through before others get their turn."""
TRIED_BYTES = 8192
"""What needs pages of its own, as a call may."""


class SqliteStore:
    """A ledger in one file, or in memory. Implements `contract.Store`, whose methods say what each of these does."""

    shared = False

    def __init__(
        self,
        path: str,
        node: str,
        retention: Retention = RETENTION,
        terms: LeaseTerms = LEASE_TERMS,
        now: Callable[[], float] = time.time,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._path, self.node, self._now = Path(path), node, now
        self._retention, self._terms = retention, terms
        self._turns = ReadTurns(1)
        self.hints = Hints()
        self._writer = HintingWriter(self.hints, supervisor or Supervisor())
        self.audit, self.sealed = SqliteAudit(self._writer), SqliteSealed(self._writer, now)
        self.api_keys = SqliteApiKeys(self._writer, self.hints, now)
        self.behind = WriteBehind(self._write_behind, now)
        self._slots: Counter[str] = Counter()
        self._tried_at = 0.0
        self._file: tuple[int, int] | None = None
        """Which one it is, where it is one."""

    async def open(self) -> None:
        self._lock = await lock(self._path)
        try:
            self._writer.start(opened(self._path))
            self._file = None if str(self._path) == MEMORY else _identity(self._path)
        except SetupError:
            self._lock.close()
            raise

    def tell(self, topic: Topic, key: str | int = "") -> None:
        self.hints.tell(topic, key)

    async def close(self) -> None:
        await self._writer.close()
        self._lock.close()

    async def check(self) -> None:
        """Stands in line like any write. Only a real one shows whether there is room on the disk, so after one that
        failed, and from time to time, this makes one of the size of a call."""
        self._refuse_gone()
        now = time.monotonic()
        if not self._writer.has_failed and now < self._tried_at + TRY_EVERY_S:
            await self._writer.write(lambda cursor: None)
            return
        await self._writer.write(lambda cursor: cursor.execute(SQL.check, (TRIED_BYTES,)))
        self._writer.has_failed, self._tried_at = False, now

    def _refuse_gone(self) -> None:
        """A file that somebody has removed, or put another in the place of, takes writes that nobody will ever read.
        Raises StoreDown."""
        if self._file is None:
            return
        try:
            is_there = _identity(self._path) == self._file
        except OSError:
            is_there = False
        if not is_there:
            raise StoreDown(
                "The server cannot record calls now", retry_after_ms=1000,
                developer_message=f"the ledger: {self._path} was removed or replaced; bring it back, or start again",
            )  # fmt: skip

    # -- calls -------------------------------------------------------------------------------------

    async def begin(self, call: NewCall, most_pending: int | None = None) -> Begun:
        def write(cursor: apsw.Cursor, told: PendingHints) -> Begun:
            known = rows.known(cursor, call.key) if call.keyed else None
            if known is not None:
                return known
            if most_pending is not None:
                rows.refuse_long_queue(cursor, call, most_pending)
            return Begun(self._insert(cursor, call, told))

        return await self._writer.change(write)

    async def begin_noted(self, call: NewCall, noted: NotedCalls, most_pending: int | None = None) -> Begun:
        whose = (noted.kind, call.key.tenant, call.key.subject)

        def write(cursor: apsw.Cursor, told: PendingHints) -> Begun:
            now = self._now()
            for name in noted.names:
                seq = rows.first(cursor, SQL.note, (*whose, name, now))
                there = None if seq is None else rows.glance(cursor, "seq = ?", (int(seq),))
                if there is not None and call.is_like(there):
                    return Begun(0, known=there)
            if most_pending is not None:
                rows.refuse_long_queue(cursor, call, most_pending)
            made = self._insert(cursor, call, told)
            cursor.execute(SQL.put_note, (*whose, noted.names[0], b"%d" % made, None, None, now + noted.keep_s))
            return Begun(made)

        return await self._writer.change(write)

    async def record(self, calls: Sequence[Ran]) -> int:
        return await self._write_behind(*in_blocks(calls, self._now()))

    async def _write_behind(self, new: Sequence[NewBlock], calls: Sequence[Ran]) -> int:
        first, *rest = in_portions(calls) or [[]]
        lost = await self._write_portion(new, first)
        return lost + sum([await self._write_portion([], portion) for portion in rest])

    async def _write_portion(self, new: Sequence[NewBlock], calls: Sequence[Ran]) -> int:
        now = self._now()

        def write(cursor: apsw.Cursor) -> None:
            for block in new:
                blocks.write(cursor, block, now)
            rows.record(cursor, calls, now)

        try:
            await self._writer.write(write, sum(map(size_of, calls)))
        except StoreDown:
            raise
        except Exception:  # whatever is wrong with one of them
            if len(new) + len(calls) == 1:
                _log.exception("calls that have run cannot be written")
                return sum(len(block.lines) for block in new) + len(calls)
            lost = [await self._write_portion([block], []) for block in new]
            return sum(lost) + sum([await self._write_portion([], [call]) for call in calls])
        return 0

    async def finish(self, seq: int, attempt: int, ending: Ending) -> CallRecord | None:
        """The one write about a call that comes with every call, so it is a single conditional statement: `judge` of a
        `Finish`, in SQL."""

        def write(cursor: apsw.Cursor, told: PendingHints) -> CallRecord | None:
            values = rows.ending(cursor, ending, self._now())
            ended = cursor.execute(SQL.finish, (*values, seq, attempt, self.node)).fetchone()
            if ended is None:  # the fence: that attempt does not hold the call any more
                return rows.glance(cursor, "seq = ?", (seq,))
            session: Any = ended[0]
            if session is not None:
                sessions.announce(cursor, told, seq, was_open=True, now=self._now())
            if frees_key(session, ending):
                cursor.execute(SQL.release_key, {"seq": seq})
            told.add((Topic.ENDED, seq))
            return None

        return await self._whole(await self._writer.change(write, ending.size))

    async def hand_back(self, seq: int, attempt: int) -> None:
        await self._judged(NodeHandBack(seq, attempt, self.node))

    async def cancel(self, seq: int) -> Judged | None:
        return await self._judged(Cancel(seq))

    async def release_wait(self, decision: Decision) -> Judged | None:
        return await self._judged(decision)

    async def hold(self, wait: WaitForAccount) -> Judged | None:
        return await self._judged(wait)

    async def find(self, key: CallKey) -> Begun | None:
        return await self._writer.write(lambda cursor: rows.known(cursor, key))

    async def get(self, tenant: str, subject: str, call_id: str, family: str | None = None) -> CallRecord | None:
        one = "" if family is None else "AND +family = ? "
        where = f"+tenant = ? AND +subject = ? AND call_id = ? {one}ORDER BY seq DESC LIMIT 1"  # by the id's index
        values = (tenant, subject, call_id, *(() if family is None else (family,)))
        wanted = Filter(tenant, subject, call_id=call_id, limit=1, family=family)

        def read(cursor: apsw.Cursor) -> CallRecord | None:
            row = rows.glance(cursor, where, values)
            return next(iter(blocks.listed(cursor, wanted, [row] if row else []).calls), None)

        return await self._whole(await self._read(read))

    async def row(self, seq: int) -> CallRecord | None:
        return await self._whole(await self.glance(seq))

    async def glance(self, seq: int) -> CallRecord | None:
        return await self._writer.write(
            lambda cursor: rows.glance(cursor, "seq = ?", (seq,)) or blocks.numbered(cursor, seq)
        )

    async def _whole(self, call: CallRecord | None) -> CallRecord | None:
        if call is None or not call.is_cut:
            return call
        async with self._turns.turn(call.key.tenant, call.key.subject), self._turns.step:
            return await self._writer.write(lambda cursor: rows.call(cursor, "seq = ?", (call.seq,)))

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        def read(cursor: apsw.Cursor, wanted: Filter) -> ListStep:
            where, values = rows.where(wanted)
            found = cursor.execute(f"{SQL.listed} WHERE {where} ORDER BY seq DESC LIMIT {wanted.limit:d}", values)
            return blocks.listed(cursor, wanted, list(map(rows.made, found)))

        return await self._turns.listed(wanted, lambda left: self._read(lambda cursor: read(cursor, left)))

    async def waiting_calls(self, waiting_for: str, tenant: str | None, limit: int) -> tuple[list[int], int]:
        values = {"waiting_for": waiting_for, "tenant": tenant, "limit": limit}
        found: list[Any] = await self._writer.write(lambda cursor: cursor.execute(SQL.waiting_calls, values).fetchall())
        return [seq for seq, _ in found], found[0][1] if found else 0

    async def counted(self, newest: int) -> dict[State, int]:
        return await self._read(lambda cursor: blocks.counted(cursor, newest))

    async def unstarted(self, limit: int) -> list[CallRecord]:
        where, values = f"seq IN ({SQL.unstarted}) ORDER BY seq", {"node": self.node, "limit": limit}
        return await self._writer.write(lambda cursor: rows.calls(cursor, where, values))

    async def restart(self, seq: int, attempt: int) -> int | None:
        restarted = await self._judged(Restart(seq, attempt, self.node))
        return restarted.standing.attempt if is_accepted(restarted) else None

    async def give_up(self, seq: int, attempt: int, ending: Ending) -> bool:
        return is_accepted(await self._judged(GiveUp(seq, attempt, self.node, ending)))

    async def resolve(self, seq: int, ending: Ending | None) -> CallRecord | None:
        return await self.row(seq) if is_accepted(await self._judged(Resolve(seq, ending))) else None

    async def note_progress(self, notes: Sequence[tuple[int, int, bytes]]) -> None:
        values = [(progress, seq, attempt) for seq, attempt, progress in notes]
        await self._writer.write(lambda cursor: cursor.executemany(SQL.note_progress, values))

    async def expire(self, limit: int) -> int:
        def write(cursor: apsw.Cursor, told: PendingHints) -> int:
            now = self._now()
            due = cursor.execute(SQL.overdue, {"now": now, "limit": limit}).fetchall()
            for (seq,) in due:
                before = rows.standing(cursor, "seq = ?", (seq,))
                after = settle(before, now, self._terms) if before else None
                if before is not None and after is not None:
                    self._save(cursor, told, before, after)
            if cursor.execute(SQL.drop_dead_workers, (now,)).fetchall():
                told.add((Topic.WORKERS, ""))
            return len(due)

        return await self._writer.change(write)

    async def sweep(self, limit: int) -> int:
        now, keep = self._now(), self._retention

        def write(cursor: apsw.Cursor) -> int:
            swept = rows.sweep(cursor, now, now - keep.calls_s, keep.key_ttl_s, limit)
            cursor.execute("DELETE FROM rollups WHERE minute < ?", ((now - ROLLUPS_KEPT_S) // 60,))
            return swept + blocks.sweep(cursor, now - keep.calls_s, limit)

        return await self._writer.write(write)

    async def merge(self) -> int:
        now = self._now()
        return await self._writer.write(
            lambda cursor: blocks.merge(cursor, now - MERGED_AFTER_S, self._retention.calls_s)
        )

    async def erase(self, tenant: str | None, user_id: str) -> int:
        """Nothing of what is removed is left in the file, nor in the log beside it, `-wal`."""
        if self.behind.is_waiting:
            await self.behind.flush()
        erased = await self._writer.write(overwriting(partial(rows.erase, tenant=tenant, user_id=user_id)))
        after: int | None = 0
        while after is not None:
            erase = partial(blocks.erase, tenant=tenant, user_id=user_id, after=after, limit=ERASED_AT_ONCE)
            some, after = await self._writer.write(overwriting(erase))
            erased += some
        await self._writer.clear_traces()
        return erased

    # -- requests ----------------------------------------------------------------------------------

    async def superseded(self, offers: Sequence[str], limit: int) -> list[CallRecord]:
        def read(cursor: apsw.Cursor) -> list[CallRecord]:
            return [
                call for seq in rows.superseded(cursor, offers, limit) for call in rows.calls(cursor, "seq = ?", (seq,))
            ]

        return await self._writer.write(read)

    async def claim(self, wanted: ClaimFilter) -> list[CallRecord]:
        def write(cursor: apsw.Cursor, told: PendingHints) -> list[CallRecord]:
            now, claims, left = self._now(), list[CallRecord](), wanted.most_bytes
            where, values = rows.claimable(cursor, wanted)
            found = f"{where} ORDER BY seq LIMIT ?"
            while waiting := rows.standings(cursor, found, (*values, wanted.limit - len(claims))):
                for before in waiting:
                    settled = settle(before, now, self._terms)
                    taken = Judged(claimed(before, wanted.who.holder, now, self._terms))
                    self._save(cursor, told, before, settled or taken)
                    if settled is None:
                        claims += rows.calls(cursor, "seq = ?", (before.seq,))
                        left -= claims[-1].size
                        if left <= 0:
                            return claims
            return claims

        return await self._writer.change(write)

    async def beat(self, beats: Sequence[HeartbeatWrite]) -> list[Verdict | None]:
        def write(cursor: apsw.Cursor, told: PendingHints) -> list[Verdict | None]:
            return [verdict_of(self._judge(cursor, told, beat)) for beat in beats]

        return await self._writer.change(write)

    async def answer(self, answer: Answer) -> Verdict | None:
        return verdict_of(await self._judged(answer))

    async def leave(self, hand_back: HandBack) -> Verdict | None:
        return verdict_of(await self._judged(hand_back))

    async def request(self, who: Claimant, session: str, request: str) -> CallRecord | None:
        def read(cursor: apsw.Cursor) -> CallRecord | None:
            found = rows.standing(cursor, "session = ? AND request = ?", (session, request))
            return rows.glance(cursor, "seq = ?", (found.seq,)) if found and who.may_see(found) else None

        return await self._whole(await self._writer.write(read))

    async def requests(self, wanted: ClaimFilter) -> list[CallRecord]:
        def read(cursor: apsw.Cursor) -> list[CallRecord]:
            where, values = rows.claimable(cursor, wanted)
            return rows.calls_within(
                cursor, f"{where} ORDER BY seq LIMIT ?", (*values, wanted.limit), wanted.most_bytes
            )

        return await self._writer.write(read)

    # -- sessions ----------------------------------------------------------------------------------

    async def create_session(self, session: Session) -> None:
        now = self._now()
        tools, metadata = rows.encode(session.tools), rows.encode(session.metadata)

        def write(cursor: apsw.Cursor) -> None:
            cursor.execute(SQL.create_session, (session.id, session.tenant, session.subject, tools, metadata, now))
            cursor.execute(SQL.count_session, (session.id, now))

        await self._writer.write(write)

    async def session(self, tenant: str, subject: str, id: str) -> Session | None:
        found = await self._writer.write(lambda cursor: sessions.session(cursor, id))
        return found if found and (found.tenant, found.subject) == (tenant, subject) else None

    async def add_turn(self, session: str, calls: Sequence[NewCall]) -> list[Begun]:
        def write(cursor: apsw.Cursor, told: PendingHints) -> list[Begun]:
            there = sessions.refuse_conflicts(cursor, calls)
            turn = sessions.next_turn(cursor, session) if any(call.key not in there for call in calls) else 0
            begun = list[Begun]()
            for call in calls:
                call.turn = turn
                known = there.get(call.key) or rows.known(cursor, call.key)
                begun.append(known or Begun(self._insert(cursor, call, told)))
            return begun

        return await self._writer.change(write)

    async def session_standing(self, tenant: str, subject: str, id: str) -> SessionStanding | None:
        row: Any = await self._writer.write(
            lambda cursor: cursor.execute(SQL.session_standing, (id, tenant, subject)).fetchone()
        )
        return None if row is None else SessionStanding(id, *row)

    async def session_metadata(self, id: str) -> bytes:
        return await self._writer.write(lambda cursor: rows.first(cursor, SQL.session_metadata, (id,))) or b"{}"

    async def request_standings(self, session: str) -> list[RequestEvent]:
        found: list[Any] = await self._writer.write(
            lambda cursor: cursor.execute(SQL.request_standings, (session,)).fetchall()
        )
        return [RequestEvent(request, tool, State(state), *rest) for request, tool, state, *rest in found]

    async def session_requests(
        self, session: str, turn: int | None, after: int = 0, most_bytes: int = MOST_BYTES
    ) -> list[CallRecord]:
        of_turn = "" if turn is None else f" AND turn = {turn:d}"
        where = f"session = ?{of_turn} AND seq > ? ORDER BY seq"
        return await self._writer.write(lambda cursor: rows.calls_within(cursor, where, (session, after), most_bytes))

    async def events(self, session: str, after: int, limit: int) -> list[Event]:
        return await self._writer.write(
            lambda cursor: [Event(*row) for row in cursor.execute(SQL.events, (session, after, limit))]
        )

    # -- workers -----------------------------------------------------------------------------------

    async def put_worker(self, worker: WorkerRecord) -> None:
        until = self._now() + self._terms.lease_s
        values = {"tenant": worker.tenant, "subject": worker.subject, "name": worker.name, "tools": worker.tools}
        await self._writer.write(
            lambda cursor: cursor.execute(SQL.put_worker, {**values, "lease_until": until}).fetchall()
        )
        self.hints.tell(Topic.WORKERS)

    async def beat_worker(self, tenant: str, subject: str, name: str) -> bool:
        now = self._now()
        values = (now + self._terms.lease_s, tenant, subject, name, now)
        return await self._writer.write(lambda cursor: cursor.execute(SQL.beat_worker, values).fetchone() is not None)

    async def drop_worker(self, tenant: str, subject: str, name: str) -> bool:
        values = (tenant, subject, name)
        dropped = await self._writer.write(
            lambda cursor: cursor.execute(SQL.drop_worker, values).fetchone() is not None
        )
        self.hints.tell(Topic.WORKERS)
        return dropped

    async def workers(self) -> list[WorkerRecord]:
        now = self._now()
        return await self._writer.write(
            lambda cursor: [WorkerRecord(*row) for row in cursor.execute(SQL.workers, (now,))]
        )

    # -- upstreams ---------------------------------------------------------------------------------

    async def put_upstream(self, upstream: UpstreamRecord) -> bool:
        said = {"name": upstream.name, "address": upstream.address, "listing": upstream.listing}

        def write(cursor: apsw.Cursor, told: PendingHints) -> bool:
            is_news = rows.first(cursor, SQL.upstream_is, said) is None
            cursor.execute(SQL.put_upstream, {**said, "now": self._now()})
            if is_news:
                told.add((Topic.UPSTREAMS, ""))
            return is_news

        return await self._writer.change(write, len(upstream.listing))

    async def upstreams(self) -> list[UpstreamRecord]:
        return await self._writer.write(lambda cursor: [UpstreamRecord(*row) for row in cursor.execute(SQL.upstreams)])

    async def drop_upstream(self, name: str) -> bool:
        def write(cursor: apsw.Cursor, told: PendingHints) -> bool:
            was_there = rows.first(cursor, SQL.drop_upstream, (name,)) is not None
            if was_there:
                told.add((Topic.UPSTREAMS, ""))
            return was_there

        return await self._writer.change(write)

    # -- questions, notes, events of calls ---------------------------------------------------------

    async def ask(self, seq: int, attempt: int, name: str, question: bytes) -> bytes | None:
        held = (seq, attempt, self.node)
        return await self._writer.change(
            lambda cursor, told: sessions.ask(cursor, told, held, name, question, now=self._now())
        )

    async def answer_questions(self, seq: int, answers: Mapping[str, bytes]) -> None:
        await self._writer.change(lambda cursor, told: sessions.answer(cursor, told, seq, answers, self._now()))

    async def questions(self, seq: int) -> list[StoredQuestion]:
        return await self._writer.write(
            lambda cursor: [StoredQuestion(*row) for row in cursor.execute(SQL.questions, (seq,))]
        )

    async def put_note(self, note: Note, keep_s: float) -> None:
        values = rows.note_values(note, self._now() + keep_s)
        await self._writer.write(lambda cursor: cursor.execute(SQL.put_note, values))

    async def add_note(self, note: Note, keep_s: float) -> bool:
        now = self._now()
        values = (*rows.note_values(note, now + keep_s), now)
        return bool(await self._writer.write(lambda cursor: rows.first(cursor, SQL.add_note, values)))

    async def note(self, kind: str, tenant: str, subject: str, name: str) -> bytes | None:
        values = (kind, tenant, subject, name, self._now())
        return await self._writer.write(lambda cursor: rows.first(cursor, SQL.note, values))

    async def drop_note(self, kind: str, tenant: str, subject: str, name: str, data: bytes | None = None) -> bool:
        values = {"kind": kind, "tenant": tenant, "subject": subject, "name": name, "data": data, "now": self._now()}
        return bool(await self._writer.write(lambda cursor: rows.first(cursor, SQL.drop_note, values)))

    async def add_call_events(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        values = [{"seq": seq, "number": number, "data": data} for seq, number, data in events]
        await self._writer.write(lambda cursor: cursor.executemany(SQL.add_call_event, values))

    async def call_events(self, seq: int, after: int) -> list[tuple[int, bytes]]:
        return await self._writer.write(lambda cursor: rows.call_events(cursor, seq, after))

    # -- what nodes share: there is one ---------------------------------------------------------------

    async def take_slot(self, tool: str, most: int) -> bool:
        if self._slots[tool] >= most:
            return False
        self._slots[tool] += 1
        return True

    async def give_slot(self, tool: str) -> None:
        self._slots[tool] -= 1

    async def go_back(self, forgotten: Sequence[str], last_number: int | None = None) -> WentBack:
        def write(cursor: apsw.Cursor, told: PendingHints) -> WentBack:
            numbers, ended, going_on = fresh_numbers(self._now()), 0, 0
            cursor.execute(SQL.count_on, (numbers.call if last_number is None else last_number,))
            cursor.execute(SQL.leave_gaps, (numbers.event,))
            cursor.executemany("DELETE FROM notes WHERE kind = ?", [(kind,) for kind in forgotten])
            living: list[Any] = cursor.execute(SQL.living_calls).fetchall()
            for (seq,) in living:
                judged = self._judge(cursor, told, GoBack(seq, numbers.attempt))
                is_over = judged is not None and judged.standing.state in ENDED
                ended, going_on = ended + is_over, going_on + (not is_over)
            return WentBack(ended, going_on)

        return await self._writer.change(write)

    async def share_usage(self, news: Sequence[Usage]) -> tuple[float, list[Usage]]:
        return self._now(), []

    async def put_rollups(self, rollups: Sequence[Rollup]) -> None:
        values = [rollup_values(each, self.node) for each in rollups]
        await self._writer.write(lambda cursor: cursor.executemany(SQL.put_rollup, values))

    async def rollups(self, since: int, until: int) -> list[Rollup]:
        found = await self._writer.write(lambda cursor: cursor.execute(SQL.rollups, (since, until)).fetchall())
        return added_up(found)

    async def count_held(self, what: Held, tenant: str, subject: str | None, most: int, besides: str = "") -> int:
        given = {"tenant": tenant, "subject": subject, "most": most, "besides": besides, "now": self._now()}
        return await self._writer.write(lambda cursor: rows.count_held(cursor, what, given))

    async def full(self, per_caller: int, per_tenant: int) -> tuple[set[tuple[str, str]], set[str]]:
        def read(cursor: apsw.Cursor) -> tuple[set[tuple[str, str]], set[str]]:
            callers: Any = cursor.execute(SQL.full_callers, (per_caller,)).fetchall()
            tenants: Any = cursor.execute(SQL.full_tenants, (per_tenant,)).fetchall()
            return set(callers), {tenant for (tenant,) in tenants}

        return await self._writer.write(read)

    # -- what they share ---------------------------------------------------------------------------

    async def _read(self, read: Callable[[apsw.Cursor], T]) -> T:
        """Reads calls, of which those are there, too, that are to be written behind."""
        if self.behind.is_waiting:
            await self.behind.flush()
        return await self._writer.write(read)

    def _insert(self, cursor: apsw.Cursor, call: NewCall, told: PendingHints) -> int:
        now = self._now()
        seq = rows.insert(cursor, call, self.node, now)
        if call.keyed:
            until = now + self._retention.key_ttl_s
            cursor.execute(SQL.take_key, (*rows.values(call.key), seq, call.fingerprint, until))
        told.update(came(call))
        if call.session is not None:
            sessions.announce(cursor, told, seq, was_open=False, now=now)
        return seq

    async def _judged(self, write: Write) -> Judged | None:
        return await self._writer.change(lambda cursor, told: self._judge(cursor, told, write))

    def _judge(self, cursor: apsw.Cursor, told: PendingHints, write: Write) -> Judged | None:
        """Between the look at the row and the write nobody else can come: there is one writer. No other node is ever
        alive beside this one, so a call under another node's name is held by nobody."""
        before = rows.standing_for(cursor, write)
        if before is None or not (isinstance(write, ByNumber) or write.who.may_touch(before)):
            return None
        judged = judge(before, write, self._now(), self._terms)
        if judged.changed:
            self._save(cursor, told, before, judged)
        return judged

    def _save(self, cursor: apsw.Cursor, told: PendingHints, before: CallState, judged: Judged) -> None:
        rows.save(cursor, before, judged)
        after = judged.standing
        told.update(changed(before, after))
        if after.session is not None and is_news(before, after):
            sessions.announce(cursor, told, after.seq, was_open=before.state not in ENDED, now=self._now())


def _identity(path: Path) -> tuple[int, int]:
    """Of a file, by whichever name. Raises OSError."""
    found = os.stat(path)
    return found.st_dev, found.st_ino
