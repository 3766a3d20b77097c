"""Calls that this server's own processes run: they end, are handed back, lost, and started again."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model.judge import Judged, judge, settle
from ...model.lifecycle import CODES, ENDED, Move, State
from ...model.record import CallRecord, Ending
from ...model.writes import CallState, Cancel, Decision, LeaseTerms, WaitForAccount
from ..hints import Topic
from . import holdings
from .connections import Connection
from .judged_writes import Decide, LockedCall, decide
from .rows import SQL, Told, call_of, ending_values

NODES_ARE_FORGOTTEN_S = 3600.0


class Finish(Struct, frozen=True):
    """An attempt that ended on this node."""

    seq: int
    attempt: int
    ending: Ending


async def finish(
    connection: Connection, again: bool, done: Sequence[Finish], node: str, told: Told
) -> list[CallRecord | None]:
    """Most need one statement. Those with a session, and those that free their key, are judged; whoever does not hold
    the call any more is given it as it is."""
    quick = {each.seq: each for each in reversed(done) if not each.ending.releases_key}
    rows = [(seq, each.attempt, *ending_values(each.ending)) for seq, each in sorted(quick.items())]
    ended = {seq for (seq,) in await connection.fetch(SQL.finish, node, rows)} if rows else set()
    told.update((Topic.ENDED, seq) for seq in ended)
    left = [each for each in done if each.seq not in ended or quick[each.seq] is not each]
    if not left:
        return [None] * len(done)
    async with connection.transaction():
        judged = await decide(connection, again, [(each.seq, _finishing(each, node)) for each in left], told)
    late = {id(each) for each, verdict in zip(left, judged, strict=True) if verdict is None}
    found = await calls_by_number(connection, [each.seq for each in left if id(each) in late])
    return [_lost_to(each, found.get(each.seq), again) if id(each) in late else None for each in done]


async def settle_calls(
    connection: Connection, again: bool, decisions: Sequence[tuple[int, Decide]], told: Told
) -> list[Judged | None]:
    async with connection.transaction():
        return await decide(connection, again, decisions, told)


async def resolve(connection: Connection, again: bool, seq: int, ending: Ending | None, told: Told) -> bool:
    async with connection.transaction():
        (resolved,) = await decide(connection, again, [(seq, _resolving(ending))], told)
        if resolved is not None and ending is None:
            await connection.execute(SQL.reopen, seq)
    return resolved is not None


async def expire(connection: Connection, again: bool, limit: int, limits: LeaseTerms, told: Told) -> int:
    def overdue(call: LockedCall, now: float, again: bool) -> Judged | None:
        return settle(call.standing, now, limits)

    async with connection.transaction():
        due = [(seq, overdue) for (seq,) in await connection.fetch(SQL.overdue, limit)]
        settled = await decide(connection, again, due, told) if due else []
        if await connection.fetch(SQL.drop_dead_workers):
            told.add((Topic.WORKERS, ""))
    return sum(each is not None for each in settled)


async def sweep(connection: Connection, again: bool, retention_s: float, key_ttl_s: float, limit: int) -> int:
    async with connection.transaction():
        await connection.execute(SQL.keep_keys, 4 * limit, key_ttl_s)
        await connection.execute(SQL.sweep_keys, 4 * limit)
    removed: int = await connection.fetchval(SQL.sweep, retention_s, limit)
    await connection.execute(SQL.sweep_notes, limit)
    await connection.execute(SQL.sweep_sessions, retention_s, limit)
    await connection.execute(SQL.sweep_nodes, NODES_ARE_FORGOTTEN_S)
    await connection.execute(SQL.sweep_usage)
    await holdings.add_up(connection)
    await connection.execute(SQL.forget_stored)
    return removed


async def calls_by_number(connection: Connection, seqs: Sequence[int]) -> dict[int, CallRecord]:
    if not seqs:
        return {}
    return {row[0]: call_of(row) for row in await connection.fetch(SQL.rows, seqs)}


def _lost_to(mine: Finish, there: CallRecord | None, again: bool) -> CallRecord | None:
    """Nobody, if what is there is what this write was to write, and it may have done so."""
    if not again or there is None:
        return there
    ending = mine.ending
    wanted = (mine.attempt, ending.state, ending.code, ending.value, ending.error)
    return None if (there.attempt, there.state, there.code, there.value, there.error) == wanted else there


def _finishing(done: Finish, node: str) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged | None:
        return _ended(call.standing, done.ending, now) if _runs(call.standing, done.attempt, node) else None

    return judged


def handing_back(attempt: int, node: str) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged | None:
        if not _runs(call.standing, attempt, node):
            return None
        return Judged(replace(call.standing, state=State.PENDING, holder=None, waiting_for=None))

    return judged


def restarting(attempt: int, node: str) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged | None:
        there = call.standing
        if again and _runs(there, attempt + 1, node):
            return Judged(there, changed=False)
        if not _is_lost(call, attempt, node):
            return None
        losses = there.losses + (there.state is State.PROCESSING)
        return Judged(replace(
            there, state=State.PROCESSING, attempt=attempt + 1, losses=losses, holder=node, started_at=now,
            waiting_for=None,
        ))  # fmt: skip

    return judged


def giving_up(attempt: int, node: str, ending: Ending) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged | None:
        there = call.standing
        if again and (there.state, there.code, there.attempt) == (ending.state, ending.code, attempt):
            return Judged(there, changed=False)
        if not _is_lost(call, attempt, node):
            return None
        losses = there.losses + (there.state is State.PROCESSING)
        return _ended(replace(there, losses=losses), ending, now)

    return judged


def cancelling(seq: int, limits: LeaseTerms) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged:
        if again and call.standing.code == CODES[Move.CANCEL]:
            return Judged(call.standing, changed=False)
        return judge(call.standing, Cancel(seq), now, limits)

    return judged


def deciding(decision: Decision | WaitForAccount, limits: LeaseTerms) -> Decide:
    then = decision.then if isinstance(decision, Decision) else decision.waiting_for

    def judged(call: LockedCall, now: float, again: bool) -> Judged:
        there, ending = call.standing, decision.ending
        if again and ending is not None and there.code == ending.code:
            return Judged(there, changed=False)
        if again and ending is None and there.waiting_for == then and there.state not in ENDED:
            return Judged(there, changed=False)
        return judge(there, decision, now, limits)

    return judged


def _resolving(ending: Ending | None) -> Decide:
    def judged(call: LockedCall, now: float, again: bool) -> Judged | None:
        there = call.standing
        wanted = (State.PENDING, None) if ending is None else (ending.state, ending.code)
        if again and (there.state, there.code) == wanted:
            return Judged(there, changed=False)
        if (there.state, there.code) != (State.ERROR, CODES[Move.UNKNOWN]):
            return None
        if ending is not None:
            return _ended(there, ending, now)
        return Judged(
            replace(there, state=State.PENDING, code=None, finished_at=None, effects=None, holder=None, digest=None)
        )

    return judged


def _runs(call: CallState, attempt: int, node: str) -> bool:
    return (call.queue, call.state, call.attempt, call.holder) == ("node", State.PROCESSING, attempt, node)


def _is_lost(call: LockedCall, attempt: int, node: str) -> bool:
    """Nobody runs it: its node is gone, or handed it back."""
    there = call.standing
    if there.queue != "node" or there.attempt != attempt:
        return False
    if there.state is State.PENDING:
        return there.waiting_for is None
    return there.state is State.PROCESSING and there.holder != node and not call.held


def _ended(call: CallState, ending: Ending, now: float) -> Judged:
    after = replace(
        call, state=ending.state, code=ending.code, finished_at=now, waiting_for=None, effects=ending.effects,
        lease_until=None, run_until=None,
    )  # fmt: skip
    return Judged(after, ending=ending)
