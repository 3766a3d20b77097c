"""Requests that others work on: they claim them, give signs of life, and answer.

A sign of life from whoever holds a request, and its answer, are each one statement for many of them, which changes only
what `model.standing` would let it change. All others are judged one by one, under lock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..model.record import CallRecord
from ..model.standing import DIRECT, Answer, Beat, HandBack, Judged, Limits, Standing, Who
from .contract import Wanted
from .hints import Topic
from .postgres_events import Happened, announce
from .postgres_link import Connection
from .postgres_rows import SQL, Row, Told, call_of, columns, ending_values, like, standing_of, text
from .postgres_standing import Request, judge_requests

R = TypeVar("R", Beat, Answer)
LARGEST_ATTEMPT = 2**31 - 1
MOST_LOOKED_AT = 5000
Place = tuple[str, str]
"""A session, and an id in it."""


async def claim(
    connection: Connection, again: bool, wanted: Wanted, token: int, limits: Limits, told: Told
) -> list[CallRecord]:
    """`token` is a number that no other claim has."""
    async with connection.transaction():
        claims = await _claimed_before(connection, token) if again else []
        if not claims:
            claims = await _claim(connection, wanted, token, limits)
            await announce(connection, told, [_claimed(call) for call in claims])
    return sorted(claims, key=lambda call: (call.created_at, call.seq))


async def _claim(connection: Connection, wanted: Wanted, token: int, limits: Limits) -> list[CallRecord]:
    """Where so many others claim at this moment that all that was looked at is theirs, looks further."""
    look_at = wanted.limit + 16
    while True:
        rows = await connection.fetch(SQL.claim, token, *_claimable(wanted), look_at, limits.lease_s)
        claims = [call_of(row) for seen, *row in rows if row[0] is not None]
        if claims or rows[0][0] < look_at or look_at > MOST_LOOKED_AT:
            return claims
        look_at *= 4


async def _claimed_before(connection: Connection, token: int) -> list[CallRecord]:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", token)
    return [call_of(row) for row in await connection.fetch(SQL.claimed, token)]


def _claimable(wanted: Wanted) -> tuple[Any, ...]:
    who = wanted.who
    tools = [like(tool) for tool in wanted.tools] or None
    session = None if wanted.session is None else text(wanted.session)
    references = [text(reference) for reference in wanted.references]
    return references, who.tenant, text(who.subject), tools, session, wanted.limit, text(who.holder)


def _claimed(call: CallRecord) -> Happened:
    return Happened(call.session, call.request, call.tool, True, call.state, call.attempt, call.waiting_for)


class _Whos:
    """Those who write, by number, and what each of them serves."""

    def __init__(self) -> None:
        self._numbers: dict[Who, int] = {}

    def number(self, who: Who) -> int:
        return self._numbers.setdefault(who, len(self._numbers))

    def values(self) -> list[Sequence[Any]]:
        """The first parameters of what {fits} is in."""
        people = [(number, who.tenant, text(who.subject), text(who.holder)) for who, number in self._numbers.items()]
        serving = [(number, text(tool)) for who, number in self._numbers.items() for tool in who.serves]
        return [*columns(people), *(columns(serving) or ([], []))]


async def beat(
    connection: Connection, again: bool, beats: Sequence[Beat], limits: Limits, told: Told
) -> list[Judged | None]:
    whos, first = _Whos(), _first_of_each(beats)
    rows = [
        (*place, beat.attempt, whos.number(beat.who), beat.heartbeat, beat.progress) for place, beat in first.items()
    ]
    done = await _written(connection, SQL.beat, whos, [limits.lease_s], rows)
    verdicts = [_verdict(done, first, beat) for beat in beats]
    return await _and_the_others(connection, again, beats, verdicts, limits, told)


async def answer(
    connection: Connection, again: bool, answers: Sequence[Answer | HandBack], limits: Limits, told: Told
) -> list[Judged | None]:
    """Those that a session has to be told of, and those that free a key, are judged."""
    whos, first = _Whos(), _first_of_each([each for each in answers if isinstance(each, Answer) and _is_plain(each)])
    rows = [
        (id, each.attempt, whos.number(each.who), *ending_values(each.ending), each.digest)
        for (_, id), each in first.items()
    ]
    done = await _written(connection, SQL.answer, whos, [], rows)
    told.update((Topic.ENDED, standing.seq) for standing in done.values())
    verdicts = [_verdict(done, first, each) for each in answers]
    return await _and_the_others(connection, again, answers, verdicts, limits, told)


def _is_plain(answer: Answer) -> bool:
    return answer.session == DIRECT and not answer.ending.releases_key


def _first_of_each(writes: Iterable[R]) -> dict[Place, R]:
    """One statement changes a row once: who comes second about the same request is judged."""
    first: dict[Place, R] = {}
    for write in writes:
        if write.attempt is None or 0 <= write.attempt <= LARGEST_ATTEMPT:
            first.setdefault(_place(write), write)
    return first


def _place(write: Request) -> Place:
    return text(write.session), text(write.request)


async def _written(
    connection: Connection, sql: str, whos: _Whos, given: list[float], rows: list[Row]
) -> dict[Place, Standing]:
    if not rows:
        return {}
    changed = [standing_of(row) for row in await connection.fetch(sql, *whos.values(), *given, *columns(rows))]
    return {(standing.session or "", standing.request or ""): standing for standing in changed}


def _verdict(done: dict[Place, Standing], first: Mapping[Place, Request], write: Request) -> Judged | None:
    place = _place(write)
    if first.get(place) is not write or place not in done:
        return None
    return Judged(done[place], ending=write.ending if isinstance(write, Answer) else None)


async def _and_the_others(
    connection: Connection,
    again: bool,
    writes: Sequence[Request],
    verdicts: list[Judged | None],
    limits: Limits,
    told: Told,
) -> list[Judged | None]:
    left = [index for index, verdict in enumerate(verdicts) if verdict is None]
    if left:
        async with connection.transaction():
            judged = await judge_requests(connection, again, [writes[index] for index in left], limits, told)
        for index, verdict in zip(left, judged, strict=True):
            verdicts[index] = verdict
    return verdicts
