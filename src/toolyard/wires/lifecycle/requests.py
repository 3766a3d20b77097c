"""Requests: calls that somebody other than the server carries out. The server's side: heartbeats, responses and claims
are decoded, and the answers to them encoded. (`worker_client` is the other side.)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from ...model.call import CallContext
from ...model.channel import Question
from ...model.errors import InvalidInput, Problem, ToolError
from ...model.json_value import decode
from ...model.judge import Verdict
from ...model.lifecycle import State
from ...model.record import CallRecord
from ...model.tool import Version
from ...model.worker import Claim, Heartbeat, Renewal, Response
from ...model.writes import LONGEST_REQUEST_ID
from ..contract import JSON, Reply
from ..errors import encode
from ..json_body import (
    ID,
    Members,
    an_id,
    an_object,
    flag,
    matching,
    number,
    number_from,
    one_of,
    parse,
    parse_or_empty,
    text,
    whole_from,
)
from ..oxp.messages import context_json
from .calls import waiting_json

ATTEMPT = b"toolyard-attempt"
"""The header that says which attempt a write is about, and so fences it."""
WORKER = b"toolyard-worker"
"""The header that says which of a subject's workers is writing."""
MOST_CLAIMED = 100
MOST_PATTERNS = 100
MOST_RENEWED = 1000
LONGEST_WAIT_S = 60.0
LARGEST = 2**53 - 1
"""The largest whole number that every JSON implementation can hold."""
LONGEST_ERROR, LARGEST_PROGRESS = 64 * 2**10, 64 * 2**10

_attempt = whole_from(1, LARGEST)
_request_id = an_id(LONGEST_REQUEST_ID)
_pattern = matching(
    r"[A-Za-z0-9_.*-]{1,128}(@[0-9]{1,9}(\.[0-9]{1,9}\.[0-9]{1,9})?)?",
    "Must be a tool's id or name, with * where anything may stand: Reports.*, Reports.Build@1.0.0",
)
worker_name = matching(r"[A-Za-z0-9_.-]{1,128}", "Must have 1 to 128 letters, digits, or any of _ - .")


def decode_heartbeat(body: bytes) -> Heartbeat:
    """A heartbeat for one request: somebody works on it or, with the state ERROR, has failed at it."""
    members = parse(body)
    state = members.one("state", one_of(State.PROCESSING, State.ERROR))
    error = _error(members) if state == State.ERROR else None
    # The document's example of an ERROR has no `heartbeat`.
    heartbeat = members.one("heartbeat", number) if error is None else members.maybe("heartbeat", number, None)
    if state == State.PROCESSING and "error" in members:
        members.refuse("error", "Goes with the state ERROR alone")
    members.done()
    return Heartbeat(heartbeat, error)


def decode_response(body: bytes) -> Response:
    """The result of a request. All members of `response` but `state` reach the model as they are."""
    members = parse(body)
    response = members.below("response")
    response.one("state", one_of(State.COMPLETE))
    result = response.rest()
    members.done()
    return Response(result)


def decode_claim(body: bytes) -> Claim:
    """A worker's demand for requests. In its patterns, `@1` means `@1.0.0`."""
    members = parse_or_empty(body)
    tools = members.each("tools", _pattern, 1, MOST_PATTERNS) if "tools" in members else []
    limit = members.maybe("limit", whole_from(1, MOST_CLAIMED), 1)
    wait_s = members.maybe("wait", number_from(0, LONGEST_WAIT_S), 0.0)
    members.done()
    return Claim(tuple(map(_with_version, tools)), limit, wait_s)


def decode_heartbeats(body: bytes) -> list[Renewal]:
    """The heartbeats for many requests at once."""
    members = parse(body)
    renewals = [_renewal(each) for each in members.all_below("heartbeats", 1, MOST_RENEWED)]
    members.done()
    return renewals


def decode_attempt(headers: Mapping[bytes, bytes]) -> int | None:
    """The attempt that a write is about, if its header says so."""
    given = headers.get(ATTEMPT)
    if given is None:
        return None
    if not (given.isdigit() and len(given) <= 15):  # a number that every store can hold
        raise InvalidInput((Problem("Toolyard-Attempt", "Must be the number of an attempt"),))
    return int(given)


def decode_worker_name(headers: Mapping[bytes, bytes]) -> str:
    """The worker that sent a write, if its header says so."""
    given = headers.get(WORKER)
    if given is None:
        return ""
    try:
        return worker_name(given.decode("latin-1"))
    except ValueError as error:
        raise InvalidInput((Problem("Toolyard-Worker", str(error)),)) from None


def _error(members: Members) -> ToolError:
    """The error of a failed request: a text, as the document has it, or toolyard's object with more members."""
    if not isinstance(members.maybe("error", lambda value: value, None), dict):
        return ToolError(members.one("error", _text_or_error) or "The tool failed")
    error = members.below("error")
    failure = ToolError(
        error.one("message", _error_text) or "The tool failed",
        developer_message=error.maybe("developer_message", _error_text, None),
        can_retry=error.maybe("can_retry", flag, None),
        retry_after_ms=error.maybe("retry_after_ms", whole_from(0, LARGEST), None),
        additional_prompt_content=error.maybe("additional_prompt_content", _error_text, None),
    )
    error.close()
    return failure


def _text_or_error(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("Must be a string, or an object with a message")
    return _error_text(value)


def _error_text(value: Any) -> str:
    """An error is read by people and models, and lists of calls have it whole."""
    if len(text(value)) > LONGEST_ERROR:
        raise ValueError(f"Must have at most {LONGEST_ERROR} characters")
    return str(value)


def _progress(value: Any) -> dict[str, Any]:
    """How far a call is: it is said again and again, and lists of calls have it whole."""
    if len(encode(an_object(value))) > LARGEST_PROGRESS:
        raise ValueError(f"Must have at most {LARGEST_PROGRESS} bytes")
    return dict(value)


def _renewal(members: Members) -> Renewal:
    renewal = Renewal(
        members.one("sessionId", ID),
        members.one("requestId", _request_id),
        members.one("attempt", _attempt),
        members.maybe("progress", _progress, None),
    )
    members.close()
    return renewal


def _with_version(pattern: str) -> str:
    name, at, version = pattern.partition("@")
    return f"{name}@{Version.parse(version)}" if at else name


# -- answers ----------------------------------------------------------------------------------------


def encode_empty(attempt: int | None = None) -> Reply:
    """A write was accepted. The document wants an empty body, so the attempt is in a header."""
    return Reply(200, b"", [] if attempt is None else [(ATTEMPT, b"%d" % attempt)])


def encode_claims(claims: Sequence[tuple[CallRecord, CallContext]], lease_ms: int) -> Reply:
    """The requests that a worker got, each with the context that its tool needs."""
    return _json(200, {"claims": [_claim_json(call, context, lease_ms) for call, context in claims]})


def encode_verdicts(verdicts: Sequence[tuple[str, Verdict | None]]) -> Reply:
    """The answers to many heartbeats, in order, each as a heartbeat of its own would have been answered."""
    return _json(200, {"results": [_verdict_json(request, verdict) for request, verdict in verdicts]})


def encode_request(call: CallRecord, questions: Sequence[Question] = ()) -> Reply:
    """One request. `questions` are those that it waits for a person to answer."""
    return _json(200, request_json(call) | waiting_json(questions))


def encode_requests(calls: Sequence[CallRecord]) -> Reply:
    return _json(200, {"requests": list(map(request_json, calls))})


def request_json(call: CallRecord) -> dict[str, Any]:
    """All that is known of a request."""
    members: dict[str, Any] = {"sessionId": call.session, **standing_json(call)}
    if call.input:
        members["input"] = Raw(call.input)
    if call.heartbeat is not None:
        members["heartbeat"] = int(call.heartbeat) if call.heartbeat.is_integer() else call.heartbeat
    if call.seen_at is not None:
        members["lastSeen"] = call.seen_at
    if call.state is State.COMPLETE:
        members["response"] = Raw(call.value or b"null")
    elif call.state is State.ERROR:
        members["error"] = ToolError.from_members(decode(call.error or b"{}")).message
    return members


def standing_json(call: CallRecord) -> dict[str, Any]:
    """A request's state, without its input and result."""
    members: dict[str, Any] = {
        "requestId": call.request,
        "tool": call.tool,
        "state": call.state,
        "attempt": call.attempt,
    }
    if call.waiting_for is not None:
        members["waitingFor"] = call.waiting_for
    return members


def _claim_json(call: CallRecord, context: CallContext, lease_ms: int) -> dict[str, Any]:
    members: dict[str, Any] = {
        "sessionId": call.session,
        "requestId": call.request,
        "tool": call.tool if call.queue == "session" else call.reference,
        "input": Raw(call.input),
        "context": context_json(context),
        "attempt": call.attempt,
        "leaseMs": lease_ms,
        "caller": {"tenant": call.key.tenant, "subject": call.key.subject},
    }
    if call.user_id is not None:
        members["caller"]["userId"] = call.user_id
    if call.trace_id is not None:
        members["traceId"] = call.trace_id
    return members


def _verdict_json(request: str, verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None:
        return {"requestId": request, "status": 404}
    if verdict.reason is None:
        return {"requestId": request, "status": 200}
    return {"requestId": request, "status": 409, "reason": verdict.reason}


def _json(status: int, body: Any) -> Reply:
    return Reply(status, encode(body), [JSON])
