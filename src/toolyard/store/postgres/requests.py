"""Requests that others work on: they claim them, give signs of life, and answer.

A sign of life from whoever holds a request, and its answer, are each one statement for many of them, which changes only
what `model.judge` would. All others are judged one by one, under lock.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from ...model.judge import Verdict, verdict_of
from ...model.lifecycle import State
from ...model.record import CallKey, CallRecord
from ...model.writes import DIRECT, Answer, Claimant, HandBack, HeartbeatWrite, LeaseTerms, RequestWrite
from ..hints import Topic
from ..values import ClaimFilter
from .connections import Connection
from .judged_writes import judge_requests
from .rows import SQL, PendingHints, Row, call_of, columns, ending_values, like, text
from .session_events import Happened, announce

R = TypeVar("R", HeartbeatWrite, Answer)
LARGEST_ATTEMPT = 2**31 - 1
MORE = 16
"""Requests that a claim looks at besides those that it wants: others may be taking some at the same moment."""
Place = tuple[str, str]
"""A session, and an id in it."""


async def claim(
    connection: Connection, again: bool, wanted: ClaimFilter, token: int, terms: LeaseTerms, told: PendingHints
) -> list[CallRecord]:
    """`token` is a number that no other claim has. One statement is enough where no session has to be told of it."""
    if not again and (rows := await _look(connection, wanted, token, terms, of_sessions=False)):
        return _oldest_first(_claimed_calls(rows, wanted.who, terms))
    async with connection.transaction():
        claims = await _claimed_before(connection, token) if again else []
        if not claims:
            claims = await _claim(connection, wanted, token, terms)
            await announce(connection, told, [_claimed(call) for call in claims])
    return _oldest_first(claims)


async def _claim(connection: Connection, wanted: ClaimFilter, token: int, terms: LeaseTerms) -> list[CallRecord]:
    """Where others claim at the same moment, looks further until there is enough or no more. Where they take all that
    is looked at there is nothing, and the next look finds what they left."""
    claims: list[CallRecord] = []
    left, more = wanted, MORE
    while True:
        rows = await _look(connection, left, token, terms, more)
        claims += _claimed_calls(rows, wanted.who, terms)
        limit, most_bytes = wanted.limit - len(claims), wanted.most_bytes - sum(call.size for call in claims)
        if not rows or limit == 0 or most_bytes <= 0 or rows[0][0] < left.limit + more:
            return claims
        left, more = replace(wanted, limit=limit, most_bytes=most_bytes), 4 * (left.limit + more) - limit


async def _look(
    connection: Connection,
    wanted: ClaimFilter,
    token: int,
    terms: LeaseTerms,
    more: int = MORE,
    *,
    of_sessions: bool = True,
) -> list[Row]:
    """Claims what can be had of what is wanted and so many `more`. Each row begins with how many were looked at."""
    look_at = wanted.limit + more
    return await connection.fetch(
        SQL.claim, token, *_claimable(wanted), wanted.limit, look_at, terms.lease_s, wanted.who.houses,
        wanted.most_bytes, of_sessions,
    )  # fmt: skip


def _claimed_calls(rows: list[Row], who: Claimant, terms: LeaseTerms) -> list[CallRecord]:
    """Calls as their claim left them. What it wrote itself, or found empty, is not read back."""
    holder = text(who.holder)
    return [
        CallRecord(
            seq, CallKey(tenant, subject, family, call_id), keyed, wire, tool, reference, input, fingerprint, user_id,
            trace_id, sealed, on_lost, State.PROCESSING, None, None, attempt, holder, created_at, now, None, None, None,
            None, queue, session, request, turn, losses, now + terms.lease_s, None, now, None, effects, offer,
        )
        for (
            _, now, seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id,
            trace_id, sealed, on_lost, attempt, created_at, queue, session, request, turn, losses, effects, offer,
        ) in rows
    ]  # fmt: skip


def _oldest_first(claims: list[CallRecord]) -> list[CallRecord]:
    return sorted(claims, key=attrgetter("created_at", "seq"))


async def _claimed_before(connection: Connection, token: int) -> list[CallRecord]:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", token)
    return [call_of(row) for row in await connection.fetch(SQL.claimed, token)]


def _claimable(wanted: ClaimFilter) -> tuple[Any, ...]:
    who = wanted.who
    tools = [like(tool) for tool in wanted.tools] or None
    session = None if wanted.session is None else text(wanted.session)
    return wanted.offers, who.tenant, text(who.subject), text(who.holder), tools, session


def _claimed(call: CallRecord) -> Happened:
    return Happened(call.session, call.request, call.tool, True, call.state, call.attempt, call.waiting_for)


class _Whos:
    """Those who write, by number, and what each of them serves."""

    def __init__(self) -> None:
        self._numbers: dict[Claimant, int] = {}

    def number(self, who: Claimant) -> int:
        return self._numbers.setdefault(who, len(self._numbers))

    def values(self) -> list[Sequence[Any]]:
        """The first parameters of what {fits} is in."""
        people = [(number, who.tenant, text(who.subject), text(who.holder)) for who, number in self._numbers.items()]
        serving = [(number, offer) for who, number in self._numbers.items() for offer in who.serves]
        free = [number for who, number in self._numbers.items() if who.houses is None]
        housed = [(number, text(house)) for who, number in self._numbers.items() for house in who.houses or ()]
        beginnings = [text(who.holders) for who in self._numbers]
        return [*columns(people), *(columns(serving) or ([], [])), free, *(columns(housed) or ([], [])), beginnings]


async def beat(
    connection: Connection, again: bool, beats: Sequence[HeartbeatWrite], terms: LeaseTerms, told: PendingHints
) -> list[Verdict | None]:
    whos, first = _Whos(), _first_of_each(enumerate(beats))
    rows = [(*place, each.attempt, whos.number(each.who), each.heartbeat, each.progress) for place, (_, each) in first]
    # The statement changes those that fit and says which; whatever it left alone is judged under lock, for its reason.
    verdicts: list[Verdict | None] = [None] * len(beats)
    for ordinal, seq, attempt in await _written(connection, SQL.beat, whos, [terms.lease_s], rows):
        _, (index, _) = first[ordinal - 1]
        verdicts[index] = Verdict(seq, attempt, State.PROCESSING)
    return await _and_the_others(connection, again, beats, verdicts, terms, told)


async def answer(
    connection: Connection, again: bool, answers: Sequence[Answer | HandBack], terms: LeaseTerms, told: PendingHints
) -> list[Verdict | None]:
    """Those that a session has to be told of, and those that free a key, are judged."""
    plain = [(index, each) for index, each in enumerate(answers) if isinstance(each, Answer) and _is_plain(each)]
    whos, first = _Whos(), _first_of_each(plain)
    rows = [
        (*place, each.attempt, whos.number(each.who), *ending_values(each.ending), each.digest)
        for place, (_, each) in first
    ]
    verdicts: list[Verdict | None] = [None] * len(answers)
    for ordinal, seq, attempt in await _written(connection, SQL.answer, whos, [], rows):
        _, (index, each) = first[ordinal - 1]
        verdicts[index] = Verdict(seq, attempt, each.ending.state)
        told.add((Topic.ENDED, seq))
    return await _and_the_others(connection, again, answers, verdicts, terms, told)


def _is_plain(answer: Answer) -> bool:
    return answer.session == DIRECT and not answer.ending.releases_key


def _first_of_each(writes: Iterable[tuple[int, R]]) -> list[tuple[Place, tuple[int, R]]]:
    """Which request each is about. One statement changes a row once: who comes second about the same is judged."""
    first: dict[Place, tuple[int, R]] = {}
    for index, write in writes:
        if write.attempt is None or 0 <= write.attempt <= LARGEST_ATTEMPT:
            first.setdefault((text(write.session), text(write.request)), (index, write))
    return sorted(first.items(), key=itemgetter(0))  # all nodes take them in the same order


async def _written(connection: Connection, sql: str, whos: _Whos, given: list[float], rows: list[Row]) -> list[Row]:
    """Of those that it changed: which of the rows it was, counted from 1, its number and its attempt."""
    return await connection.fetch(sql, *whos.values(), *given, rows) if rows else []


async def _and_the_others(
    connection: Connection,
    again: bool,
    writes: Sequence[RequestWrite],
    verdicts: list[Verdict | None],
    terms: LeaseTerms,
    told: PendingHints,
) -> list[Verdict | None]:
    left = [index for index, verdict in enumerate(verdicts) if verdict is None]
    if left:
        async with connection.transaction():
            judged = await judge_requests(connection, again, [writes[index] for index in left], terms, told)
        for index, each in zip(left, judged, strict=True):
            verdicts[index] = verdict_of(each)
    return verdicts
