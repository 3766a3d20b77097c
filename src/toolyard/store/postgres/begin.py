"""Calls are recorded: many at once, each under a number that was taken for it before.

The keys and the calls that have them are written by one statement. Whose key is taken is not written, and is given what
has it. By its number a call that was recorded by a write of unknown fate is known again.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ...model.errors import ToolyardError
from ...model.lifecycle import State
from ...model.record import NewCall, Ran
from ..hints import came as came_with
from ..values import Begun, NotedCalls, key_conflict, queue_full
from ..write_behind import size_of
from .batches import MOST_BYTES_AT_ONCE
from .connections import Connection
from .rows import SQL, PendingHints, Row, call_of, columns, found_by, key_values, new_values, ran_values, text
from .session_events import Happened, announce, lock_sessions

ROUNDS = 5
"""How often a key may be free and taken again under our eyes."""


class Beginning(Struct):
    """A call that is to be recorded, and what became of it."""

    call: NewCall
    most_pending: int | None = None
    seq: int = 0
    outcome: Begun | ToolyardError | None = None


class BeginTerms(Struct, frozen=True):
    """What a call that begins is given: the node that runs it, that node's lease, and how long it keeps its key."""

    node: str
    lease_s: float
    key_ttl_s: float


async def number(connection: Connection, calls: Sequence[Beginning]) -> None:
    """Takes a number for each."""
    for call, (seq,) in zip(calls, await connection.fetch(SQL.numbers, len(calls)), strict=True):
        call.seq = seq


async def begin(
    connection: Connection, again: bool, calls: Sequence[Beginning], terms: BeginTerms, told: PendingHints
) -> list[Happened]:
    """Gives each its outcome."""
    came: list[Happened] = []
    if again:
        await _recognize(connection, calls)
    if any(each.most_pending is not None for each in _open(calls)):
        await _refuse_long_queues(connection, _open(calls))
    for _ in range(ROUNDS):
        # A key that was taken when the insert met it may be free again by the time its call is looked up: then insert.
        if left := _open(calls):
            came += await insert(connection, left, terms, told)
        await find_known(connection, [each for each in _open(calls) if each.call.keyed])
    return came


async def begin_in_session(
    connection: Connection, again: bool, session: str, call: Beginning, terms: BeginTerms, told: PendingHints
) -> None:
    """One call of a session, which is told of it."""
    async with connection.transaction():
        await lock_sessions(connection, [session])
        await announce(connection, told, await begin(connection, again, [call], terms, told))


async def begin_noted(
    connection: Connection, again: bool, call: Beginning, noted: NotedCalls, terms: BeginTerms, told: PendingHints
) -> None:
    """One call that is known again by a note, unless one of the notes names a call like it."""
    new, key = call.call, call.call.key
    whose = (text(noted.kind), key.tenant, text(key.subject))
    call.outcome = None
    async with connection.transaction():
        await connection.execute(SQL.lock_notes, *whose)
        for name in noted.names:
            seq = await connection.fetchval(SQL.note, *whose, text(name))
            for row in await connection.fetch(SQL.glance, int(seq)) if seq is not None else ():
                there = call_of(row)
                if there.seq != call.seq and new.is_like(there):  # not this one, by a write that was made before
                    call.outcome = Begun(0, known=there)
                    return
        await begin(connection, again, [call], terms, told)
        if isinstance(call.outcome, Begun):
            number = b"%d" % call.seq
            await connection.execute(SQL.put_note, *whose, text(noted.names[0]), number, noted.keep_s, None, None)


async def insert(
    connection: Connection, calls: Sequence[Beginning], terms: BeginTerms, told: PendingHints, turn: int | None = None
) -> list[Happened]:
    """Those whose key is free."""
    rows = [new_values(each.call, each.seq, each.call.turn if turn is None else turn) for each in calls]
    made = dict(await connection.fetch(SQL.begin, terms.node, terms.lease_s, terms.key_ttl_s, rows))
    for each in calls:
        if each.seq in made:
            each.outcome = Begun(each.seq)
            told.update(came_with(each.call))
    return [_came(each.call, made[each.seq]) for each in calls if each.seq in made]


async def find_known(connection: Connection, calls: Sequence[Beginning]) -> None:
    """What has their keys, where anything does."""
    if not calls:
        return
    wanted = [(place, *key_values(each.call.key)) for place, each in enumerate(calls)]
    for place, taken_by, fingerprint, *row in await connection.fetch(SQL.known, *columns(wanted)):
        made = calls[place]  # under its own number, if the write was made before
        is_made = taken_by == made.seq
        made.outcome = Begun(made.seq) if is_made else found_by(made.call.key, fingerprint, row)


async def add_turn(
    connection: Connection, again: bool, session: str, calls: Sequence[Beginning], terms: BeginTerms, told: PendingHints
) -> None:
    """The tool uses of a message, all or none."""
    for each in calls:
        each.outcome = None
    async with connection.transaction():
        count = (await lock_sessions(connection, [session])).get(session)
        if again:
            await _recognize(connection, calls)
        await find_known(connection, _open(calls))
        for each in calls:
            _refuse_conflict(each)
        if new := _open(calls):
            turn = 0 if count is None else count.turn if count.open else count.turn + 1
            await connection.execute(SQL.next_turn, session, turn)
            await announce(connection, told, await insert(connection, new, terms, told, turn))
        repeated = _open(calls)  # an id that is in the message twice
        await find_known(connection, repeated)
        for each in repeated:
            _refuse_conflict(each)


async def record(connection: Connection, again: bool, calls: Sequence[tuple[int, Ran]]) -> None:
    """Calls that have run already, under the numbers that were taken for them: all or none, large ones a few at a
    time."""
    parts, size = [list[Row]()], 0
    for seq, ran in calls:
        parts[-1].append(ran_values(ran, seq))
        size += size_of(ran)
        if size > MOST_BYTES_AT_ONCE:
            parts, size = [*parts, []], 0
    if len(parts) == 1:
        await connection.execute(SQL.record, parts[0])
        return
    async with connection.transaction():
        for rows in parts:
            await connection.execute(SQL.record, rows)


def _open(calls: Sequence[Beginning]) -> list[Beginning]:
    return [each for each in calls if each.outcome is None]


async def _recognize(connection: Connection, calls: Sequence[Beginning]) -> None:
    there = {seq for (seq,) in await connection.fetch(SQL.recorded, [each.seq for each in calls])}
    for each in calls:
        if each.seq in there:
            each.outcome = Begun(each.seq)


async def _refuse_long_queues(connection: Connection, calls: Sequence[Beginning]) -> None:
    """Calls that would stand too far behind. Those of other nodes that come at this very moment are not seen."""
    limited = [each for each in calls if each.most_pending is not None and each.call.queue != "node"]
    most = {each.call.offer or "": each.most_pending or 0 for each in limited}
    if not limited:
        return
    await find_known(connection, [each for each in limited if each.call.keyed])
    waiting = Counter(dict(await connection.fetch(SQL.waiting, list(most), list(most.values()))))
    for each in _open(limited):
        offer = each.call.offer or ""
        if waiting[offer] >= (each.most_pending or 0):
            each.outcome = queue_full(each.call.reference, each.most_pending or 0)
        waiting[offer] += 1


def _came(call: NewCall, request: str | None) -> Happened:
    here = call.queue == "node" and call.ending is None and call.waiting_for is None
    state = call.ending.state if call.ending else State.PROCESSING if here else State.PENDING
    return Happened(call.session, request, text(call.tool), False, state, int(here), call.waiting_for)


def _refuse_conflict(each: Beginning) -> None:
    known = each.outcome
    if not isinstance(known, Begun) or known.seq:
        return
    there = known.known.fingerprint if known.known else known.tombstone
    if not each.call.has(there):
        raise key_conflict(each.call.key)
