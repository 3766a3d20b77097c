"""Calls of every wire as their own callers see them in the lifecycle API, and that API's errors.

An error is `{"message", "reason"?, "parameter_errors"?}`. Unlike OXP, conflicts are 409 and busy servers 429.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import UNSET, Raw

from ...model.call import CallTool, decode_extra
from ...model.channel import Question
from ...model.errors import Busy, InvalidInput, KeyConflict, Refused, ToolyardError
from ...model.lifecycle import State
from ...model.record import CallRecord
from ..contract import JSON, Headers, Reply, Request
from ..errors import STATUS, encode, error_headers
from ..oxp.client_replies import body_of, refusal_from

LIMITED = 429
REFUSED = 409
SOON_MS = 1000
"""How long to wait where a busy server, or a proxy before it, does not say."""


class Lifecycle:
    """The lifecycle API's answers about calls, its errors, and a client's requests for calls."""

    name = "lifecycle"
    headers: Headers = [JSON]

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        body: dict[str, Any] = {"message": error.message}
        if isinstance(error, InvalidInput):
            body["parameter_errors"] = {problem.path: problem.sentence for problem in error.problems}
        if isinstance(error, Refused | KeyConflict):
            body["reason"] = error.reason if isinstance(error, Refused) else "conflict"
        return Reply(_status(error), encode(body), self.headers + error_headers(error))

    def encode_call(
        self, call: CallRecord, questions: Sequence[Question] = (), other_families: Sequence[str] = ()
    ) -> Reply:
        """One call. `questions` are those that it waits for a person to answer; in `other_families` the caller has
        another call of the same id."""
        return Reply(200, encode(call_json(call) | waiting_json(questions) | others_json(other_families)), self.headers)

    def encode_calls(self, calls: list[CallRecord], limit: int) -> Reply:
        """One page of calls, with a cursor where there may be more."""
        body: dict[str, Any] = {"calls": [call_json(call) for call in calls]}
        if len(calls) == limit:  # a full page: there may be more, and asking finds out
            body["cursor"] = str(calls[-1].seq)
        return Reply(200, encode(body), self.headers)

    def encode_show(self, call_id: str, wait_s: float, family: str | None = None) -> Request:
        query = query_of({"wait": f"{wait_s:g}" if wait_s else None, "family": family})
        return Request("GET", f"/v1/calls/{quote(call_id, safe='')}", query=query)

    def encode_list(self, wanted: Mapping[str, str | None]) -> Request:
        return Request("GET", "/v1/calls", query=query_of(wanted))

    def decode(self, reply: Reply) -> dict[str, Any]:
        """The body of a reply. Raises the error that the server refused with."""
        if reply.status != 200:
            raise refusal(reply)
        return dict(body_of(reply))


def query_of(wanted: Mapping[str, str | None]) -> bytes:
    """A query string of the parameters that are set."""
    return urlencode({name: value for name, value in wanted.items() if value is not None}).encode()


def refusal(reply: Reply) -> ToolyardError:
    """The error that the server refused with. In this API, when to come back is in the headers alone."""
    body, after = body_of(reply), dict(reply.headers).get(b"retry-after-ms", b"")
    if reply.status == LIMITED or after:
        message = str(body.get("message") or "The server is busy")
        return Busy(message, retry_after_ms=int(after) if after.isdigit() else SOON_MS)
    return refusal_from(reply.status, body)


def _status(error: ToolyardError) -> int:
    if isinstance(error, Busy):
        return LIMITED
    # A tool's failure is in no table: it is an outcome, and no refusal.
    return REFUSED if isinstance(error, Refused | KeyConflict) else STATUS.get(type(error), 200)


def call_json(call: CallRecord) -> dict[str, Any]:
    """What its caller may know of a call: everything but what was sealed. A large input or value is not in a list.
    `content` are MCP's blocks, where a result had some beside its value."""
    members: dict[str, Any] = {
        "callId": call.key.call_id,
        "tool": call.reference,
        "wire": call.wire,
        "family": call.key.family or None,
        "state": call.state,
        "code": call.code,
        "attempt": call.attempt,
        "waitingFor": call.waiting_for,
        "createdAt": call.created_at,
        "startedAt": call.started_at,
        "finishedAt": call.finished_at,
        "durationMs": call.duration_ms,
        "effects": call.effects,
        "input": Raw(call.input) if call.input else None,
        "progress": Raw(call.progress) if call.progress else None,
    }
    if call.value is not None:
        members["value"] = Raw(call.value)
        if call.extra is not None and (content := decode_extra(call.extra).content) is not UNSET:
            members["content"] = content
    elif call.state is State.ERROR:
        members["error"] = Raw(call.error or b"{}")
    return {name: value for name, value in members.items() if value is not None}


def waiting_json(questions: Sequence[Question]) -> dict[str, Any]:
    """The member `waitingAt`: the pages that a person has to open."""
    pages = [{"url": each.url, "message": each.message} for each in questions if each.url]
    return {"waitingAt": pages} if pages else {}


def others_json(families: Sequence[str]) -> dict[str, Any]:
    """The member `otherFamilies`: where else there is a call of the same id, to be asked for by `family`."""
    return {"otherFamilies": list(families)} if families else {}


LIFECYCLE = Lifecycle()
