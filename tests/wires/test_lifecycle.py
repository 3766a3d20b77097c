"""The lifecycle API's errors, and both of its directions."""

from typing import Any

import msgspec
import pytest

from toolyard.model.call import CallContext
from toolyard.model.caller import Caller
from toolyard.model.errors import (
    Busy,
    InternalError,
    InvalidInput,
    KeyConflict,
    NotAuthenticated,
    PathNotFound,
    Problem,
    Refused,
    ToolError,
    ToolyardError,
    Unavailable,
)
from toolyard.model.lifecycle import State
from toolyard.model.worker import Claim, Claimed, Registration, Renewal, RenewalAnswer, Response, ToolDefinition
from toolyard.wires.contract import Reply
from toolyard.wires.lifecycle import worker_client
from toolyard.wires.lifecycle.calls import LIFECYCLE, refusal
from toolyard.wires.lifecycle.requests import (
    decode_attempt,
    decode_claim,
    decode_heartbeat,
    decode_heartbeats,
    decode_response,
    decode_worker_name,
    encode_claims,
    encode_empty,
    encode_verdicts,
)
from toolyard.wires.lifecycle.worker_tools import decode_worker, encode_worker

from .records import call, complete, failed
from .test_total import REACHING_A_WIRE, made

HELD = Claimed("s/1", "t 1", "find", {"near": "harbour"}, 2, 30.0)


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", REACHING_A_WIRE, ids=lambda error: error.__name__)
def test_every_error_has_an_answer(error: type[ToolyardError]) -> None:
    reply = LIFECYCLE.encode_error(made(error))
    body = msgspec.json.decode(reply.body)
    assert body["message"]
    assert body.keys() <= {"message", "reason", "parameter_errors"}
    assert reply.status in {200, 400, 401, 403, 404, 405, 409, 413, 415, 421, 422, 429, 500}


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (Refused("Too late", "stale_attempt"), 409, {"message": "Too late", "reason": "stale_attempt"}),
        (KeyConflict("Other input"), 409, {"message": "Other input", "reason": "conflict"}),
        (PathNotFound("No such request"), 404, {"message": "No such request"}),
        (Unavailable("Full", retry_after_ms=1500), 429, {"message": "Full"}),
        (
            InvalidInput((Problem("heartbeats[2].attempt", "Is required"),)),
            422,
            {
                "message": "Some input parameters are invalid",
                "parameter_errors": {"heartbeats[2].attempt": "Is required"},
            },
        ),
    ],
)
def test_errors_say_why(error: ToolyardError, status: int, body: dict[str, Any]) -> None:
    reply = LIFECYCLE.encode_error(error)
    assert (reply.status, msgspec.json.decode(reply.body)) == (status, body)


def test_whoever_is_limited_is_told_when_to_come_back() -> None:
    reply = LIFECYCLE.encode_error(Busy("Full", retry_after_ms=1500))
    assert (b"retry-after", b"2") in reply.headers
    heard = refusal(reply)
    assert isinstance(heard, Busy)
    assert (heard.message, heard.retry_after_ms) == ("Full", 1500)
    told_nothing = refusal(Reply(429, b"", []))
    assert isinstance(told_nothing, Busy)


@pytest.mark.parametrize(
    "error",
    [
        NotAuthenticated("Who?"),
        PathNotFound("Where?"),
        Refused("No", "held"),
        InternalError("Oh"),
        InvalidInput((Problem("a", "b"),)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refusal_is_heard_as_what_it_was(error: ToolyardError) -> None:
    heard = refusal(LIFECYCLE.encode_error(error))
    assert type(heard) is type(error)
    assert heard.message == error.message


def test_why_a_write_was_refused_is_heard() -> None:
    with pytest.raises(Refused) as caught:
        worker_client.decode_taken(LIFECYCLE.encode_error(Refused("Too late", "stale_attempt")))
    assert caught.value.reason == "stale_attempt"


# -- calls ------------------------------------------------------------------------------------------


def test_a_call_is_shown_as_far_as_it_has_come() -> None:
    shown = {
        "callId": "t-1",
        "tool": "find_locations",
        "wire": "lifecycle",
        "family": "s-1",
        "state": "PENDING",
        "attempt": 0,
        "createdAt": 1.0,
        "input": {"near": "harbour"},
    }
    done = shown | {"state": "COMPLETE", "code": "success", "attempt": 1}
    error = {"message": "No", "developer_message": "why"}
    for given, expected in {
        "pending": (call(), shown),
        "waiting": (call(waiting_for="approval"), shown | {"waitingFor": "approval"}),
        "progress": (call(progress=b'{"done":1}'), shown | {"progress": {"done": 1}}),
        "complete": (complete({"a": 1}), done | {"value": {"a": 1}}),
        "nothing": (complete(None), done | {"value": None}),
        "large": (call(state=State.COMPLETE, code="success", attempt=1, input=b""), without(done, "input")),
        "failed": (
            failed(ToolError("No", developer_message="why")),
            done | {"state": "ERROR", "code": "tool_failed", "error": error},
        ),
    }.values():
        assert msgspec.json.decode(LIFECYCLE.encode_call(given).body) == expected
        assert msgspec.json.decode(LIFECYCLE.encode_calls([given], 2).body) == {"calls": [expected]}


def without(shown: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in shown.items() if key != name}


def test_a_full_page_of_calls_has_a_cursor() -> None:
    assert msgspec.json.decode(LIFECYCLE.encode_calls([call(seq=9), call(seq=7)], 2).body)["cursor"] == "7"


# -- a worker's requests, as the server reads them --------------------------------------------------


@pytest.mark.parametrize("claim", [Claim(), Claim(("Reports.*", "A.B@1.0.0"), 5, 20.0)])
def test_a_claim_is_read_as_it_was_meant(claim: Claim) -> None:
    request = worker_client.encode_claim(claim, "box-1")
    assert (request.method, request.path) == ("POST", "/v1/tools/claim")
    assert decode_claim(request.body) == claim
    assert decode_worker_name(request.headers) == "box-1"
    assert decode_attempt(request.headers) is None


def test_heartbeats_are_read_as_they_were_meant() -> None:
    renewals = [Renewal("s", "t", 1), Renewal("s", "u", 2, {"done": 1})]
    request = worker_client.encode_heartbeats(renewals, "")
    assert request.path == "/v1/tools/heartbeats"
    assert decode_heartbeats(request.body) == renewals
    assert decode_worker_name(request.headers) == ""


def test_a_response_is_fenced_by_its_attempt() -> None:
    request = worker_client.encode_response(HELD, {"value": 15, "state": "open"}, "box-1")
    assert request.path == "/v1/tools/response/s%2F1/t%201"
    assert decode_response(request.body) == Response({"value": 15})
    assert decode_attempt(request.headers) == 2


def test_a_failure_says_all_that_the_tool_said() -> None:
    error = ToolError("No", developer_message="why", can_retry=True, retry_after_ms=5, additional_prompt_content="x")
    request = worker_client.encode_failure(HELD, error, "box-1")
    assert request.path == "/v1/tools/request/s%2F1/t%201/heartbeat"
    said = decode_heartbeat(request.body).error
    assert said is not None
    assert said.members() == error.members()
    assert decode_attempt(request.headers) == 2


def test_a_request_is_given_back_by_its_attempt() -> None:
    request = worker_client.encode_release(HELD, "box-1")
    assert (request.path, request.body) == ("/v1/tools/request/s%2F1/t%201/release", b"")
    assert decode_attempt(request.headers) == 2
    assert decode_worker_name(request.headers) == "box-1"


def test_a_worker_registers_beats_and_leaves() -> None:
    tools = [ToolDefinition("A.B", on_lost="rerun"), ToolDefinition("A.C", timeout=5.0)]
    put = worker_client.encode_put_worker("box/1", tools)
    assert (put.method, put.path) == ("PUT", "/v1/workers/box%2F1")
    assert decode_worker(put.body) == tools
    beat, drop = worker_client.encode_beat_worker("box"), worker_client.encode_drop_worker("box")
    assert (beat.method, beat.path) == ("POST", "/v1/workers/box/heartbeat")
    assert (drop.method, drop.path) == ("DELETE", "/v1/workers/box")


def test_what_is_not_wanted_is_cancelled() -> None:
    of_a_session, of_any = worker_client.encode_cancel("s/1", "t"), worker_client.encode_cancel_call("c 1", "mcp")
    assert (of_a_session.method, of_a_session.path) == ("POST", "/v1/tools/request/s%2F1/t/cancel")
    assert (of_any.method, of_any.path, of_any.query) == ("POST", "/v1/calls/c%201/cancel", b"family=mcp")


# -- the server's answers, as a worker reads them ---------------------------------------------------


def test_claims_are_heard_as_they_were_given() -> None:
    context = CallContext({"google": "token"}, {"KEY": "secret"}, "u-1", {"name": "Ada"})
    given = call(attempt=2, queue="worker", reference="A.B@1.0.0")
    heard = worker_client.decode_claims(encode_claims([(given, context)], 1500))
    caller = Caller("default", "ada", "u-1")
    assert heard == [Claimed("s-1", "t-1", "A.B@1.0.0", {"near": "harbour"}, 2, 1.5, context, caller)]


def test_verdicts_are_heard_as_they_were_given() -> None:
    assert worker_client.decode_verdicts(encode_verdicts([("a", None)])) == [RenewalAnswer("a", 404)]
    body = b'{"results": [{"requestId": "a", "status": 409, "reason": "held", "more": 1}]}'
    assert worker_client.decode_verdicts(Reply(200, body, [])) == [RenewalAnswer("a", 409, "held")]


def test_a_registration_is_heard_as_it_was_given() -> None:
    reply = encode_worker("box", [ToolDefinition("A.B")], 1500)
    assert worker_client.decode_registered(reply) == Registration(("A.B@1.0.0",), 1.5)


def test_an_empty_answer_may_name_the_attempt() -> None:
    assert worker_client.decode_taken(encode_empty(3)) == 3
    assert worker_client.decode_taken(encode_empty()) is None


@pytest.mark.parametrize("body", [b"", b"[]", b'{"claims": 5}', b'{"claims": [{}]}', b"\xff", b"<html>"])
def test_an_answer_that_is_none_is_an_error_of_the_server(body: bytes) -> None:
    with pytest.raises(InternalError):
        worker_client.decode_claims(Reply(200, body, []))
