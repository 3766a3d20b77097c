"""Calls as MCP's tasks. A task is a recorded call under another name; the two eras name its members differently.

In the older era (2025-11-25) a client gets a task's status by `tasks/get` and its result by `tasks/result`; in the
newer one `tasks/get` answers with everything.
"""

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
    """A task's status. A tool's failure is a result with `isError`, and so `completed`; a call that ended as an ERROR
    for any other reason has `failed`, or was `cancelled`."""
    if call.state not in ENDED:
        return "working" if call.waiting_for is None else "input_required"
    if call.code == "cancelled":
        return "cancelled"
    return "completed" if call.state is State.COMPLETE or call.code == _FAILED_AS_A_TOOL else "failed"


def task_of(call: CallRecord, revision: Revision, ttl_ms: int) -> dict[str, Any]:
    """The members of a task that are in every answer about it."""
    keep, poll = ("ttlMs", "pollIntervalMs") if revision.is_modern else ("ttl", "pollInterval")
    task: dict[str, Any] = {"taskId": call.key.call_id, "status": status_of(call)}
    if message := _message(call):
        task["statusMessage"] = message
    # The newest of its times that there is; never before it was made, should clocks of nodes differ.
    changed = call.finished_at or call.seen_at or call.started_at or call.created_at
    return {
        **task,
        "createdAt": _moment(call.created_at),
        "lastUpdatedAt": _moment(max(changed, call.created_at)),
        keep: ttl_ms,
        poll: POLL_MS,
    }


def encode_created(call: CallRecord, revision: Revision, ttl_ms: int) -> bytes:
    """The result of a `tools/call` that became a task."""
    task = task_of(call, revision, ttl_ms)
    if revision.is_modern:
        return _encode({"resultType": "task", **task, "_meta": revision.server_info})
    return _encode({"task": task, "_meta": {RELATED_TASK: {"taskId": call.key.call_id}}})


def encode_task(
    call: CallRecord, revision: Revision, ttl_ms: int, questions: Sequence[Question], result: bytes | None
) -> bytes:
    """The result of `tasks/get`; in the newer era with the task's questions, result or error."""
    task = task_of(call, revision, ttl_ms)
    if not revision.is_modern:
        return _encode(task)
    return _encode({"resultType": "complete", **detailed(task, call, revision, questions, result)})


def detailed(
    task: dict[str, Any], call: CallRecord, revision: Revision, questions: Sequence[Question], result: bytes | None
) -> dict[str, Any]:
    """A task with all that the newer era says of it: its questions, its result or its error."""
    members = dict(task)
    if members["status"] == "input_required":
        members["inputRequests"] = input_requests(questions, revision)
    elif members["status"] == "completed":
        members["result"] = msgspec.Raw(result or b"{}")
    elif members["status"] == "failed":
        members["error"] = {"code": INTERNAL_ERROR, "message": _message(call) or "The task failed"}
    return {**members, "_meta": revision.server_info}


def encode_listed(calls: Sequence[CallRecord], revision: Revision, ttl_ms: int, cursor: str | None) -> bytes:
    """One page of `tasks/list`."""
    page: dict[str, Any] = {"tasks": [task_of(call, revision, ttl_ms) for call in calls]}
    return _encode({**page, "nextCursor": cursor} if cursor is not None else page)


def _message(call: CallRecord) -> str | None:
    """The task's status in words: its error's message, or that of its last progress while it runs."""
    about = call.error if call.error is not None or call.state in ENDED else call.progress
    message = None if about is None else decode(about).get("message")
    return str(message) if message else None


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
