"""A session's events. Its row is locked while they are added, so that they are numbered without gaps; who locks several
takes them in one order, and always after the rows of their calls and before any keys."""

from collections.abc import Sequence

from msgspec import Struct

from ...model.lifecycle import ENDED, State, WaitingFor
from ...model.session import RequestEvent, SessionCounts, SessionEvent
from ...model.writes import DIRECT
from ..hints import Topic
from .connections import Connection
from .rows import SQL, PendingHints, Row, columns, encode


class Happened(Struct):
    """A request came, or its state or attempt changed."""

    session: str | None
    request: str | None
    tool: str
    was_open: bool
    state: State
    attempt: int
    waiting_for: WaitingFor | None


async def lock_sessions(connection: Connection, ids: Sequence[str]) -> dict[str, SessionCounts]:
    return {id: SessionCounts(*counts) for id, *counts in await connection.fetch(SQL.lock_sessions, sorted(ids))}


async def announce(connection: Connection, told: PendingHints, happened: Sequence[Happened]) -> None:
    """Within the transaction that made it happen."""
    ids = {each.session for each in happened if each.session is not None and each.session != DIRECT}
    if not ids:
        return
    counts = await lock_sessions(connection, list(ids))
    events = [event for each in happened if each.session in counts for event in _events(each, counts[each.session])]
    if events:
        changed = [(id, count.revision, count.open) for id, count in counts.items()]
        await connection.execute(SQL.announce, *columns(changed), *columns(events))
        told.update((Topic.SESSION, id) for id in counts)


def _events(happened: Happened, count: SessionCounts) -> list[Row]:
    session, before = happened.session or "", count.status
    count.open += (happened.state not in ENDED) - happened.was_open
    count.revision += 1
    said = RequestEvent(happened.request or "", happened.tool, happened.state, happened.attempt, happened.waiting_for)
    events: list[Row] = [(session, count.revision, "request", encode(said))]
    if count.status != before:
        count.revision += 1
        events.append((session, count.revision, "session", encode(SessionEvent(session, count.status))))
    return events
