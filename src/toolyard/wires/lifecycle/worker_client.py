"""The lifecycle API from the other side: what a worker says to a server, and what it makes of the answers.

A server that refuses is heard as the error it refused with; `Refused` has its reason.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from ...model.caller import Caller
from ...model.errors import InternalError, ToolError
from ...model.json_value import decode_as
from ...model.lifecycle import State
from ...model.worker import Claim, Claimed, Registration, Renewal, RenewalAnswer, ToolDefinition
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..oxp.messages import ContextBody, context_of
from .calls import refusal
from .requests import ATTEMPT, WORKER
from .worker_tools import definition_json

T = TypeVar("T")


# -- what is said -----------------------------------------------------------------------------------


def encode_claim(claim: Claim, worker: str) -> Request:
    body: dict[str, Any] = {"limit": claim.limit, "wait": claim.wait_s}
    if claim.tools:
        body["tools"] = claim.tools
    return _post("/v1/tools/claim", body, worker)


def encode_heartbeats(renewals: Sequence[Renewal], worker: str) -> Request:
    return _post("/v1/tools/heartbeats", {"heartbeats": [_renewal_json(each) for each in renewals]}, worker)


def encode_heartbeat(claimed: Claimed, heartbeat_ms: float, worker: str) -> Request:
    body = {"state": State.PROCESSING, "heartbeat": heartbeat_ms}
    return _post(_path("request", claimed.session, claimed.request, "heartbeat"), body, worker, claimed.attempt)


def encode_response(claimed: Claimed, result: Mapping[str, Any], worker: str) -> Request:
    body = {"response": {**result, "state": State.COMPLETE}}
    return _post(_path("response", claimed.session, claimed.request), body, worker, claimed.attempt)


def encode_failure(claimed: Claimed, error: ToolError, worker: str) -> Request:
    body = {"state": State.ERROR, "error": error.members()}
    return _post(_path("request", claimed.session, claimed.request, "heartbeat"), body, worker, claimed.attempt)


def encode_release(claimed: Claimed, worker: str) -> Request:
    return _post(_path("request", claimed.session, claimed.request, "release"), None, worker, claimed.attempt)


def encode_cancel(session: str, request: str) -> Request:
    return Request("POST", _path("request", session, request, "cancel"))


def encode_cancel_call(call_id: str) -> Request:
    return Request("POST", f"/v1/calls/{_quoted(call_id)}/cancel")


def encode_put_worker(name: str, tools: Sequence[ToolDefinition]) -> Request:
    body = encode({"tools": list(map(definition_json, tools))})
    return Request("PUT", f"/v1/workers/{_quoted(name)}", dict([JSON]), body)


def encode_beat_worker(name: str) -> Request:
    return Request("POST", f"/v1/workers/{_quoted(name)}/heartbeat")


def encode_drop_worker(name: str) -> Request:
    return Request("DELETE", f"/v1/workers/{_quoted(name)}")


# -- what is heard ----------------------------------------------------------------------------------


def decode_claims(reply: Reply) -> list[Claimed]:
    return [_claimed(each) for each in _told(reply, _Claims).claims]


def decode_verdicts(reply: Reply) -> list[RenewalAnswer]:
    return [RenewalAnswer(each.request_id, each.status, each.reason) for each in _told(reply, _Verdicts).results]


def decode_registered(reply: Reply) -> Registration:
    told = _told(reply, _Registered)
    return Registration(tuple(told.tools), told.lease_ms / 1000)


def decode_taken(reply: Reply) -> int | None:
    """Of what is answered with an empty body: the attempt that holds, where the server says so."""
    if reply.status != 200:
        raise refusal(reply)
    attempt = dict(reply.headers).get(ATTEMPT)
    return int(attempt) if attempt is not None and attempt.isdigit() else None


class _Caller(Struct, rename="camel"):
    tenant: str = "default"
    subject: str = ""
    user_id: str | None = None


class _Claim(Struct, rename="camel"):
    session_id: str
    request_id: str
    tool: str
    input: dict[str, Any]
    attempt: int
    lease_ms: float
    context: ContextBody = field(default_factory=ContextBody)
    caller: _Caller = field(default_factory=_Caller)
    trace_id: str | None = None


class _Claims(Struct):
    claims: list[_Claim]


class _Verdict(Struct, rename="camel"):
    request_id: str
    status: int
    reason: str | None = None


class _Verdicts(Struct):
    results: list[_Verdict]


class _Registered(Struct, rename="camel"):
    tools: list[str]
    lease_ms: float


def _told(reply: Reply, shape: type[T]) -> T:
    if reply.status != 200:
        raise refusal(reply)
    try:
        return decode_as(reply.body, shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InternalError("The server's answer is not what was asked for", developer_message=str(error)) from None


def _claimed(claim: _Claim) -> Claimed:
    caller, context = claim.caller, context_of(claim.context)
    return Claimed(
        claim.session_id,
        claim.request_id,
        claim.tool,
        claim.input,
        claim.attempt,
        claim.lease_ms / 1000,
        context,
        Caller(caller.tenant, caller.subject, caller.user_id or context.user_id),
        claim.trace_id,
    )


def _renewal_json(renewal: Renewal) -> dict[str, Any]:
    made: dict[str, Any] = {
        "sessionId": renewal.session,
        "requestId": renewal.request,
        "attempt": renewal.attempt,
    }
    if renewal.progress is not None:
        made["progress"] = renewal.progress
    return made


def _post(path: str, body: Any, worker: str, attempt: int | None = None) -> Request:
    headers = dict([JSON])
    if worker:
        headers[WORKER] = worker.encode()
    if attempt is not None:
        headers[ATTEMPT] = b"%d" % attempt
    return Request("POST", path, headers, b"" if body is None else encode(body))


def _path(kind: str, *parts: str) -> str:
    return f"/v1/tools/{kind}/{'/'.join(map(_quoted, parts))}"


def _quoted(part: str) -> str:
    return quote(part, safe="")
