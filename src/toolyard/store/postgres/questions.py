"""What running calls ask their clients. Whoever asks or answers locks the call's row first, so that questions have one
order and a call never waits for what was answered a moment ago."""

from collections.abc import Mapping

from ..hints import Topic
from .connections import Connection
from .rows import SQL, PendingHints, text

Held = tuple[int, int, str]
"""A call, an attempt at it, and the node that runs it."""


async def ask(
    connection: Connection, again: bool, held: Held, name: str, question: bytes, told: PendingHints
) -> bytes | None:
    """What it was answered with before; None where it is open now, or nothing was done."""
    seq = held[0]
    async with connection.transaction():
        if await connection.fetchval(SQL.lock_held, *held) is None:
            return None
        answer: bytes | None = await connection.fetchval(SQL.answered, seq, text(name))
        if answer is None:
            await connection.execute(SQL.ask, seq, text(name), question)
            told.add((Topic.QUESTION, seq))
    return answer


async def answer(
    connection: Connection, again: bool, seq: int, answers: Mapping[str, bytes], told: PendingHints
) -> None:
    given = {text(name): answer for name, answer in answers.items()}
    async with connection.transaction():
        if await connection.fetchval(SQL.lock_living, seq) is None:
            return
        if await connection.fetch(SQL.answer_questions, seq, list(given), list(given.values())):
            told.add((Topic.QUESTION, seq))
        await connection.execute(SQL.wait_no_more, seq)
