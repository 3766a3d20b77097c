"""Calls as tasks, in both eras' words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...model.channel import Question
from ...model.json_value import decode
from ...model.lifecycle import ENDED, State
from ...model.record import CallRecord
from .envelope import INTERNAL_ERROR
from .params import RELATED_TASK
from .questions import input_requests
from .revisions import Revision

POLL_MS = 1000
_encode = msgspec.json.Encoder().encode
_FAILED_AS_A_TOOL = "tool_failed"


def status_of(call: CallRecord) -> str:
    """A tool's failure is a result, too; any other end that is not one is a failure of the task."""
    if call.state not in ENDED:
        return "working" if call.waiting_for is None else "input_required"
    if call.code == "cancelled":
        return "cancelled"
    return "completed" if call.state is State.COMPLETE or call.code == _FAILED_AS_A_TOOL else "failed"


def task_of(call: CallRecord, revision: Revision, ttl_ms: int) -> dict[str, Any]:
    """What is said of a task wherever it is named."""
    keep, poll = ("ttlMs", "pollIntervalMs") if revision.is_modern else ("ttl", "pollInterval")
    made: dict[str, Any] = {"taskId": call.key.call_id, "status": status_of(call)}
    if message := _message(call):
        made["statusMessage"] = message
    changed = call.finished_at or call.seen_at or call.started_at or call.created_at
    return {
        **made,
        "createdAt": _moment(call.created_at),
        "lastUpdatedAt": _moment(max(changed, call.created_at)),
        keep: ttl_ms,
        poll: POLL_MS,
    }


def encode_created(call: CallRecord, revision: Revision, ttl_ms: int) -> bytes:
    """The result of a request that became a task."""
    task = task_of(call, revision, ttl_ms)
    if revision.is_modern:
        return _encode({"resultType": "task", **task, "_meta": revision.server_info})
    return _encode({"task": task, "_meta": {RELATED_TASK: {"taskId": call.key.call_id}}})


def encode_task(
    call: CallRecord, revision: Revision, ttl_ms: int, questions: Sequence[Question], result: bytes | None
) -> bytes:
    """`tasks/get`. In the newer era with all there is to know: what it asks, how it ended."""
    task = task_of(call, revision, ttl_ms)
    if not revision.is_modern:
        return _encode(task)
    return _encode({"resultType": "complete", **detailed(task, call, revision, questions, result)})


def detailed(
    task: dict[str, Any], call: CallRecord, revision: Revision, questions: Sequence[Question], result: bytes | None
) -> dict[str, Any]:
    made = dict(task)
    if made["status"] == "input_required":
        made["inputRequests"] = input_requests(questions, revision)
    elif made["status"] == "completed":
        made["result"] = msgspec.Raw(result or b"{}")
    elif made["status"] == "failed":
        made["error"] = {"code": INTERNAL_ERROR, "message": _message(call) or "The task failed"}
    return {**made, "_meta": revision.server_info}


def encode_listed(calls: Sequence[CallRecord], revision: Revision, ttl_ms: int, cursor: str | None) -> bytes:
    """`tasks/list`."""
    made: dict[str, Any] = {"tasks": [task_of(call, revision, ttl_ms) for call in calls]}
    return _encode({**made, "nextCursor": cursor} if cursor is not None else made)


def _message(call: CallRecord) -> str | None:
    if call.error is not None:
        said = decode(call.error).get("message")
        return str(said) if said else None
    if call.progress is not None and call.state not in ENDED:
        said = decode(call.progress).get("message")
        return str(said) if said else None
    return None


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
