"""The ledger in PostgreSQL: any number of nodes share it.

Writes of one kind that come at the same time are made together, each kind by one or a few statements for all of them.
What depends on the time is judged by the database's clock, `ledger_now()`, after the rows are locked. This module says
which write goes which way; each way is a module beside it: `connections` (a pool, and writes whose fate is not known),
`batches` (writes made together), `begin`, `node_calls`, `requests` and `questions` (about calls), `judged_writes`
(under lock, by `model.judge`), `session_events`, `shared_limits`, `holdings`, `trust`, `lease` (a sign of life),
`erasures` (what was erased, for nodes that had more to write), `copies` (a ledger that was brought back) and
`notifications` (what other nodes hear).
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ...model.errors import ToolyardError
from ...model.judge import Judged, Verdict, is_accepted
from ...model.lifecycle import State
from ...model.record import CallKey, CallRecord, Ending, NewCall, Ran
from ...model.session import Event, RequestEvent, Session, SessionStanding, session_of
from ...model.worker import WorkerRecord, whose_of
from ...model.writes import (
    DIRECT,
    Answer,
    ByNumber,
    Cancel,
    Claimant,
    Decision,
    Finish,
    GiveUp,
    HandBack,
    HeartbeatWrite,
    LeaseTerms,
    NodeHandBack,
    Resolve,
    Restart,
    WaitForAccount,
)
from ...supervision import SupervisedTask, Supervisor
from ..blocks import ListStep, NewBlock
from ..hints import Hints, Topic
from ..read_turns import ReadTurns
from ..rollups import added_up, rollup_values
from ..values import (
    LEASE_TERMS,
    MOST_BYTES,
    RETENTION,
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
from ..write_behind import WriteBehind, in_blocks, in_portions
from . import begin as beginning
from . import blocks, copies, erasures, holdings, queries
from . import node_calls as running
from . import questions as asking
from . import requests as working
from .batches import Batches
from .begin import Beginning, BeginTerms
from .connections import Connection, Pool, store_down
from .erasures import PastErasure, WrittenBehind
from .lease import NOT_FLUSHED, Lease
from .notifications import HintingPool, Listener, Poller, Sender, channel_of
from .rows import SQL, PendingHints, call_of, columns, encode, found_by, key_values, note_values, standing_of, text
from .schema import migrate
from .shared_limits import NodeSlots, share_usage
from .trust import PostgresApiKeys, PostgresAudit, PostgresSealed

T = TypeVar("T")
CONNECTIONS, UNFLUSHED_CONNECTIONS = 4, 2
LANES = 2
"""Of heartbeats and answers: workers send hundreds of them at once."""
TRY_EVERY_S = 10.0
FEW_CLAIMS = 8
LONG_READS = 2
"""How many connections are taken by long reads at most, so that there are others for what is small."""
SNAPSHOT = "repeatable_read"
_log = logging.getLogger("toolyard.ledger")


class PostgresStore:
    """One node's way to a ledger that many share. Implements `contract.Store`, whose methods say what each of these
    does."""

    shared = True

    def __init__(
        self,
        url: str,
        node: str,
        retention: Retention = RETENTION,
        terms: LeaseTerms = LEASE_TERMS,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor or Supervisor()
        self._url, self.node, self._retention, self._terms = url, node, retention, terms
        self._begin_terms = BeginTerms(node, terms.lease_s, retention.key_ttl_s)
        self.hints = Hints()
        self._link, self._unflushed = Pool(url, CONNECTIONS), Pool(url, UNFLUSHED_CONNECTIONS, NOT_FLUSHED)
        self._lease, self._slots = Lease(url, node, terms.lease_s), NodeSlots(self._unflushed, node)
        self._sender = Sender(self._unflushed, node)
        self._ledger = HintingPool(self._link, self.hints, self._sender)
        self.audit, self.sealed = PostgresAudit(self._link), PostgresSealed(self._ledger)
        self.api_keys = PostgresApiKeys(self._ledger, self._unflushed, self.hints)
        self._begins = Batches("calls that begin", self._begin_all, lambda begun: len(begun.call.input))
        self._records = Batches("calls that ran", self._record_all)
        self.behind = WriteBehind(self._write_waiting, time.time)
        self._finishes = Batches("calls that end", self._finish_all, lambda done: done.ending.size)
        self._beats = Batches("heartbeats", self._beat_all, lanes=LANES)
        self._answers = Batches("answers", self._answer_all, _answer_size, LANES)
        self._writes = Batches("decisions", self._judge_all)
        self._claiming = asyncio.Lock()
        self._turns = ReadTurns(LONG_READS)
        self._hearing: list[SupervisedTask] = []
        self._tried_at = 0.0
        self._written: list[WrittenBehind] = []
        """What was written behind since it was last looked whose calls were erased."""
        self._known_erasures: frozenset[PastErasure] = frozenset()
        """What this node has seen of them: what ends after that came after the erasure, whatever a clock says."""

    async def open(self) -> None:
        channel = channel_of(await migrate(self._url))
        await self._unflushed.write(lambda connection, _: connection.execute(SQL.renew, self.node, self._terms.lease_s))
        found, _ = await self._link.read(partial(erasures.remembered, node=self.node))
        self._known_erasures = frozenset(found)
        keep = self._supervisor
        self._lease.start(keep)  # nothing after this fails
        for batches in self._batches:
            batches.start(keep)
        self._sender.channel = channel
        self._hearing = [
            keep.task("hints to other nodes", self._sender.run),
            keep.task("hints of other nodes", Listener(self._url, self.node, self.hints, channel).run),
            keep.task("a look at other nodes' writes", Poller(self._link, self.hints).run),
        ]

    def tell(self, topic: Topic, key: str | int = "") -> None:
        self._ledger.tell({(topic, key)})

    async def close(self) -> None:
        for batches in self._batches:
            await batches.close()
        for task in self._hearing:
            await task.stop()
        await self._sender.send()
        await self._lease.stop()
        try:
            await self._link.write(lambda connection, _: connection.execute(SQL.leave, self.node))
        except StoreDown as down:
            _log.warning("the ledger could not be told that this node is gone: %s", down.developer_message)
        await self._link.close()
        await self._unflushed.close()

    async def check(self) -> None:
        """What a write needs is there: the tables' locks, and, looked at after a write that failed and from time to
        time, room on the disk."""
        now = time.monotonic()
        is_due = self._link.has_failed or now >= self._tried_at + TRY_EVERY_S
        await self._link.write(partial(self._check, really=is_due))
        if is_due:
            self._link.has_failed, self._tried_at = False, now

    async def _check(self, connection: Connection, again: bool, really: bool) -> None:
        if not await connection.fetchval(SQL.check):
            raise store_down("it can only be read")
        async with connection.transaction():
            await connection.execute(SQL.check_locks)
            if really:
                await connection.execute(SQL.renew, self.node, self._terms.lease_s)

    @property
    def _batches(self) -> tuple[Batches[Any, Any], ...]:
        return self._begins, self._records, self._finishes, self._beats, self._answers, self._writes

    # -- calls -------------------------------------------------------------------------------------

    async def begin(self, call: NewCall, most_pending: int | None = None) -> Begun:
        if call.session is None or call.session == DIRECT:
            return await self._begins.submit_one(Beginning(call, most_pending))
        made = Beginning(call, most_pending)
        await self._link.read(partial(beginning.number, calls=[made]))
        await self._ledger.write(
            partial(beginning.begin_in_session, session=call.session, call=made, terms=self._begin_terms)
        )
        return _begun(made)

    async def begin_noted(self, call: NewCall, noted: NotedCalls, most_pending: int | None = None) -> Begun:
        made = Beginning(call, most_pending)
        await self._link.read(partial(beginning.number, calls=[made]))
        await self._ledger.write(partial(beginning.begin_noted, call=made, noted=noted, terms=self._begin_terms))
        return _begun(made)

    async def record(self, calls: Sequence[Ran]) -> int:
        return await self._write_behind(*in_blocks(calls, time.time()), time.time())

    async def _write_waiting(self, new: Sequence[NewBlock], calls: Sequence[Ran]) -> int:
        return await self._write_behind(new, calls, self.behind.writes_since)

    async def _write_behind(self, new: Sequence[NewBlock], calls: Sequence[Ran], since: float) -> int:
        """Blocks first, then the rows of what is too large for one; and nothing of users who were erased meanwhile."""
        failed, written = 0, WrittenBehind(since)
        self._written.append(written)
        for block in new:
            numbers = [seq for (seq,) in await self._ledger.fetch(SQL.numbers, len(block.lines))]
            try:
                ready = await blocks.ready(block, numbers)
                await self._link.write(partial(blocks.write, block=ready, callers=block.callers, now=time.time()))
                written.ends.append(ready.last)
            except StoreDown:
                raise
            except Exception:  # whatever is wrong with it, the others are written
                _log.exception("calls that have run cannot be written")
                failed += len(block.lines)
        for some in in_portions(calls):
            numbers = await self._records.submit(some)
            written.rows += [(seq, call) for seq, call in zip(numbers, some, strict=True) if seq]
            failed += numbers.count(0)
        await self._erase_late()
        return failed

    async def _erase_late(self) -> None:
        """Takes out again what was written of users whom another node has erased before it was."""
        try:
            found, now = await self._link.read(partial(erasures.remembered, node=self.node))
            # One that is yet to come, by a clock that was set back meanwhile, tells nothing about what ended before it.
            if new := [each for each in found if each not in self._known_erasures and each.at <= now]:
                is_gone, offset = partial(erasures.is_erased, new), now - time.time()
                ends = [last for written in self._written for last in written.ends]
                rows = [seq for written in self._written for seq in written.gone_rows(is_gone, offset)]
                await self._link.write(partial(blocks.erase_from, ends=ends, is_gone=is_gone))
                await self._link.write(lambda connection, _: connection.execute(SQL.drop_calls, rows))
            self._written.clear()
            self._known_erasures = frozenset(found)
        except StoreDown as down:  # after the next write, then
            _log.warning("whether a user was erased meanwhile is not known yet: %s", down.developer_message)

    async def finish(self, seq: int, attempt: int, ending: Ending) -> CallRecord | None:
        return await self._finishes.submit_one(Finish(seq, attempt, self.node, ending))

    async def hand_back(self, seq: int, attempt: int) -> None:
        await self._judged(NodeHandBack(seq, attempt, self.node))

    async def cancel(self, seq: int) -> Judged | None:
        return await self._judged(Cancel(seq))

    async def release_wait(self, decision: Decision) -> Judged | None:
        return await self._judged(decision)

    async def hold(self, wait: WaitForAccount) -> Judged | None:
        return await self._judged(wait)

    async def find(self, key: CallKey) -> Begun | None:
        wanted = [(value,) for value in (0, *key_values(key))]
        rows = await self._ledger.fetch(SQL.known, *wanted)
        return next((found_by(key, fingerprint, row) for _, _, fingerprint, *row in rows), None)

    async def get(self, tenant: str, subject: str, call_id: str, family: str | None = None) -> CallRecord | None:
        wanted = Filter(tenant, subject, call_id=call_id, limit=1, family=family)
        found = await self._read(wanted, *queries.newest(tenant, subject, call_id, family))
        return await self._whole(next(iter(found.calls), None))

    async def row(self, seq: int) -> CallRecord | None:
        return await self._whole(await self.glance(seq))

    async def glance(self, seq: int) -> CallRecord | None:
        async def read(connection: Connection) -> CallRecord | None:
            for row in await connection.fetch(SQL.glance, seq):
                return call_of(row)
            async with connection.transaction(isolation=SNAPSHOT):
                return await blocks.numbered(connection, seq)

        return await self._link.read(read)

    async def _whole(self, call: CallRecord | None) -> CallRecord | None:
        if call is None or not call.is_cut:
            return call
        async with self._turns.turn(call.key.tenant, call.key.subject), self._turns.step:
            rows = await self._ledger.fetch(SQL.row, call.seq)
        return call_of(rows[0]) if rows else None

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        return await self._turns.listed(wanted, lambda left: self._read(left, *queries.listed(left)))

    async def _read(self, wanted: Filter, sql: str, values: Sequence[Any]) -> ListStep:
        """Calls of rows, by a statement, and of blocks, of which those are there, too, that were to be written
        behind."""
        if self.behind.is_waiting:
            await self.behind.flush()

        async def read(connection: Connection) -> ListStep:
            async with connection.transaction(isolation=SNAPSHOT):
                rows = [call_of(row) for row in await connection.fetch(sql, *values)]
                return await blocks.listed(connection, wanted, rows)

        return await self._link.read(read)

    async def waiting_calls(self, waiting_for: str, tenant: str | None, limit: int) -> tuple[list[int], int]:
        found = await self._ledger.fetch(
            SQL.waiting_calls, waiting_for, None if tenant is None else text(tenant), limit
        )
        return [seq for seq, _ in found], found[0][1] if found else 0

    async def counted(self, newest: int) -> dict[State, int]:
        if self.behind.is_waiting:
            await self.behind.flush()

        async def read(connection: Connection) -> dict[State, int]:
            async with connection.transaction(isolation=SNAPSHOT):
                return await blocks.counted(connection, newest)

        return await self._link.read(read)

    async def unstarted(self, limit: int) -> list[CallRecord]:
        return [call_of(row) for row in await self._ledger.fetch(SQL.unstarted, self.node, limit)]

    async def restart(self, seq: int, attempt: int) -> int | None:
        restarted = await self._judged(Restart(seq, attempt, self.node))
        return restarted.standing.attempt if is_accepted(restarted) else None

    async def give_up(self, seq: int, attempt: int, ending: Ending) -> bool:
        return is_accepted(await self._judged(GiveUp(seq, attempt, self.node, ending)))

    async def resolve(self, seq: int, ending: Ending | None) -> CallRecord | None:
        return await self.row(seq) if is_accepted(await self._judged(Resolve(seq, ending))) else None

    async def note_progress(self, notes: Sequence[tuple[int, int, bytes]]) -> None:
        if notes:
            values = columns(notes)
            await self._unflushed.write(lambda connection, _: connection.execute(SQL.note_progress, self.node, *values))

    async def expire(self, limit: int) -> int:
        return await self._ledger.write(partial(running.expire, limit=limit, terms=self._terms))

    async def sweep(self, limit: int) -> int:
        return await self._link.write(
            partial(
                running.sweep,
                retention_s=self._retention.calls_s,
                key_ttl_s=self._retention.key_ttl_s,
                limit=limit,
            )
        )

    async def merge(self) -> int:
        return await self._link.write(partial(blocks.merge, kept_s=self._retention.calls_s))

    async def erase(self, tenant: str | None, user_id: str) -> int:
        await self._link.write(partial(erasures.remember, node=self.node, tenant=tenant, user_id=user_id))
        await self.behind.flush()
        user = text(user_id)
        erased: int = await self._link.write(lambda connection, _: connection.fetchval(SQL.erase, tenant, user))
        await self._link.write(lambda connection, _: connection.execute(SQL.erase_notes, tenant, user))
        after: int | None = 0
        while after is not None:
            work = partial(blocks.erase, tenant=tenant, user_id=user_id, after=after)
            some, after = await self._link.write(work)
            erased += some
        return erased

    # -- requests ----------------------------------------------------------------------------------

    async def claim(self, wanted: ClaimFilter) -> list[CallRecord]:
        """Large ones of this node go one after another: at the same time they would only be in each other's way."""
        work = partial(working.claim, wanted=wanted, token=secrets.randbits(62), terms=self._terms)
        if wanted.limit <= FEW_CLAIMS:
            return await self._ledger.write(work)
        async with self._claiming:
            return await self._ledger.write(work)

    async def beat(self, beats: Sequence[HeartbeatWrite]) -> list[Verdict | None]:
        return await self._beats.submit(beats)

    def answer(self, answer: Answer) -> Awaitable[Verdict | None]:
        return self._answers.submit_one(answer)

    async def leave(self, hand_back: HandBack) -> Verdict | None:
        return await self._answers.submit_one(hand_back)

    async def request(self, who: Claimant, session: str, request: str) -> CallRecord | None:
        for row in await self._ledger.fetch(SQL.request, text(session), text(request)):
            standing = standing_of(row)
            return await self.row(standing.seq) if who.may_see(standing) else None
        return None

    async def superseded(self, offers: Sequence[str], limit: int) -> list[CallRecord]:
        whose = [whose_of(offer) for offer in offers]
        return [call_of(row) for row in await self._ledger.fetch(SQL.superseded, offers, whose, limit)]

    async def requests(self, wanted: ClaimFilter) -> list[CallRecord]:
        sql, values = queries.requests(wanted)
        return [call_of(row) for row in await self._ledger.fetch(sql, *values)]

    # -- sessions ----------------------------------------------------------------------------------

    async def create_session(self, session: Session) -> None:
        values = (
            session.id, session.tenant, text(session.subject), encode(session.tools), encode(session.metadata),
        )  # fmt: skip
        await self._ledger.execute(SQL.create_session, *values)

    async def session(self, tenant: str, subject: str, id: str) -> Session | None:
        rows = await self._ledger.fetch(SQL.session, text(id), tenant, text(subject))
        return session_of(id, rows[0]) if rows else None

    async def add_turn(self, session: str, calls: Sequence[NewCall]) -> list[Begun]:
        made = [Beginning(call) for call in calls]
        if made:
            await self._link.read(partial(beginning.number, calls=made))
            await self._ledger.write(partial(beginning.add_turn, session=session, calls=made, terms=self._begin_terms))
        return [_begun(each) for each in made]

    async def session_standing(self, tenant: str, subject: str, id: str) -> SessionStanding | None:
        rows = await self._ledger.fetch(SQL.session_standing, text(id), tenant, text(subject))
        return SessionStanding(id, *rows[0]) if rows else None

    async def session_metadata(self, id: str) -> bytes:
        rows = await self._ledger.fetch(SQL.session_metadata, text(id))
        return rows[0][0] if rows else b"{}"

    async def request_standings(self, session: str) -> list[RequestEvent]:
        found = await self._ledger.fetch(SQL.request_standings, text(session))
        return [RequestEvent(request, tool, State(state), *rest) for request, tool, state, *rest in found]

    async def session_requests(
        self, session: str, turn: int | None, after: int = 0, most_bytes: int = MOST_BYTES
    ) -> list[CallRecord]:
        found = await self._ledger.fetch(SQL.session_requests, text(session), turn, after, most_bytes)
        return [call_of(row) for row in found]

    async def events(self, session: str, after: int, limit: int) -> list[Event]:
        return [Event(*row) for row in await self._ledger.fetch(SQL.events, text(session), after, limit)]

    # -- workers -----------------------------------------------------------------------------------

    async def put_worker(self, worker: WorkerRecord) -> None:
        values = (worker.tenant, text(worker.subject), text(worker.name), worker.tools, self._terms.lease_s)
        await self._ledger.execute(SQL.put_worker, *values)
        self._ledger.tell({(Topic.WORKERS, "")})

    async def beat_worker(self, tenant: str, subject: str, name: str) -> bool:
        return bool(await self._ledger.execute(SQL.beat_worker, tenant, text(subject), text(name), self._terms.lease_s))

    async def drop_worker(self, tenant: str, subject: str, name: str) -> bool:
        async def drop(connection: Connection, again: bool) -> bool:
            return bool(await connection.fetch(SQL.drop_worker, tenant, text(subject), text(name))) or again

        dropped = await self._link.write(drop)
        self._ledger.tell({(Topic.WORKERS, "")})
        return dropped

    async def workers(self) -> list[WorkerRecord]:
        return [WorkerRecord(*row) for row in await self._ledger.fetch(SQL.workers)]

    # -- upstreams ---------------------------------------------------------------------------------

    async def put_upstream(self, upstream: UpstreamRecord) -> bool:
        values = (text(upstream.name), text(upstream.address), upstream.listing)

        async def put(connection: Connection, again: bool, told: PendingHints) -> bool:
            is_news = bool(await connection.fetchval(SQL.put_upstream, *values)) or again
            if is_news:
                told.add((Topic.UPSTREAMS, ""))
            return is_news

        return await self._ledger.write(put)

    async def upstreams(self) -> list[UpstreamRecord]:
        return [UpstreamRecord(*row) for row in await self._ledger.fetch(SQL.upstreams)]

    async def drop_upstream(self, name: str) -> bool:
        async def drop(connection: Connection, again: bool, told: PendingHints) -> bool:
            was_there = bool(await connection.fetch(SQL.drop_upstream, text(name))) or again
            if was_there:
                told.add((Topic.UPSTREAMS, ""))
            return was_there

        return await self._ledger.write(drop)

    # -- questions, notes, events of calls ---------------------------------------------------------

    async def ask(self, seq: int, attempt: int, name: str, question: bytes) -> bytes | None:
        held = (seq, attempt, self.node)
        return await self._ledger.write(partial(asking.ask, held=held, name=name, question=question))

    async def answer_questions(self, seq: int, answers: Mapping[str, bytes]) -> None:
        await self._ledger.write(partial(asking.answer, seq=seq, answers=answers))

    async def questions(self, seq: int) -> list[StoredQuestion]:
        return [StoredQuestion(*row) for row in await self._ledger.fetch(SQL.questions, seq)]

    async def put_note(self, note: Note, keep_s: float) -> None:
        await self._ledger.execute(SQL.put_note, *note_values(note, keep_s))

    async def add_note(self, note: Note, keep_s: float) -> bool:
        return bool(await self._ledger.execute(SQL.add_note, *note_values(note, keep_s)))

    async def note(self, kind: str, tenant: str, subject: str, name: str) -> bytes | None:
        rows = await self._ledger.fetch(SQL.note, text(kind), tenant, text(subject), text(name))
        return rows[0][0] if rows else None

    async def drop_note(self, kind: str, tenant: str, subject: str, name: str, data: bytes | None = None) -> bool:
        async def drop(connection: Connection, again: bool) -> bool:
            was_there = await connection.fetchval(SQL.drop_note, text(kind), tenant, text(subject), text(name), data)
            return bool(was_there) or again

        return await self._link.write(drop)

    async def add_call_events(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        if events:
            await self._ledger.execute(SQL.add_call_events, *columns(events))

    async def call_events(self, seq: int, after: int) -> list[tuple[int, bytes]]:
        return [(number, data) for number, data in await self._ledger.fetch(SQL.call_events, seq, after)]

    # -- slots -------------------------------------------------------------------------------------

    async def take_slot(self, tool: str, most: int) -> bool:
        return await self._slots.take(tool, most)

    async def give_slot(self, tool: str) -> None:
        await self._slots.give(tool)

    async def go_back(self, forgotten: Sequence[str], last_number: int | None = None) -> WentBack:
        work = partial(copies.go_back, node=self.node, forgotten=forgotten, last_number=last_number, terms=self._terms)
        return await self._ledger.write(work)

    # -- what is limited ---------------------------------------------------------------------------

    async def share_usage(self, news: Sequence[Usage]) -> tuple[float, list[Usage]]:
        return await self._unflushed.write(partial(share_usage, node=self.node, news=news))

    async def put_rollups(self, rollups: Sequence[Rollup]) -> None:
        rows = [rollup_values(each, self.node) for each in rollups]
        if rows:
            values = columns([(minute, *rest) for minute, _, *rest in rows])
            await self._ledger.execute(SQL.put_rollups, self.node, *values)

    async def rollups(self, since: int, until: int) -> list[Rollup]:
        return added_up(await self._ledger.fetch(SQL.rollups, since, until))

    async def count_held(self, what: Held, tenant: str, subject: str | None, most: int, besides: str = "") -> int:
        return await self._link.read(
            partial(holdings.count, what=what, tenant=tenant, subject=subject, most=most, besides=besides)
        )

    async def full(self, per_caller: int, per_tenant: int) -> tuple[set[tuple[str, str]], set[str]]:
        return await self._link.write(partial(holdings.full, per_caller=per_caller, per_tenant=per_tenant))

    # -- writes made together ----------------------------------------------------------------------

    async def _begin_all(self, calls: list[Beginning]) -> list[Begun | ToolyardError]:
        await self._link.read(partial(beginning.number, calls=calls))
        await self._ledger.write(partial(beginning.begin, calls=calls, terms=self._begin_terms))
        return [call.outcome or store_down("a key was taken and freed all the time") for call in calls]

    async def _record_all(self, calls: list[Ran]) -> list[int]:
        """Their numbers; 0 of those that were not written."""
        numbers = [seq for (seq,) in await self._ledger.fetch(SQL.numbers, len(calls))]
        try:
            await self._link.write(partial(beginning.record, calls=list(zip(numbers, calls, strict=True))))
        except StoreDown:
            raise
        except Exception:  # whatever is wrong with one of them
            if len(calls) == 1:
                _log.exception("a call that has run cannot be written")
                return [0]
            return [written for call in calls for written in await self._record_all([call])]
        return numbers

    async def _finish_all(self, done: list[Finish]) -> list[CallRecord | None]:
        return await self._ledger.write(partial(running.finish, done=done, node=self.node, terms=self._terms))

    async def _beat_all(self, beats: list[HeartbeatWrite]) -> list[Verdict | None]:
        return await self._ledger.write(partial(working.beat, beats=beats, terms=self._terms))

    async def _answer_all(self, answers: list[Answer | HandBack]) -> list[Verdict | None]:
        return await self._ledger.write(partial(working.answer, answers=answers, terms=self._terms))

    async def _judge_all(self, writes: list[ByNumber]) -> list[Judged | None]:
        return await self._ledger.write(partial(running.write, writes=writes, terms=self._terms))

    async def _judged(self, write: ByNumber) -> Judged | None:
        return await self._writes.submit_one(write)


def _answer_size(answer: Answer | HandBack) -> int:
    return answer.ending.size if isinstance(answer, Answer) else 0


def _begun(made: Beginning) -> Begun:
    if not isinstance(made.outcome, Begun):
        raise made.outcome or store_down("a key was taken and freed all the time")
    return made.outcome
