"""A ledger that PostgreSQL's own tools brought back from a copy: what had not ended in it is settled, and all that is
numbered counts on from where it never was, in one transaction."""

from collections.abc import Sequence

from ...model.judge import is_accepted
from ...model.lifecycle import ENDED
from ...model.writes import GoBack, LeaseTerms
from ..fresh_numbers import FreshNumbers, fresh_numbers
from ..values import StoreInUse, WentBack
from .connections import Connection
from .judged_writes import judge_calls
from .rows import SQL, PendingHints

AT_ONCE = 1000
"""Rows that one statement changes: it has a few seconds for them."""


async def go_back(
    connection: Connection,
    again: bool,
    node: str,
    forgotten: Sequence[str],
    last_number: int | None,
    terms: LeaseTerms,
    told: PendingHints,
) -> WentBack:
    """`node` is who does it: there must be no other."""
    async with connection.transaction():
        await _refuse_nodes(connection, node)
        numbers = fresh_numbers(await connection.fetchval("SELECT ledger_now()"))
        await connection.execute(SQL.count_on, numbers.call if last_number is None else last_number)
        await connection.execute(SQL.forget_notes, list(forgotten))
        await _leave_gaps(connection, numbers.event)
        return await _settle_calls(connection, numbers, terms, told)


async def _refuse_nodes(connection: Connection, node: str) -> None:
    for (seconds,) in await connection.fetch(SQL.alive_nodes, node):
        raise StoreInUse(
            "a server has this ledger; stop all that do, and then run this again (if none does, the copy is so new "
            f"that those in it seem to: wait {seconds:.0f} seconds)"
        )


async def _leave_gaps(connection: Connection, event: int) -> None:
    """In the events of all sessions, up to that number."""
    last: str | None = ""
    while last is not None:
        last = await connection.fetchval(SQL.leave_gaps, event, last, AT_ONCE)


async def _settle_calls(
    connection: Connection, numbers: FreshNumbers, terms: LeaseTerms, told: PendingHints
) -> WentBack:
    living = [seq for (seq,) in await connection.fetch(SQL.living_calls)]
    ended = going_on = 0
    for start in range(0, len(living), AT_ONCE):
        writes = [GoBack(seq, numbers.attempt) for seq in living[start : start + AT_ONCE]]
        judged = await judge_calls(connection, False, writes, terms, told)
        after = [each.standing.state in ENDED for each in judged if is_accepted(each)]
        ended, going_on = ended + after.count(True), going_on + after.count(False)
    return WentBack(ended, going_on)
