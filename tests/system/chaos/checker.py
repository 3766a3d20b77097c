"""The promises, held against a history. Pure: each check takes what was witnessed and gives what contradicts it, in
sentences; none, if the promise was kept.

How a stale write is seen: every tool returns the `run` that produced its value, with the name of its process and the
time when it began. What a holder completed must all come from one process, and must have begun after the attempt that
the ledger names. Who works on requests by hand knows the number of its attempt, and returns it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from typing import TypeVar

from .history import Claimed, Effect, Event, History, Named, Odd, Peeked, Row, Taken, Told, Untold

CLOCKS_MS = 2.0
"""By how much a database's clock and a process's may differ on one machine."""
NOT_THERE = 404
T = TypeVar("T", Told, Taken, Claimed, Peeked, Odd, Untold)

Check = Callable[[History], Iterator[str]]


def acknowledged_is_kept(history: History) -> Iterator[str]:
    """What somebody was told is in the ledger, the same."""
    rows = by_call(history.rows)
    for event in of(Told, history.events):
        if not any(not row.is_open and row.ended.agrees_with(event.ended) for row in rows[event.call]):
            yield f"{event.call} was told {event.ended} over {event.how}, but the ledger has {_shown(rows[event.call])}"
    for taken in of(Taken, history.events):
        there = rows[taken.call]
        if not there:
            yield f"{taken.call} was acknowledged, but is not in the ledger"
        elif taken.attempt is not None and not any(
            (row.attempt, row.ended.value) == (taken.attempt, taken.value) for row in there
        ):
            yield f"{taken.call}: the answer of attempt {taken.attempt} was acknowledged, but there is {_shown(there)}"
    for claimed in of(Claimed, history.events):
        if not any(row.attempt >= claimed.attempt for row in rows[claimed.call]):
            yield f"{claimed.call}: attempt {claimed.attempt} was given to {claimed.by}, but the ledger has no such"


def one_call_one_outcome(history: History) -> Iterator[str]:
    """All who were told how a call ended were told the same, unless they were told to try again."""
    told = defaultdict[Named, list[Told]](list)
    for event in of(Told, history.events):
        if not event.ended.can_retry:
            told[event.call].append(event)
    for call, events in told.items():
        for one, other in pairwise(events):
            if not one.ended.agrees_with(other.ended):
                yield f"{call} was told {one.ended} over {one.how} and {other.ended} over {other.how}"
    for call, rows in by_call(history.rows).items():
        final = [row for row in rows if not row.ended.can_retry]
        if len(final) > 1:
            yield f"{call} is in the ledger {len(final)} times: {_shown(final)}"


def no_late_write(history: History) -> Iterator[str]:
    """A value is of the attempt that the ledger names, and no attempt was given to two."""
    complete = [row for row in history.rows if row.ended.value is not None]
    for row in complete:
        value = row.ended.value or {}
        if value.get("attempt", row.attempt) != row.attempt:
            yield f"{row.call} is of attempt {row.attempt}, its value of attempt {value['attempt']}: {row.ended}"
        elif row.started_at is not None and value["began"] < row.started_at - CLOCKS_MS / 1000:
            early = row.started_at - value["began"]
            yield f"{row.call}: its value began {early:.3f} s before attempt {row.attempt}: {row.ended}"
    complete.sort(key=lambda row: row.holder or "")
    for holder, held in groupby(complete, key=lambda row: row.holder):
        processes = {str((row.ended.value or {})["process"]) for row in held}
        if len(processes) > 1:
            yield f"{holder} completed calls with values from {' and '.join(sorted(processes))}"
    given = defaultdict[tuple[Named, int], list[str]](list)
    for claimed in of(Claimed, history.events):
        given[claimed.call, claimed.attempt].append(claimed.by)
    for (call, attempt), those in given.items():
        if len(those) > 1:
            yield f"{call}: attempt {attempt} was given to {' and '.join(those)}"


def no_effect_twice(history: History) -> Iterator[str]:
    """A tool that may not be run again has its effect once at most, however its call ended, and is not started again
    once an attempt was lost. And what is complete has had its effect."""
    rows = defaultdict[str, list[Row]](list)
    for row in history.rows:
        rows[row.mark].append(row)
    had = defaultdict[int, list[Effect]](list)
    for effect in history.effects:
        for row in _rows_of(effect, rows[effect.mark]):
            had[row.seq].append(effect)
    for row in history.rows:
        effects = had[row.seq]
        if row.on_lost != "rerun" and len(effects) > 1 and not row.ended.can_retry:
            by = " and ".join(f"{effect.process} (run {effect.run})" for effect in effects)
            yield f"{row.call} of {row.tool} had its effect {len(effects)} times, by {by}; it ended as {row.code}"
        if row.on_lost != "rerun" and row.losses and row.code != "outcome_unknown":
            yield f"{row.call} of {row.tool} was lost and went on: attempt {row.attempt}, {row.code or row.state}"
        run = (row.ended.value or {}).get("run")
        if run is not None and all(effect.run != run for effect in effects):
            yield f"{row.call} is complete with run {run}, which had no effect"


def every_call_ends(history: History) -> Iterator[str]:
    """Nothing is left open when all is quiet, and nobody left without an answer."""
    for row in history.rows:
        if row.is_open:
            yield f"{row.call} of {row.tool} is left {row.state}, attempt {row.attempt}, held by {row.holder}"
    for untold in of(Untold, history.events):
        yield f"{untold.who} was never told how {untold.asked} ended"


def callers_are_walls(history: History) -> Iterator[str]:
    """Two callers use the same ids, and neither sees anything of the other's."""
    told_to = defaultdict[str, set[Named]](set)
    for event in of(Told, history.events):
        value = event.ended.value or {}
        if value.get("caller", event.call.who) != event.call.who:
            yield f"{event.call} was told what is {value['caller']}'s: {event.ended}"
        if "run" in value:
            told_to[value["run"]].add(event.call)
    for run, calls in told_to.items():
        if len(calls) > 1:
            yield f"run {run} was told to {' and '.join(sorted(map(str, calls)))}"
    for peeked in of(Peeked, history.events):
        if peeked.status != NOT_THERE:
            yield f"{peeked.who} looked for {peeked.path} and was told {peeked.status} {peeked.body}"


def no_odd_answers(history: History) -> Iterator[str]:
    """Nobody is told of a conflict where there is none, or of a defect."""
    for odd in of(Odd, history.events):
        yield f"{odd.who} asked {odd.asked} and was told {odd.status} {odd.body}"


PROMISES: dict[str, Check] = {
    "acknowledged and lost": acknowledged_is_kept,
    "two outcomes of one call": one_call_one_outcome,
    "late writes that won": no_late_write,
    "effects twice, or values without one": no_effect_twice,
    "calls that never ended": every_call_ends,
    "walls that were seen through": callers_are_walls,
    "answers that nobody should get": no_odd_answers,
}
"""By what it counts: each should be zero."""


def check(history: History) -> dict[str, list[str]]:
    """What contradicts each promise."""
    return {name: list(found(history)) for name, found in PROMISES.items()}


def of(kind: type[T], events: Iterable[Event]) -> Iterator[T]:
    return (event for event in events if isinstance(event, kind))


def by_call(rows: Iterable[Row]) -> defaultdict[Named, list[Row]]:
    found = defaultdict[Named, list[Row]](list)
    for row in rows:
        found[row.call].append(row)
    return found


def _is_of(effect: Effect, row: Row) -> bool:
    """Two callers may give one mark to their calls. A tool here is told who calls; one at a worker knows what its
    caller named the call, and who claims for itself the request."""
    return effect.caller == row.subject if effect.caller else effect.call_id in (row.request, row.call_id)


def _rows_of(effect: Effect, rows: Iterable[Row]) -> list[Row]:
    """Where two callers gave one id and one mark to calls of a worker's tool, the run tells whose effect it was."""
    there = [row for row in rows if _is_of(effect, row)]
    if effect.caller or len(there) == 1:
        return there
    return [row for row in there if (row.ended.value or {}).get("run") == effect.run]


def _shown(rows: Iterable[Row]) -> str:
    shown = [f"{row.state} {row.code or ''} (attempt {row.attempt}) {row.ended}" for row in rows]
    return "; ".join(shown) or "nothing"
