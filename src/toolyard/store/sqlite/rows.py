"""Rows of SQLite's ledger, read and written within a transaction. Nothing here commits or awaits."""

from collections.abc import Hashable, Sequence
from typing import Any

import apsw
import msgspec

from ...model.judge import Judged, frees_key
from ...model.lifecycle import ENDED, State
from ...model.record import CallKey, CallRecord, Ending, NewCall, Ran
from ...model.worker import whose_of
from ...model.writes import ByNumber, CallState, Write, request_id
from ..blocks import charge_of
from ..hints import Topic
from ..sql_files import statements
from ..values import Begun, ClaimFilter, Filter, Held, Note, begun_of, only_stars, queue_full, waiting_for_of

SQL = statements("sqlite")
MOST_AT_ONCE = 100
"""The tools of which calls are looked for in one statement."""
LARGE = 256 * 1024
"""More than this is kept out of the row."""
Charges = dict[tuple[str, str], int]
"""By tenant and subject."""
PendingHints = set[tuple[Topic, Hashable]]
"""What to give hints of once the transaction is durable."""

encode = msgspec.json.Encoder().encode
_FIELDS = CallState.__struct_fields__
# From `queue_until` to `digest` they are what a judged write may change, in the order of the columns.
_CHANGING = _FIELDS[_FIELDS.index("queue_until") : _FIELDS.index("digest") + 1]
_SAVE = f"UPDATE calls SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE seq = ?"


def first(cursor: apsw.Cursor, sql: str, values: tuple[Any, ...] | dict[str, Any]) -> Any:
    """Of the first row's values; None where there is no row."""
    row = cursor.execute(sql, values).fetchone()
    return None if row is None else row[0]


def values(key: CallKey) -> tuple[str, str, str, str]:
    return key.tenant, key.subject, key.family, key.call_id


# -- calls -----------------------------------------------------------------------------------------


def insert(cursor: apsw.Cursor, call: NewCall, node: str, now: float) -> int:
    """A call that runs on this node, that waits for somebody, or that ended before it began."""
    here = call.queue == "node" and call.ending is None and call.waiting_for is None
    cursor.execute(SQL.begin, (
        *values(call.key), call.keyed, call.wire, call.tool, call.reference, *_kept(cursor, call.input),
        call.fingerprint, call.user_id, call.trace_id, call.sealed, call.on_lost, call.queue, call.session,
        request_id(call), call.turn, call.run_s, "PROCESSING" if here else "PENDING", int(here),
        node if here else None, now, now if here else None,
        None if call.queue_s is None or here else now + call.queue_s,
        None if call.total_s is None else now + call.total_s, call.waiting_for, call.offer,
    ))  # fmt: skip
    seq = cursor.connection.last_insert_rowid()
    if call.ending is not None:
        cursor.execute(SQL.reject, (*ending(cursor, call.ending, now), seq))
    return seq


def known(cursor: apsw.Cursor, key: CallKey) -> Begun | None:
    taken = cursor.execute(SQL.key, values(key)).fetchone()
    if taken is None:
        return None
    return begun_of(key, taken[1], glance(cursor, "seq = ?", (taken[0],)))


def glance(cursor: apsw.Cursor, where: str, values: tuple[Any, ...]) -> CallRecord | None:
    """A call without what is kept out of its row."""
    row = cursor.execute(f"{SQL.listed} WHERE {where}", values).fetchone()
    return made(row) if row else None


def call(cursor: apsw.Cursor, where: str, values: tuple[Any, ...]) -> CallRecord | None:
    row = cursor.execute(f"{SQL.call} WHERE {where}", values).fetchone()
    return made(row) if row else None


def calls(cursor: apsw.Cursor, where: str, values: Any) -> list[CallRecord]:
    return [made(row) for row in cursor.execute(f"{SQL.call} WHERE {where}", values).fetchall()]


def calls_within(cursor: apsw.Cursor, where: str, values: Any, most_bytes: int) -> list[CallRecord]:
    """The first of them, until there is that much; read one by one, since they may be large. First their numbers alone:
    where SQLite has to sort, it would read every input and result before it gives the first."""
    found: list[CallRecord] = []
    for (seq,) in cursor.execute(f"SELECT seq FROM calls WHERE {where}", values).fetchall():
        (row,) = cursor.execute(f"{SQL.call} WHERE seq = ?", (seq,))
        found.append(made(row))
        most_bytes -= found[-1].size
        if most_bytes <= 0:
            break
    return found


def made(row: tuple[Any, ...]) -> CallRecord:
    seq, tenant, subject, family, call_id, keyed, *rest = row
    record = CallRecord(seq, CallKey(tenant, subject, family, call_id), bool(keyed), *rest)
    record.state, record.waiting_for = State(record.state), waiting_for_of(record.waiting_for)
    record.is_cut = bool(record.is_cut)
    return record


def where(wanted: Filter) -> tuple[str, tuple[Any, ...]]:
    conditions: dict[str, Any] = {
        "tenant = ?": wanted.tenant,
        "subject = ?": wanted.subject,
        "state = ?": wanted.state,
        "tool = ?": wanted.tool,
        "wire = ?": wanted.wire,
        "family = ?": wanted.family,
        "waiting_for = ?": wanted.waiting_for,
        "seq < ?": wanted.before,
        "seq IN (SELECT seq FROM calls WHERE call_id = ?)": wanted.call_id,
    }
    given = {condition: value for condition, value in conditions.items() if value is not None}
    alive = _ALIVE.get(wanted.state) if wanted.state else None
    return " AND ".join([*given, *([alive] if alive else [])]) or "1", tuple(given.values())


_ALIVE = {
    State.PENDING: "seq IN (SELECT seq FROM calls INDEXED BY calls_pending WHERE state = 'PENDING')",
    State.PROCESSING: "seq IN (SELECT seq FROM calls INDEXED BY calls_processing WHERE state = 'PROCESSING')",
}
"""What lives is few, and found without a look at what has ended."""


def ending(cursor: apsw.Cursor, ended: Ending, now: float) -> tuple[Any, ...]:
    """As FINISH and its like take it."""
    kept, extra = _kept(cursor, ended.value), _kept(cursor, ended.extra)
    return (ended.state, ended.code, now, ended.duration_ms, *kept, ended.error, ended.effects, *extra)


def ran(cursor: apsw.Cursor, call: Ran, now: float, charges: Charges) -> tuple[Any, ...]:
    """A row of RECORD. Made for every call on the fast lane, so there is nothing between."""
    command, run, outcome = call
    caller, tool, error = run.caller, run.tool, outcome.error
    input, value = command.input_json, None if outcome.value is None else bytes(outcome.value)
    failure = None if error is None else encode(error.members())
    extra = None if outcome.extra is None else bytes(outcome.extra)
    result = len(value or b"") + len(failure or b"") + len(extra or b"")
    who = caller.tenant, caller.subject
    charges[who] = charges.get(who, 0) + charge_of(len(input), result)
    return (
        caller.tenant, caller.subject, command.family, run.call_id, command.wire, command.tool_id, tool.reference,
        *_kept(cursor, input), caller.user_id, run.trace_id, tool.on_lost,
        "COMPLETE" if error is None else "ERROR", "success" if error is None else error.code,
        now, now, outcome.duration_ms,
        *_kept(cursor, value), failure, None if error is None else error.effects, *_kept(cursor, extra),
    )  # fmt: skip


def refuse_long_queue(cursor: apsw.Cursor, call: NewCall, most: int) -> None:
    (waiting,) = cursor.execute(SQL.pending_of_offer, (call.offer, most)).fetchone() or (0,)
    if waiting >= most:
        raise queue_full(call.reference, most)


def record(cursor: apsw.Cursor, calls: Sequence[Ran], now: float) -> None:
    """Calls that have run already. What they are charged for is added up: triggers would do it for each of them."""
    charges: Charges = {}
    cursor.executemany(SQL.record, [ran(cursor, call, now, charges) for call in calls])
    cursor.executemany(SQL.add_stored, [(*who, bytes) for who, bytes in charges.items()])


_HELD = {
    "mcp_sessions": "notes WHERE kind = 'mcp session' AND expires_at > :now AND",
    "sessions": "sessions WHERE",
    "waiting_calls": "calls INDEXED BY calls_waiting_of WHERE state = 'PENDING' AND",
    "workers": "workers WHERE lease_until > :now AND name <> :besides AND",
}


def count_held(cursor: apsw.Cursor, what: Held, given: dict[str, Any]) -> int:
    whose = "tenant = :tenant" if given["subject"] is None else "tenant = :tenant AND subject = :subject"
    return int(first(cursor, f"SELECT count(*) FROM (SELECT 1 FROM {_HELD[what]} {whose} LIMIT :most)", given))


def sweep(cursor: apsw.Cursor, now: float, before: float, key_ttl_s: float, limit: int) -> int:
    # A key whose time is over is kept on while its call runs or its outcome is still there, and only then dropped.
    cursor.execute(SQL.keep_keys, {"now": now, "key_ttl_s": key_ttl_s})
    cursor.execute("DELETE FROM keys WHERE expires_at < ?", (now,))
    old = cursor.execute(SQL.old_calls, (before, limit)).fetchall()
    _remove(cursor, old)
    sessions = cursor.execute(SQL.old_sessions, (before, limit)).fetchall()
    cursor.executemany("DELETE FROM session_counts WHERE session = ?", sessions)
    cursor.executemany("DELETE FROM events WHERE session = ?", sessions)
    cursor.execute(SQL.old_notes, (now, limit))
    return len(old)


def erase(cursor: apsw.Cursor, tenant: str | None, user_id: str) -> int:
    """Removes the calls of a user that have ended, with what was kept because of them. Their keys stay taken: what was
    done once is not done again."""
    whose = {"tenant": tenant, "user_id": user_id}
    found = cursor.execute(SQL.calls_of_user, whose).fetchall()
    _remove(cursor, found)
    cursor.execute(SQL.erase_notes, whose)
    return len(found)


def _remove(cursor: apsw.Cursor, calls: Sequence[Any]) -> None:
    """Calls, as (number, and the blobs of what is kept out of its row), with all that belongs to them."""
    for table in ("calls", "questions", "answers", "call_events"):
        cursor.executemany(f"DELETE FROM {table} WHERE seq = ?", [(seq,) for seq, *_ in calls])
    blobs = [(blob,) for _, *kept in calls for blob in kept if blob is not None]
    cursor.executemany("DELETE FROM blobs WHERE id = ?", blobs)


def note_values(note: Note, expires_at: float) -> tuple[Any, ...]:
    """As its columns come in the statements."""
    return note.kind, note.tenant, note.subject, note.name, note.data, note.user_id, note.seq, expires_at


def call_events(cursor: apsw.Cursor, seq: int, after: int) -> list[tuple[int, bytes]]:
    told: list[Any] = cursor.execute(SQL.call_events, (seq, after)).fetchall()
    return told


def _kept(cursor: apsw.Cursor, data: bytes | None) -> tuple[bytes | None, int | None]:
    """In the row, or the number of where else it is."""
    if data is None or len(data) <= LARGE:
        return data, None
    cursor.execute("INSERT INTO blobs (data) VALUES (?)", (data,))
    return None, cursor.connection.last_insert_rowid()


# -- standings -------------------------------------------------------------------------------------


def standing(cursor: apsw.Cursor, where: str, values: tuple[Any, ...]) -> CallState | None:
    return next(iter(standings(cursor, where, values)), None)


def standings(cursor: apsw.Cursor, where: str, values: tuple[Any, ...]) -> list[CallState]:
    return [_standing(row) for row in cursor.execute(f"{SQL.standing} WHERE {where}", values).fetchall()]


def _standing(row: tuple[Any, ...]) -> CallState:
    found = CallState(*row)
    found.state, found.waiting_for = State(found.state), waiting_for_of(found.waiting_for)
    return found


def standing_for(cursor: apsw.Cursor, write: Write) -> CallState | None:
    if isinstance(write, ByNumber):
        return standing(cursor, "seq = ?", (write.seq,))
    return standing(cursor, "session = ? AND request = ?", (write.session, write.request))


def save(cursor: apsw.Cursor, before: CallState, judged: Judged) -> None:
    """Writes what was judged: the state, how the call ended, and whether that frees its key."""
    after, ended = judged.standing, judged.ending
    cursor.execute(_SAVE, (*(getattr(after, name) for name in _CHANGING), after.seq))
    if ended is not None:
        kept, extra = _kept(cursor, ended.value), _kept(cursor, ended.extra)
        cursor.execute(SQL.end, (ended.duration_ms, *kept, ended.error, *extra, after.seq))
        if frees_key(after.session, ended):
            cursor.execute(SQL.release_key, {"seq": after.seq})
    elif before.state in ENDED:
        cursor.execute(SQL.reopen, (after.deadline_at, after.seq))


def claimable(cursor: apsw.Cursor, wanted: ClaimFilter) -> tuple[str, tuple[Any, ...]]:
    """The condition for requests that somebody asks for, and may. What waits is found by an index for each tool, in
    order: a long line is not read to its end."""
    if wanted.state is not State.PENDING:
        return _in_any_state(wanted)
    offers = _called(cursor, wanted)
    who, limit = wanted.who, wanted.limit
    session = "" if wanted.session is None else " AND session = ?"
    given = () if wanted.session is None else (wanted.session,)
    own = (who.tenant, who.subject, *map(only_stars, wanted.tools), *given)
    found = [_OWN.format(named=_named(wanted), session=session, limit=limit)]
    houses = who.houses or []
    tenants = "" if who.houses is None else f" AND tenant IN ({', '.join('?' * len(houses))})"
    found += [_SERVED.format(tenants=tenants, session=session, limit=limit)] * len(offers)
    served = [value for offer in offers for value in (offer, *houses, *given)]
    return f"seq IN ({' UNION ALL '.join(found)})", (*own, *served)


def _called(cursor: apsw.Cursor, wanted: ClaimFilter) -> list[str]:
    """Of the tools that are asked for, those of which calls wait, the longest first. One statement has no room for as
    many as somebody may serve; and of those that it has room for, most are not called just now."""
    offers = wanted.offers
    if len(offers) <= 1:
        return offers
    houses = None if wanted.who.houses is None else encode(wanted.who.houses).decode()
    asked = {"offers": encode(offers).decode(), "houses": houses, "session": wanted.session}
    return [str(found) for (found,) in cursor.execute(SQL.called_of, {**asked, "limit": MOST_AT_ONCE}).fetchall()]


_OWN = (
    "SELECT seq FROM (SELECT seq FROM calls INDEXED BY calls_pending_of WHERE state = 'PENDING' AND queue = 'session' "
    "AND tenant = ? AND subject = ? AND ({named}) AND waiting_for IS NULL{session} ORDER BY seq LIMIT {limit:d})"
)
_SERVED = (
    "SELECT seq FROM (SELECT seq FROM calls INDEXED BY calls_offered WHERE state = 'PENDING' "
    "AND offer = ?{tenants} AND waiting_for IS NULL{session} ORDER BY seq LIMIT {limit:d})"
)


def _in_any_state(wanted: ClaimFilter) -> tuple[str, tuple[Any, ...]]:
    who, offers, references = wanted.who, wanted.offers, wanted.references
    houses = who.houses or []
    tenants = "" if who.houses is None else f" AND tenant IN ({', '.join('?' * len(houses))})"
    found = [
        f"(queue = 'session' AND tenant = ? AND subject = ? AND ({_named(wanted)})"
        f" OR queue = 'worker' AND (offer IN ({_places(offers)}) AND holder IS NULL"
        f" OR reference IN ({_places(references)}) AND substr(holder, 1, ?) = ?){tenants})"
    ]
    mine = (len(who.holders), who.holders)
    given: list[Any] = [who.tenant, who.subject, *map(only_stars, wanted.tools)]
    given += [*offers, *references, *mine, *houses]
    if wanted.state is not None:
        found.append(_ALIVE.get(wanted.state, f"state = '{wanted.state}'"))
    if wanted.session is not None:
        found.append("session = ?")
        given.append(wanted.session)
    return " AND ".join(found), tuple(given)


def superseded(cursor: apsw.Cursor, offers: Sequence[str], limit: int) -> list[int]:
    found: list[int] = []
    for offer in offers:
        if len(found) < limit:
            given = {"offer": offer, "whose": whose_of(offer), "limit": limit - len(found)}
            waiting: list[Any] = cursor.execute(SQL.superseded, given).fetchall()
            found += [seq for (seq,) in waiting]
    return found


def _places(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _named(wanted: ClaimFilter) -> str:
    return " OR ".join("tool GLOB ?" for _ in wanted.tools) or "1"
