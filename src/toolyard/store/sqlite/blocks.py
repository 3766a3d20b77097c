"""Blocks in SQLite's ledger, read and written within a transaction. Nothing here commits or awaits."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from ...model.json_value import decode_as
from ...model.lifecycle import State
from ...model.record import CallRecord
from ..blocks import (
    MOST_SPAN,
    SMALL_BLOCK,
    BlockSummary,
    CallBlock,
    CallerShare,
    ListStep,
    NewBlock,
    NewestCalls,
    SmallBlock,
    counted_in,
    erased_from,
    has_id,
    left_out,
    merged,
    numbered_in,
    to_merge,
)
from ..values import Filter
from .rows import SQL, first

LOOKED_AT_ONCE = 256
"""Blocks whose heads are read at once, while it is decided which of them to open."""


def write(cursor: apsw.Cursor, new: NewBlock, now: float) -> None:
    """Stores lines under the next numbers. Those that come after take theirs from where these end."""
    start = first(cursor, SQL.last_number, ()) + 1
    numbers = range(start, start + len(new.lines))
    _insert(cursor, new.numbered(numbers), new.callers, now)
    cursor.execute("UPDATE numbers SET last = ?", (numbers[-1],))


def _insert(cursor: apsw.Cursor, block: CallBlock, callers: Sequence[CallerShare], written_at: float) -> None:
    cursor.execute(SQL.add_block, (
        block.last, block.first, block.count, block.failed, block.first_id, block.last_id, block.ids, block.about,
        block.format, written_at, 0.0, block.data,
    ))  # fmt: skip
    cursor.executemany(SQL.add_block_caller, [(*who[:2], block.last, *who[2:]) for who in callers])
    cursor.executemany(SQL.add_stored, [(who.tenant, who.subject, who.charge) for who in callers])


def listed(cursor: apsw.Cursor, wanted: Filter, rows: list[CallRecord]) -> ListStep:
    """The newest calls that a filter wants, of `rows` and of blocks, as far as one step goes."""
    found = NewestCalls(wanted, rows)
    if found.may_be_in_blocks:
        for last in _candidates(cursor, wanted):
            if found.has_all(last):
                break
            if found.is_to_leave_off(last):
                return found.page(last)
            with left_out(last):
                found.look_into(*_opened(cursor, last))
    return found.page()


def numbered(cursor: apsw.Cursor, seq: int) -> CallRecord | None:
    """The call of that number, if it is in a block."""
    for (last,) in _all(cursor, SQL.blocks_near, {"seq": seq, "span": MOST_SPAN}):
        with left_out(last):
            block, offset = _opened(cursor, last)
            if (call := numbered_in(block, seq, offset)) is not None:
                return call
    return None


def counted(cursor: apsw.Cursor, newest: int) -> dict[State, int]:
    """How many calls are in each state, of rows and of blocks; of those that have ended, among the newest."""
    since = first(cursor, SQL.last_number, ()) - newest + 1
    found = Counter({State(state): count for state, count in cursor.execute(SQL.counted, {"since": since})})
    whole: Any = cursor.execute(SQL.count_blocks, (since,)).fetchone()
    across = _all(cursor, SQL.blocks_across, {"seq": since})
    found.update({State.COMPLETE: whole[0], State.ERROR: whole[1]})
    for (last,) in across:
        with left_out(last):
            succeeded, failed = counted_in(_opened(cursor, last)[0], since)
            found.update({State.COMPLETE: succeeded, State.ERROR: failed})
    return {state: count for state, count in found.items() if count}


def sweep(cursor: apsw.Cursor, before: float, limit: int) -> int:
    """Drops blocks of which all was written before that time, until so many calls are gone. How many calls."""
    gone = 0
    for last, count in _all(cursor, SQL.old_blocks, (before, limit)):
        _drop(cursor, last)
        gone += count
        if gone >= limit:
            break
    cursor.execute("DELETE FROM stored WHERE bytes <= 0")
    return gone


def merge(cursor: apsw.Cursor, before: float, kept_s: float) -> int:
    """Makes one block of several small ones that were written before that time. How many there are fewer."""
    small = [SmallBlock(*row) for row in _all(cursor, SQL.small_blocks, (SMALL_BLOCK, before, LOOKED_AT_ONCE))]
    fewer = 0
    for group in to_merge(small, kept_s):
        with left_out(group[-1].last):
            new, numbers = merged([_opened(cursor, each.last) for each in group])
            for each in group:
                _drop(cursor, each.last)
            _insert(cursor, new.numbered(numbers), new.callers, max(each.written_at for each in group))
            fewer += len(group) - 1
    return fewer


def erase(cursor: apsw.Cursor, tenant: str | None, user_id: str, after: int, limit: int) -> tuple[int, int | None]:
    """Takes a user's calls out of so many blocks after that number. How many calls, and where to go on."""
    ends: list[Any] = _all(cursor, SQL.blocks_after, (after, limit))
    erased = 0
    for last, written_at in ends:
        with left_out(last):
            block, offset = _opened(cursor, last)
            if (left := erased_from(block, offset, tenant, user_id)) is not None:
                new, numbers = left
                erased += block.count - len(numbers)
                _drop(cursor, last)
                if numbers:
                    _insert(cursor, new.numbered(numbers), new.callers, written_at)
    return erased, ends[-1][0] if len(ends) == limit else None


def _candidates(cursor: apsw.Cursor, wanted: Filter) -> Iterator[int]:
    """The blocks that may have what is wanted, the newest first, each by its last number."""
    if wanted.call_id is not None:
        found: list[Any] = _all(cursor, SQL.blocks_with_id, {"id": wanted.call_id})
        yield from sorted((last for last, ids in found if has_id(ids, wanted.call_id)), reverse=True)
        return
    end = first(cursor, "SELECT max(last) FROM blocks", ()) or 0
    end = end if wanted.before is None else min(end, wanted.before + MOST_SPAN)
    sql = SQL.heads_of_caller if wanted.tenant is not None and wanted.subject is not None else SQL.heads
    while True:
        values = {"tenant": wanted.tenant, "subject": wanted.subject, "end": end, "limit": LOOKED_AT_ONCE}
        heads = _all(cursor, sql, values)
        for last, start, about in heads:
            if (wanted.before is None or start < wanted.before) and decode_as(about, BlockSummary).may_have(wanted):
                yield last
        if len(heads) < LOOKED_AT_ONCE:
            return
        end = heads[-1][0] - 1


def _opened(cursor: apsw.Cursor, last: int) -> tuple[CallBlock, float]:
    ((*block, offset),) = _all(cursor, SQL.block, (last,))
    return CallBlock(*block), offset


def _all(cursor: apsw.Cursor, sql: str, values: Any) -> list[Any]:
    return cursor.execute(sql, values).fetchall()


def _drop(cursor: apsw.Cursor, last: int) -> None:
    """Takes a block away, with what its callers were charged for it."""
    cursor.execute(SQL.uncharge_block, {"last": last})
    cursor.execute("DELETE FROM block_callers WHERE last = ?", (last,))
    cursor.execute("DELETE FROM blocks WHERE last = ?", (last,))
