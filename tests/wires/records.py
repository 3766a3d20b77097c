"""Calls as the ledger would have them."""

from typing import Any

import msgspec
from msgspec.structs import replace

from toolyard.model.errors import ToolError
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, CallRecord

PENDING = CallRecord(
    seq=1,
    key=CallKey("default", "ada", "s-1", "t-1"),
    keyed=True,
    wire="lifecycle",
    tool="find_locations",
    reference="find_locations",
    input=b'{"near":"harbour"}',
    fingerprint=b"",
    user_id=None,
    trace_id=None,
    sealed=None,
    on_lost="rerun",
    state=State.PENDING,
    code=None,
    waiting_for=None,
    attempt=0,
    holder=None,
    created_at=1.0,
    started_at=None,
    finished_at=None,
    duration_ms=None,
    value=None,
    error=None,
    queue="session",
    session="s-1",
    request="t-1",
)


def call(**members: Any) -> CallRecord:
    return replace(PENDING, **members)


def complete(value: Any, **members: Any) -> CallRecord:
    return call(state=State.COMPLETE, code="success", attempt=1, value=msgspec.json.encode(value), **members)


def failed(error: ToolError, **members: Any) -> CallRecord:
    encoded = msgspec.json.encode(error.members())
    return call(state=State.ERROR, code="tool_failed", attempt=1, error=encoded, **members)
