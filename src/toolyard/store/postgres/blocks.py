"""Blocks in PostgreSQL's ledger. Each node writes its own; whichever node comes first merges them and drops them.

Whoever reads does it in one snapshot: between a look at the heads and the blocks that they name, others may merge.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ...model.json_value import decode_as
from ...model.lifecycle import State
from ...model.record import CallRecord
from ..blocks import (
    MOST_SPAN,
    SMALL_BLOCK,
    BlockSummary,
    CallBlock,
    CallerShare,
    IsGone,
    ListStep,
    NewBlock,
    NewestCalls,
    SmallBlock,
    counted_in,
    erased_from,
    has_id,
    left_of,
    left_out,
    merged,
    numbered_in,
    to_merge,
)
from ..values import Filter
from .connections import Connection
from .rows import SQL, columns, text

LOOKED_AT_ONCE = 256
"""Blocks whose heads are read at once, while it is decided which of them to open."""
MERGED_AFTER_S = 30.0
"""How old small blocks are before they are merged. A write whose fate was not known is not made again after that."""
ERASED_AT_ONCE = 50


async def ready(new: NewBlock, numbers: Sequence[int]) -> CallBlock:
    """A block under numbers that were taken for it. Compressing takes a while, so it is done beside the loop."""
    return await asyncio.to_thread(new.numbered, sorted(numbers))


async def write(
    connection: Connection, again: bool, block: CallBlock, callers: Sequence[CallerShare], now: float
) -> None:
    """Stores a block. `now` is the time by the clock that its lines have their times from."""
    await _insert(connection, block, callers, None, now)


async def _insert(
    connection: Connection,
    block: CallBlock,
    callers: Sequence[CallerShare],
    written_at: float | None,
    now: float | None,
) -> None:
    """Once, however often it is made. Without `written_at`, now; without `now`, its times are the ledger's."""
    whose = columns([(who.tenant, text(who.subject), who.calls, who.charge) for who in callers])
    await connection.execute(
        SQL.add_block, block.last, block.first, block.count, block.failed, text(block.first_id), text(block.last_id),
        block.ids, block.about, block.format, block.data, written_at, now, *whose,
    )  # fmt: skip


async def listed(connection: Connection, wanted: Filter, rows: list[CallRecord]) -> ListStep:
    """The newest calls that a filter wants, of `rows` and of blocks, as far as one step goes."""
    found = NewestCalls(wanted, rows)
    if found.may_be_in_blocks:
        async for last in _candidates(connection, wanted):
            if found.has_all(last):
                break
            if found.is_to_leave_off(last):
                return found.page(last)
            for block, offset in await _opened(connection, [last]):
                with left_out(last):
                    found.look_into(block, offset)
    return found.page()


async def numbered(connection: Connection, seq: int) -> CallRecord | None:
    """The call of that number, if it is in a block."""
    for (last,) in await connection.fetch(SQL.blocks_near, seq, MOST_SPAN):
        for block, offset in await _opened(connection, [last]):
            with left_out(last):
                if (call := numbered_in(block, seq, offset)) is not None:
                    return call
    return None


async def counted(connection: Connection, newest: int) -> dict[State, int]:
    """How many calls are in each state, of rows and of blocks; of those that have ended, among the newest."""
    since = await connection.fetchval(SQL.last_number) - newest + 1
    found = Counter({State(state): count for state, count in await connection.fetch(SQL.counted, since)})
    (whole,) = await connection.fetch(SQL.count_blocks, since)
    across = await _opened(connection, [last for (last,) in await connection.fetch(SQL.blocks_across, since)])
    found.update({State.COMPLETE: whole[0], State.ERROR: whole[1]})
    for block, _ in across:
        with left_out(block.last):
            succeeded, failed = counted_in(block, since)
            found.update({State.COMPLETE: succeeded, State.ERROR: failed})
    return {state: count for state, count in found.items() if count}


async def sweep(connection: Connection, retention_s: float, limit: int) -> int:
    """Drops blocks of which all is past its time, until so many calls are gone. How many calls."""
    async with connection.transaction():
        old, gone = list[int](), 0
        for last, count in await connection.fetch(SQL.old_blocks, retention_s, limit):
            old.append(last)
            gone += count
            if gone >= limit:
                break
        await connection.execute(SQL.drop_blocks, old)
    return gone


async def merge(connection: Connection, again: bool, kept_s: float) -> int:
    """Makes one block of several small ones. How many there are fewer."""
    fewer = 0
    async with connection.transaction():
        rows = await connection.fetch(SQL.small_blocks, SMALL_BLOCK, MERGED_AFTER_S, LOOKED_AT_ONCE)
        for group in to_merge(sorted((SmallBlock(*row) for row in rows), key=lambda each: each.last), kept_s):
            ends = [each.last for each in group]
            with left_out(ends[-1]):
                new, numbers = merged(await _opened(connection, ends))
                await connection.execute(SQL.drop_blocks, ends)
                written_at = max(each.written_at for each in group)
                await _insert(connection, new.numbered(numbers), new.callers, written_at, None)
                fewer += len(group) - 1
    return fewer


async def erase(
    connection: Connection, again: bool, tenant: str | None, user_id: str, after: int
) -> tuple[int, int | None]:
    """Takes a user's calls out of a few blocks after that number. How many calls, and where to go on."""
    erased = 0
    async with connection.transaction():
        ends = await connection.fetch(SQL.blocks_after, after, ERASED_AT_ONCE)
        for last, written_at in ends:
            for block, offset in await _opened(connection, [last]):
                with left_out(last):
                    if (left := erased_from(block, offset, tenant, user_id)) is not None:
                        erased += block.count - len(left[1])
                        await _replace(connection, last, left, written_at)
    return erased, ends[-1][0] if len(ends) == ERASED_AT_ONCE else None


async def erase_from(connection: Connection, again: bool, ends: Sequence[int], is_gone: IsGone) -> None:
    """Takes the calls of which `is_gone` is true out of these blocks."""
    async with connection.transaction():
        for last, written_at in await connection.fetch(SQL.blocks_written, ends):
            for block, offset in await _opened(connection, [last]):
                with left_out(last):
                    if (left := left_of(block, offset, is_gone)) is not None:
                        await _replace(connection, last, left, written_at)


async def _replace(connection: Connection, last: int, left: tuple[NewBlock, list[int]], written_at: float) -> None:
    """Puts what is left of a block in its place."""
    new, numbers = left
    await connection.execute(SQL.drop_blocks, [last])
    if numbers:
        await _insert(connection, new.numbered(numbers), new.callers, written_at, None)


async def _candidates(connection: Connection, wanted: Filter) -> AsyncIterator[int]:
    """The blocks that may have what is wanted, the newest first, each by its last number."""
    if wanted.call_id is not None:
        found = await connection.fetch(SQL.blocks_with_id, text(wanted.call_id))
        for last in sorted((last for last, ids in found if has_id(ids, wanted.call_id)), reverse=True):
            yield last
        return
    end = await connection.fetchval("SELECT coalesce(max(last), 0) FROM blocks")
    end = end if wanted.before is None else min(end, wanted.before + MOST_SPAN)
    while True:
        heads = await _heads(connection, wanted, end)
        for last, start, about in heads:
            if (wanted.before is None or start < wanted.before) and decode_as(about, BlockSummary).may_have(wanted):
                yield last
        if len(heads) < LOOKED_AT_ONCE:
            return
        end = heads[-1][0] - 1


async def _heads(connection: Connection, wanted: Filter, end: int) -> list[Any]:
    if wanted.tenant is None or wanted.subject is None:
        return await connection.fetch(SQL.heads, end, LOOKED_AT_ONCE)
    return await connection.fetch(SQL.heads_of_caller, wanted.tenant, text(wanted.subject), end, LOOKED_AT_ONCE)


async def _opened(connection: Connection, ends: Sequence[int]) -> list[tuple[CallBlock, float]]:
    """With their clocks' offsets. One that was merged or dropped a moment ago is not among them."""
    return [(CallBlock(*block), offset) for *block, offset in await connection.fetch(SQL.blocks, ends)]
