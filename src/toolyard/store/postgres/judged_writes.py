"""Writes that are judged: the rows are locked, the time is taken, `model.standing` judges, and all that changed is
written at once. Everything here runs within a transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ...model.judge import Judged, is_news, judge
from ...model.lifecycle import ENDED, State
from ...model.record import Ending
from ...model.writes import DIRECT, Answer, CallState, HandBack, HeartbeatWrite, LeaseTerms
from ..hints import changed
from .connections import Connection
from .rows import SQL, Row, Told, columns, standing_of, text
from .session_events import Happened, announce

Request = HeartbeatWrite | Answer | HandBack


class LockedCall(Struct):
    """A call whose row nobody else can change now. `held`: the node that runs it is alive."""

    standing: CallState
    tool: str
    held: bool


class JudgedChange(Struct):
    before: CallState
    after: Judged
    tool: str


Decide = Callable[[LockedCall, float, bool], Judged | None]
"""What becomes of a call at that time, and whether this very write may have been made before; None: nothing."""


async def decide(
    connection: Connection, again: bool, decisions: Sequence[tuple[int, Decide]], told: Told
) -> list[Judged | None]:
    """About calls by their numbers. None also where there is no such call."""
    locked, now = await _lock(connection, SQL.lock_calls, sorted({seq for seq, _ in decisions}))
    calls = {call.standing.seq: call for call in locked}
    changes: list[JudgedChange] = []
    judged = [_decided(calls.get(seq), made, now, again, changes) for seq, made in decisions]
    await _save(connection, told, changes)
    return judged


async def judge_requests(
    connection: Connection, again: bool, writes: Sequence[Request], limits: LeaseTerms, told: Told
) -> list[Judged | None]:
    """None: there is no such request for whoever wrote."""
    wanted = sorted({(text(write.session), text(write.request)) for write in writes})
    locked, now = await _lock(connection, SQL.lock_requests, *columns(wanted))
    calls = {(call.standing.session, call.standing.request): call for call in locked}
    changes: list[JudgedChange] = []
    judged = []
    for write in writes:
        call = calls.get((text(write.session), text(write.request)))
        if call is not None and not write.who.may_touch(call.standing):
            call = None
        judged.append(_decided(call, _judging(write, limits), now, again, changes))
    await _save(connection, told, changes)
    return judged


def _judging(write: Request, limits: LeaseTerms) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged:
        if again and isinstance(write, HandBack) and _was_left(call.standing, write):
            return Judged(call.standing, changed=False)
        return judge(call.standing, write, now, limits)

    return judged


def _was_left(call: CallState, write: HandBack) -> bool:
    return call.state is State.PENDING and write.attempt in (None, call.attempt)


def _decided(
    call: LockedCall | None, made: Decide, now: float, again: bool, changes: list[JudgedChange]
) -> Judged | None:
    if call is None:
        return None
    judged = made(call, now, again)
    if judged is not None and judged.changed:
        changes.append(JudgedChange(call.standing, judged, call.tool))
        call.standing = judged.standing
    return judged


async def _lock(connection: Connection, sql: str, *given: Any) -> tuple[list[LockedCall], float]:
    """The time is the last row's: by then all are locked."""
    rows = await connection.fetch(sql, *given)
    locked = [LockedCall(standing_of(standing), tool, held) for *standing, tool, held, _ in rows]
    return locked, max((row[-1] for row in rows), default=0.0)


async def _save(connection: Connection, told: Told, changes: Sequence[JudgedChange]) -> None:
    if not changes:
        return
    last = {change.before.seq: change.after.standing for change in changes}
    endings = {change.before.seq: change.after.ending for change in changes if change.after.ending}
    await connection.execute(SQL.save, [_values(after, endings.get(seq)) for seq, after in last.items()])
    news = [change for change in changes if is_news(change.before, change.after.standing)]
    await announce(connection, told, [_happened(change) for change in news])
    freed = [seq for seq, ending in endings.items() if ending.releases_key and last[seq].session in (None, DIRECT)]
    if freed:
        await connection.execute(SQL.release_keys, freed)
    for change in changes:
        told.update(changed(change.before, change.after.standing))


def _values(after: CallState, ending: Ending | None) -> Row:
    return (
        after.seq, after.state.value, after.code, after.waiting_for, after.attempt, after.losses, after.holder,
        after.lease_until, after.run_until, after.started_at, after.finished_at, after.seen_at, after.heartbeat,
        after.progress, after.effects, after.digest,
        *((False, None, None, None) if ending is None else (True, ending.duration_ms, ending.value, ending.error)),
        after.queue_until,
    )  # fmt: skip


def _happened(change: JudgedChange) -> Happened:
    before, after = change.before, change.after.standing
    return Happened(
        after.session, after.request, change.tool, before.state not in ENDED, after.state, after.attempt,
        after.waiting_for,
    )  # fmt: skip
