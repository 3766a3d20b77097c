"""What calls and their clients say to each other in SQLite's ledger: sessions, the events they hear of their requests,
and the questions that running calls ask. Nothing here commits or awaits: each function is a part of a transaction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from ...model.lifecycle import ENDED, State
from ...model.record import CallKey, NewCall
from ...model.session import RequestEvent, Session, SessionCounts, SessionEvent, session_of
from ...model.writes import DIRECT
from ..hints import Topic
from ..values import Begun, key_conflict, waiting_for_of
from .rows import SQL, PendingHints, encode, first, known

Held = tuple[int, int, str]
"""A call, an attempt at it, and the node that runs it."""


# -- sessions --------------------------------------------------------------------------------------


def session(cursor: apsw.Cursor, id: str) -> Session | None:
    row = cursor.execute(SQL.session, (id,)).fetchone()
    if row is None:
        return None
    return session_of(id, row[1:])


def refuse_conflicts(cursor: apsw.Cursor, calls: Sequence[NewCall]) -> dict[CallKey, Begun]:
    """Those that are there already. Raises KeyConflict if an id stands for something else, there or in the message."""
    there: dict[CallKey, Begun] = {}
    fingerprints: dict[CallKey, bytes | None] = {}
    for call in calls:
        if call.key not in fingerprints and (taken := known(cursor, call.key)) is not None:
            there[call.key] = taken
            fingerprints[call.key] = taken.known.fingerprint if taken.known else taken.tombstone
        if not call.has(fingerprints.setdefault(call.key, call.fingerprint)):
            raise key_conflict(call.key)
    return there


def next_turn(cursor: apsw.Cursor, id: str) -> int:
    """The turn that new tool uses belong to: another one if all that came before has ended."""
    there = _counts(cursor, id)
    if there is None:
        return 0
    turn = there.turn if there.open else there.turn + 1
    cursor.execute("UPDATE session_counts SET turn = ? WHERE session = ?", (turn, id))
    return turn


def _counts(cursor: apsw.Cursor, id: str) -> SessionCounts | None:
    """What changes with each request. The rest of a session may be megabytes."""
    row: Any = cursor.execute(SQL.session_counts, (id,)).fetchone()
    return None if row is None else SessionCounts(*row)


def announce(cursor: apsw.Cursor, told: PendingHints, seq: int, *, was_open: bool, now: float) -> None:
    """The events of a request that came or changed."""
    row = cursor.execute(
        "SELECT session, request, tool, state, attempt, waiting_for FROM calls WHERE seq = ?", (seq,)
    ).fetchone()
    there = _counts(cursor, row[0]) if row and row[0] != DIRECT else None
    if row is None or there is None:
        return
    id, before, is_open = row[0], there.status, row[3] not in ENDED
    there.open += is_open - was_open
    there.revision += 1
    event = RequestEvent(row[1], row[2], State(row[3]), row[4], waiting_for_of(row[5]))
    cursor.execute(SQL.add_event, (id, there.revision, "request", encode(event)))
    if there.status != before:
        there.revision += 1
        changed = encode(SessionEvent(id, there.status))
        cursor.execute(SQL.add_event, (id, there.revision, "session", changed))
    cursor.execute(SQL.save_session, (there.revision, there.turn, there.open, now, id))
    told.add((Topic.SESSION, id))


# -- questions -------------------------------------------------------------------------------------


def ask(cursor: apsw.Cursor, told: PendingHints, held: Held, name: str, question: bytes, *, now: float) -> bytes | None:
    """What it was answered with before; None where it is open now, or nothing was done."""
    seq = held[0]
    if first(cursor, SQL.runs_here, held) is None:
        return None
    answer: bytes | None = first(cursor, SQL.answered, (seq, name))
    if answer is None:
        cursor.execute(SQL.add_question, {"seq": seq, "name": name, "question": question, "now": now})
        cursor.execute(SQL.wait_for_answer, (seq,))
        told.add((Topic.QUESTION, seq))
    return answer


def answer(cursor: apsw.Cursor, told: PendingHints, seq: int, answers: Mapping[str, bytes], now: float) -> None:
    if first(cursor, SQL.lives, (seq,)) is None:
        return
    for name, given in answers.items():
        values = {"seq": seq, "name": name, "answer": given, "now": now}
        if cursor.execute(SQL.answer_question, values).fetchall():
            told.add((Topic.QUESTION, seq))
    cursor.execute(SQL.wait_no_more, {"seq": seq})
