"""What goes into PostgreSQL's ledger and comes out of it: values as columns, rows as records."""

from collections.abc import Hashable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from ...model.lifecycle import State
from ...model.record import CallKey, CallRecord, Ending, NewCall, Ran
from ...model.writes import CallState, request_id
from ..hints import Topic
from ..sql_files import statements
from ..values import Begun, Note, begun_of, waiting_for_of

PendingHints = set[tuple[Topic, Hashable]]
"""What to give hints of once the write is durable."""
Row = tuple[Any, ...]

encode = msgspec.json.Encoder().encode
_STATES = {state.value: state for state in State}
NO_ENDING = (None,) * 7
PARTS = ("call", "cut_call", "size", "standing", "living", "changed", "lives", "found", "place", "fits", "wanted")
"""Of statements."""


def _composed() -> SimpleNamespace:
    found = statements("postgres")
    parts = {name: vars(found)[name] for name in PARTS}
    return SimpleNamespace(**{name: sql.format(**parts) for name, sql in vars(found).items()})


SQL = _composed()


def columns(rows: Iterable[Row]) -> list[Row]:
    """Each is a parameter."""
    return list(zip(*rows, strict=True))


def text(given: str) -> str:
    """PostgreSQL's text has no place for the character NUL."""
    return given.replace("\0", "\ufffd") if "\0" in given else given


def text_or_none(given: str | None) -> str | None:
    return None if given is None else text(given)


def key_values(key: CallKey) -> tuple[str, str, str, str]:
    return key.tenant, text(key.subject), text(key.family), text(key.call_id)


def new_values(call: NewCall, seq: int, turn: int) -> Row:
    """A row of BEGIN."""
    return (
        seq, *key_values(call.key), call.keyed, call.wire, text(call.tool), text(call.reference), call.input,
        call.fingerprint, text_or_none(call.user_id), text_or_none(call.trace_id), call.sealed, call.on_lost,
        call.queue, call.session, text_or_none(request_id(call)), turn, call.run_s, call.queue_s, call.total_s,
        *(NO_ENDING if call.ending is None else ending_values(call.ending)), call.waiting_for, call.offer,
    )  # fmt: skip


def note_values(note: Note, keep_s: float) -> Row:
    """As the parameters of `put_note` and `add_note`."""
    place = (text(note.kind), note.tenant, text(note.subject), text(note.name))
    return (*place, note.data, keep_s, text_or_none(note.user_id), note.seq)


def ending_values(ending: Ending) -> Row:
    return ending.state, ending.code, ending.duration_ms, ending.value, ending.error, ending.effects, ending.extra


def ran_values(call: Ran, seq: int) -> Row:
    """A row of RECORD. Made for every call on the fast lane, so there is nothing between."""
    command, run, outcome = call
    caller, tool, error = run.caller, run.tool, outcome.error
    return (
        seq, caller.tenant, caller.subject, command.family, text(run.call_id), command.wire, text(command.tool_id),
        tool.reference, command.input_json, text_or_none(caller.user_id), text_or_none(run.trace_id), tool.on_lost,
        "COMPLETE" if error is None else "ERROR", "success" if error is None else error.code, outcome.duration_ms,
        None if outcome.value is None else bytes(outcome.value), None if error is None else encode(error.members()),
        None if error is None else error.effects, None if outcome.extra is None else bytes(outcome.extra),
    )  # fmt: skip


def call_of(row: Sequence[Any]) -> CallRecord:
    seq, tenant, subject, family, call_id, keyed, *rest = row
    record = CallRecord(seq, CallKey(tenant, subject, family, call_id), keyed, *rest)
    record.state, record.waiting_for = _STATES[record.state], waiting_for_of(record.waiting_for)
    return record


def standing_of(row: Sequence[Any]) -> CallState:
    standing = CallState(*row)
    standing.state, standing.waiting_for = _STATES[standing.state], waiting_for_of(standing.waiting_for)
    return standing


def found_by(key: CallKey, fingerprint: bytes, row: Sequence[Any]) -> Begun:
    """What has the key."""
    return begun_of(key, fingerprint, None if row[0] is None else call_of(row))


def like(pattern: str) -> str:
    """`*` stands for anything, and nothing else does."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return text(escaped.replace("*", "%"))
