"""Writes that are judged: the rows are locked, the time is taken, `model.judge` judges, and all that changed is written
at once. Everything here runs within a transaction.

The lock comes before the clock: whoever waited for a row judges by the time at which it has it, so that a lease cannot
run out between the judgement and the write. Rows are locked in the order of their numbers, so that two nodes that
judge the same calls never wait for each other in a circle.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ...model.judge import Judged, frees_key, is_news, judge, settle, was_made
from ...model.lifecycle import ENDED
from ...model.record import Ending
from ...model.writes import ByNumber, CallState, LeaseTerms, RequestWrite, Write
from ..hints import changed
from .connections import Connection
from .rows import SQL, PendingHints, Row, columns, standing_of, text
from .session_events import Happened, announce


class LockedCall(Struct):
    """A call whose row nobody else can change now. `held`: the node that runs it is alive."""

    standing: CallState
    tool: str
    held: bool


class JudgedChange(Struct):
    """One step of a call, to be saved: several writes of a batch may be about the same call, one after the other."""

    before: CallState
    after: Judged
    tool: str


async def judge_calls(
    connection: Connection, again: bool, writes: Sequence[ByNumber], terms: LeaseTerms, told: PendingHints
) -> list[Judged | None]:
    """Writes about calls by their numbers. None: there is no such call."""
    locked, now = await _lock(connection, SQL.lock_calls, sorted({write.seq for write in writes}))
    calls = {call.standing.seq: call for call in locked}
    changes: list[JudgedChange] = []
    judged = [_judged(calls.get(write.seq), write, now, again, terms, changes) for write in writes]
    await _save(connection, told, changes)
    return judged


async def judge_requests(
    connection: Connection, again: bool, writes: Sequence[RequestWrite], terms: LeaseTerms, told: PendingHints
) -> list[Judged | None]:
    """Writes of those who work on requests. None: there is no such request for whoever wrote."""
    wanted = sorted({(text(write.session), text(write.request)) for write in writes})
    locked, now = await _lock(connection, SQL.lock_requests, *columns(wanted))
    calls = {(call.standing.session, call.standing.request): call for call in locked}
    changes: list[JudgedChange] = []
    judged = []
    for write in writes:
        call = calls.get((text(write.session), text(write.request)))
        if call is not None and not write.who.may_touch(call.standing):
            call = None
        judged.append(_judged(call, write, now, again, terms, changes))
    await _save(connection, told, changes)
    return judged


async def settle_calls(connection: Connection, seqs: Sequence[int], terms: LeaseTerms, told: PendingHints) -> int:
    """Does to calls what is overdue, if it still is now that they are locked. How many were changed."""
    locked, now = await _lock(connection, SQL.lock_calls, sorted(seqs))
    settled = [(call, settle(call.standing, now, terms)) for call in locked]
    changes = [JudgedChange(call.standing, after, call.tool) for call, after in settled if after is not None]
    await _save(connection, told, changes)
    return len(changes)


def _judged(
    call: LockedCall | None, write: Write, now: float, again: bool, terms: LeaseTerms, changes: list[JudgedChange]
) -> Judged | None:
    """`again`: this write was made before, and nobody knows what became of it."""
    if call is None:
        return None
    if again and was_made(call.standing, write):
        return Judged(call.standing, changed=False)
    judged = judge(call.standing, write, now, terms, is_held=call.held)
    if judged.changed:
        changes.append(JudgedChange(call.standing, judged, call.tool))
        call.standing = judged.standing
    return judged


async def _lock(connection: Connection, sql: str, *given: Any) -> tuple[list[LockedCall], float]:
    """The calls, and the time at which the last of them was locked."""
    rows = await connection.fetch(sql, *given)
    locked = [LockedCall(standing_of(standing), tool, held) for *standing, tool, held, _ in rows]
    return locked, max((row[-1] for row in rows), default=0.0)


async def _save(connection: Connection, told: PendingHints, changes: Sequence[JudgedChange]) -> None:
    if not changes:
        return
    last = {change.before.seq: change.after.standing for change in changes}
    endings = {change.before.seq: change.after.ending for change in changes if change.after.ending}
    await connection.execute(SQL.save, [_values(after, endings.get(seq)) for seq, after in last.items()])
    news = [change for change in changes if is_news(change.before, change.after.standing)]
    await announce(connection, told, [_happened(change) for change in news])
    for change in changes:
        if change.before.state in ENDED and change.after.ending is None:  # a person has it run once more
            await connection.execute(SQL.reopen, change.before.seq, change.after.standing.deadline_at)
    freed = [seq for seq, ending in endings.items() if frees_key(last[seq].session, ending)]
    if freed:
        await connection.execute(SQL.release_keys, freed)
    for change in changes:
        told.update(changed(change.before, change.after.standing))


def _values(after: CallState, ending: Ending | None) -> Row:
    return (
        after.seq, after.state.value, after.code, after.waiting_for, after.attempt, after.losses, after.holder,
        after.lease_until, after.run_until, after.started_at, after.finished_at, after.seen_at, after.heartbeat,
        after.progress, after.effects, after.digest,
        *(_NOT_ENDED if ending is None else (True, ending.duration_ms, ending.value, ending.error, ending.extra)),
        after.queue_until,
    )  # fmt: skip


_NOT_ENDED = (False, None, None, None, None)


def _happened(change: JudgedChange) -> Happened:
    before, after = change.before, change.after.standing
    return Happened(
        after.session, after.request, change.tool, before.state not in ENDED, after.state, after.attempt,
        after.waiting_for,
    )  # fmt: skip
