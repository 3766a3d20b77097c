"""Calls that this server's own processes run: how they end, and what time does to all calls.

A node's call has no lease of its own: the node has one (`lease.py`), and whether it is alive is found out as the call's
row is locked.
"""

from collections.abc import Sequence

from ...model.judge import Judged
from ...model.record import CallRecord
from ...model.writes import ByNumber, Finish, LeaseTerms
from ..hints import Topic
from ..values import ROLLUPS_KEPT_S
from . import blocks, holdings
from .connections import Connection
from .judged_writes import judge_calls, settle_calls
from .rows import SQL, PendingHints, call_of, ending_values

NODES_ARE_FORGOTTEN_S = 3600.0


async def finish(
    connection: Connection, again: bool, done: Sequence[Finish], node: str, terms: LeaseTerms, told: PendingHints
) -> list[CallRecord | None]:
    """Most need one conditional statement for all of them, which changes what `model.judge` would. Those with a
    session, and those that free their key, are judged one by one; whoever does not hold the call any more is given it
    as it is."""
    # One statement changes a row once: of two about the same call the first in line is tried, the other one is judged.
    quick = {each.seq: each for each in reversed(done) if not each.ending.releases_key}
    rows = [(seq, each.attempt, *ending_values(each.ending)) for seq, each in sorted(quick.items())]
    ended = {seq for (seq,) in await connection.fetch(SQL.finish, node, rows)} if rows else set()
    told.update((Topic.ENDED, seq) for seq in ended)
    left = [each for each in done if each.seq not in ended or quick[each.seq] is not each]
    if not left:
        return [None] * len(done)
    async with connection.transaction():
        judged = await judge_calls(connection, again, left, terms, told)
    late = {id(each) for each, verdict in zip(left, judged, strict=True) if verdict is None or verdict.reason}
    found = await calls_by_number(connection, [each.seq for each in left if id(each) in late])
    return [_lost_to(each, found.get(each.seq), again) if id(each) in late else None for each in done]


async def write(
    connection: Connection, again: bool, writes: Sequence[ByNumber], terms: LeaseTerms, told: PendingHints
) -> list[Judged | None]:
    """What the server writes about calls by their numbers, in one transaction."""
    async with connection.transaction():
        return await judge_calls(connection, again, writes, terms, told)


async def expire(connection: Connection, again: bool, limit: int, terms: LeaseTerms, told: PendingHints) -> int:
    """Settles what is overdue, a few calls at a time, and forgets workers whose lease is over."""
    async with connection.transaction():
        due = [seq for (seq,) in await connection.fetch(SQL.overdue, limit)]
        settled = await settle_calls(connection, due, terms, told) if due else 0
        if await connection.fetch(SQL.drop_dead_workers):
            told.add((Topic.WORKERS, ""))
    return settled


async def sweep(connection: Connection, again: bool, retention_s: float, key_ttl_s: float, limit: int) -> int:
    async with connection.transaction():
        await connection.execute(SQL.keep_keys, 4 * limit, key_ttl_s)
        await connection.execute(SQL.sweep_keys, 4 * limit)
    removed: int = await connection.fetchval(SQL.sweep, retention_s, limit)
    removed += await blocks.sweep(connection, retention_s, limit)
    await connection.execute(SQL.sweep_notes, limit)
    await connection.execute(SQL.sweep_sessions, retention_s, limit)
    await connection.execute(SQL.sweep_nodes, NODES_ARE_FORGOTTEN_S)
    await connection.execute(SQL.sweep_usage)
    await connection.execute(SQL.sweep_rollups, ROLLUPS_KEPT_S)
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
    wanted = (mine.attempt, ending.state, ending.code, ending.value, ending.error, ending.extra)
    is_there = (there.attempt, there.state, there.code, there.value, there.error, there.extra)
    return None if is_there == wanted else there
