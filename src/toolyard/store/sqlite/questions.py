"""What running calls ask their clients, in SQLite's ledger. Nothing here commits or awaits."""

from collections.abc import Mapping

import apsw

from ..hints import Topic
from .rows import SQL, PendingHints, first

Held = tuple[int, int, str]
"""A call, an attempt at it, and the node that runs it."""


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
