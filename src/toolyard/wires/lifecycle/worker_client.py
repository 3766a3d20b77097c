"""A worker's side of the lifecycle API: its requests to a server, and what it makes of the replies.

Where the server refused, the decoders raise the error that it refused with; `Refused` has the reason.
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
from .calls import query_of, refusal
from .requests import ATTEMPT, WORKER
from .worker_tools import definition_json

T = TypeVar("T")


# -- requests ---------------------------------------------------------------------------------------


def encode_claim(claim: Claim, worker: str) -> Request:
    body: dict[str, Any] = {"limit": claim.limit, "wait": claim.wait_s}
    if claim.tools:
        body["tools"] = claim.tools
    return _post("/v1/tools/claim", body, worker)


def encode_heartbeats(renewals: Sequence[Renewal], worker: str) -> Request:
    return _post("/v1/tools/heartbeats", {"heartbeats": [_renewal_json(each) for each in renewals]}, worker)


def encode_response(claimed: Claimed, result: Mapping[str, Any], worker: str) -> Request:
    body = {"response": {**result, "state": State.COMPLETE}}  # last: a result's own `state` must not replace it
    return _post(_path("response", claimed.session, claimed.request), body, worker, claimed.attempt)


def encode_failure(claimed: Claimed, error: ToolError, worker: str) -> Request:
    body = {"state": State.ERROR, "error": error.members()}
    return _post(_path("request", claimed.session, claimed.request, "heartbeat"), body, worker, claimed.attempt)


def encode_release(claimed: Claimed, worker: str) -> Request:
    return _post(_path("request", claimed.session, claimed.request, "release"), None, worker, claimed.attempt)


def encode_cancel(session: str, request: str) -> Request:
    return Request("POST", _path("request", session, request, "cancel"))


def encode_cancel_call(call_id: str, family: str | None) -> Request:
    return Request("POST", f"/v1/calls/{_quoted(call_id)}/cancel", query=query_of({"family": family}))


def encode_put_worker(name: str, tools: Sequence[ToolDefinition]) -> Request:
    body = encode({"tools": list(map(definition_json, tools))})
    return Request("PUT", f"/v1/workers/{_quoted(name)}", dict([JSON]), body)


def encode_beat_worker(name: str) -> Request:
    return Request("POST", f"/v1/workers/{_quoted(name)}/heartbeat")


def encode_drop_worker(name: str) -> Request:
    return Request("DELETE", f"/v1/workers/{_quoted(name)}")


# -- replies ----------------------------------------------------------------------------------------


def decode_claims(reply: Reply) -> list[Claimed]:
    return [_claimed(each) for each in _decoded(reply, _ClaimsBody).claims]


def decode_verdicts(reply: Reply) -> list[RenewalAnswer]:
    answers = _decoded(reply, _VerdictsBody).results
    return [RenewalAnswer(each.request_id, each.status, each.reason) for each in answers]


def decode_registered(reply: Reply) -> Registration:
    registered = _decoded(reply, _RegisteredBody)
    return Registration(tuple(registered.tools), registered.lease_ms / 1000)


def decode_taken(reply: Reply) -> int | None:
    """The attempt that holds the request now, from a reply with an empty body, where the server says so."""
    if reply.status != 200:
        raise refusal(reply)
    attempt = dict(reply.headers).get(ATTEMPT)
    return int(attempt) if attempt is not None and attempt.isdigit() else None


# Unknown members are ignored: a newer server may say more. The defaults are for an older one that says less.


class _CallerBody(Struct, rename="camel"):
    """Whose call a claimed request is."""

    tenant: str = "default"
    subject: str = ""
    user_id: str | None = None


class _ClaimBody(Struct, rename="camel"):
    """One claimed request, as the server sends it."""

    session_id: str
    request_id: str
    tool: str
    input: dict[str, Any]
    attempt: int
    lease_ms: float
    context: ContextBody = field(default_factory=ContextBody)
    caller: _CallerBody = field(default_factory=_CallerBody)
    trace_id: str | None = None


class _ClaimsBody(Struct):
    """The body of the reply to a claim."""

    claims: list[_ClaimBody]


class _VerdictBody(Struct, rename="camel"):
    """The server's answer to one of many heartbeats."""

    request_id: str
    status: int
    reason: str | None = None


class _VerdictsBody(Struct):
    """The body of the reply to many heartbeats."""

    results: list[_VerdictBody]


class _RegisteredBody(Struct, rename="camel"):
    """The body of the reply to a registration."""

    tools: list[str]
    lease_ms: float


def _decoded(reply: Reply, shape: type[T]) -> T:
    """The body of a reply. Raises the server's refusal, and InternalError for a body of another shape."""
    if reply.status != 200:
        raise refusal(reply)
    try:
        return decode_as(reply.body, shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InternalError("The server's answer is not what was asked for", developer_message=str(error)) from None


def _claimed(claim: _ClaimBody) -> Claimed:
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
    members: dict[str, Any] = {
        "sessionId": renewal.session,
        "requestId": renewal.request,
        "attempt": renewal.attempt,
    }
    if renewal.progress is not None:
        members["progress"] = renewal.progress
    return members


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
