"""What callers say of requests, and what they are answered."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from toolyard.model.call import LONGEST_CALL_ID, CallContext
from toolyard.model.errors import MalformedRequest, ToolError
from toolyard.model.judge import Verdict
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, NewCall
from toolyard.model.worker import Claim, Heartbeat, Renewal, Response
from toolyard.model.writes import DIRECT, request_id
from toolyard.wires.lifecycle.requests import (
    decode_attempt,
    decode_claim,
    decode_heartbeat,
    decode_heartbeats,
    decode_response,
    decode_worker_name,
    encode_claims,
    encode_empty,
    encode_request,
    encode_requests,
    encode_verdicts,
)

from .records import call, complete, failed
from .refusals import problems

DECODERS = [decode_heartbeat, decode_response, decode_heartbeats, decode_claim]


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


# -- one heartbeat ----------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [1758377600000, 0, -1, 0.5, 1e300])
def test_a_heartbeat_says_that_somebody_works(moment: float) -> None:
    assert decode_heartbeat(encoded({"state": "PROCESSING", "heartbeat": moment})) == Heartbeat(float(moment))


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, {"state", "heartbeat"}),
        ({"state": "PROCESSING"}, {"heartbeat"}),
        ({"heartbeat": 1}, {"state"}),
        ({"state": "COMPLETE", "heartbeat": 1}, {"state"}),
        ({"state": "PENDING", "heartbeat": 1}, {"state"}),
        ({"state": "processing", "heartbeat": 1}, {"state"}),
        ({"state": ["PROCESSING"], "heartbeat": 1}, {"state"}),
        ({"state": "PROCESSING", "heartbeat": "1"}, {"heartbeat"}),
        ({"state": "PROCESSING", "heartbeat": None}, {"heartbeat"}),
        ({"state": "PROCESSING", "heartbeat": True}, {"heartbeat"}),
        ({"state": "PROCESSING", "heartbeat": 1, "extra": 1}, {"extra"}),
        ({"state": "PROCESSING", "heartbeat": 1, "error": "no"}, {"error"}),
        ({"state": "ERROR"}, {"error"}),
        ({"state": "ERROR", "error": None}, {"error"}),
        ({"state": "ERROR", "error": 5}, {"error"}),
        ({"state": "ERROR", "error": {}}, {"error.message"}),
        ({"state": "ERROR", "error": {"message": 1, "can_retry": "yes"}}, {"error.message", "error.can_retry"}),
        ({"state": "ERROR", "error": {"message": "m", "retry_after_ms": -1}}, {"error.retry_after_ms"}),
        ({"state": "ERROR", "error": {"message": "m", "retry_after_ms": 0.5}}, {"error.retry_after_ms"}),
        ({"state": "ERROR", "error": {"message": "m", "code": 1}}, {"error.code"}),
        ({"state": "ERROR", "error": "no", "heartbeat": "1"}, {"heartbeat"}),
        ({"state": "ERROR", "error": "no", "response": {}}, {"response"}),
    ],
)
def test_a_heartbeat_that_is_not_one_says_where(body: Any, wrong: set[str]) -> None:
    assert problems(decode_heartbeat, encoded(body)).keys() == wrong


def test_an_error_goes_with_the_state_error() -> None:
    body = encoded({"state": "PROCESSING", "heartbeat": 1, "error": "no"})
    assert problems(decode_heartbeat, body) == {"error": "Goes with the state ERROR alone"}


def test_a_number_beyond_all_numbers_is_not_a_heartbeat() -> None:
    assert problems(decode_heartbeat, b'{"state": "PROCESSING", "heartbeat": 1e999}').keys() == {"heartbeat"}


def error_of(error: Any) -> ToolError:
    said = decode_heartbeat(encoded({"state": "ERROR", "error": error})).error
    assert said is not None
    return said


def test_a_failure_is_a_text() -> None:
    assert error_of("Permission denied").members() == {"message": "Permission denied"}
    assert error_of("").members() == {"message": "The tool failed"}


def test_a_failure_may_say_more_than_a_text() -> None:
    said = {
        "message": "Slow down",
        "developer_message": "quota of 5",
        "can_retry": True,
        "retry_after_ms": 250,
        "additional_prompt_content": "Try a smaller area",
    }
    assert error_of(said).members() == said


def test_a_failure_may_come_with_a_timestamp() -> None:
    assert decode_heartbeat(b'{"state": "ERROR", "error": "no", "heartbeat": 5}').heartbeat == 5.0


# -- a response -------------------------------------------------------------------------------------


def test_a_response_is_everything_but_its_state() -> None:
    body = {"response": {"state": "COMPLETE", "locations": [{"id": 1, "state": "open"}], "next": None}}
    assert decode_response(encoded(body)) == Response({"locations": [{"id": 1, "state": "open"}], "next": None})
    assert decode_response(b'{"response": {"state": "COMPLETE"}}') == Response({})


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "response"),
        ({"response": None}, "response"),
        ({"response": []}, "response"),
        ({"response": {}}, "response.state"),
        ({"response": {"state": "ERROR"}}, "response.state"),
        ({"response": {"state": "PROCESSING"}}, "response.state"),
        ({"response": {"state": None}}, "response.state"),
        ({"response": {"state": "COMPLETE"}, "state": "COMPLETE"}, "state"),
    ],
)
def test_a_response_that_is_not_one_says_where(body: Any, wrong: str) -> None:
    assert problems(decode_response, encoded(body)).keys() == {wrong}


@pytest.mark.parametrize("decode", DECODERS)
def test_what_is_not_json_is_malformed(decode: Any) -> None:
    with pytest.raises(MalformedRequest):
        decode(b'{"state": NaN}')


# -- claims, and many heartbeats --------------------------------------------------------------------


def test_a_claim_has_defaults() -> None:
    assert decode_claim(b"") == decode_claim(b"{}") == Claim((), 1, 0.0)


def test_a_claim_says_what_how_much_and_how_long() -> None:
    body = {"tools": ["Reports.*", "*", "find-locations", "A.B@1", "A.B@1.2.3"], "limit": 100, "wait": 60}
    wanted = ("Reports.*", "*", "find-locations", "A.B@1.0.0", "A.B@1.2.3")
    assert decode_claim(encoded(body)) == Claim(wanted, 100, 60.0)
    assert decode_claim(b'{"limit": 2.0, "wait": 0.5}') == Claim((), 2, 0.5)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"tools": []}, "tools"),
        ({"tools": None}, "tools"),
        ({"tools": "Reports.*"}, "tools"),
        ({"tools": ["A"] * 101}, "tools"),
        ({"tools": ["A", "a b"]}, "tools[1]"),
        ({"tools": ["[A-Z]"]}, "tools[0]"),
        ({"tools": ["A\n"]}, "tools[0]"),
        ({"tools": [""]}, "tools[0]"),
        ({"tools": ["A" * 129]}, "tools[0]"),
        ({"tools": ["A@x"]}, "tools[0]"),
        ({"tools": [5]}, "tools[0]"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": None}, "limit"),
        ({"wait": -1}, "wait"),
        ({"wait": 60.5}, "wait"),
        ({"wait": "1"}, "wait"),
        ({"worker": "a"}, "worker"),
    ],
)
def test_a_claim_that_is_not_one_says_where(body: Any, wrong: str) -> None:
    assert problems(decode_claim, encoded(body)).keys() == {wrong}


def test_many_heartbeats_come_at_once() -> None:
    beats = [
        {"sessionId": "s", "requestId": "t/1 ü", "attempt": 1},
        {"sessionId": "direct", "requestId": "c", "attempt": 2, "progress": {"done": 1}},
    ]
    assert decode_heartbeats(encoded({"heartbeats": beats})) == [
        Renewal("s", "t/1 ü", 1),
        Renewal("direct", "c", 2, {"done": 1}),
    ]


def test_a_request_may_be_renewed_however_long_its_callers_id_is() -> None:
    key = CallKey("default", "ada", "oxp", "x" * LONGEST_CALL_ID)
    new = NewCall(key, True, "oxp", "A.B", "A.B@1.0.0", b"{}", b"", session=DIRECT)
    beat = {"sessionId": DIRECT, "requestId": request_id(new), "attempt": 1}
    assert [each.request for each in decode_heartbeats(encoded({"heartbeats": [beat]}))] == [beat["requestId"]]


def test_each_of_many_heartbeats_is_judged_by_itself() -> None:
    good = {"sessionId": "s", "requestId": "t", "attempt": 1}
    beats = [good, good | {"attempt": 0}, good | {"requestId": ""}, {"sessionId": 1}, good | {"heartbeat": 1}, None]
    beats.append(good | {"progress": 0.5})
    assert problems(decode_heartbeats, encoded({"heartbeats": beats})).keys() == {
        "heartbeats[1].attempt",
        "heartbeats[2].requestId",
        "heartbeats[3].sessionId",
        "heartbeats[3].requestId",
        "heartbeats[3].attempt",
        "heartbeats[4].heartbeat",
        "heartbeats[5]",
        "heartbeats[6].progress",
    }


@pytest.mark.parametrize("count", [0, 1001])
def test_there_are_as_many_heartbeats_as_there_may_be(count: int) -> None:
    beat = {"sessionId": "s", "requestId": "t", "attempt": 1}
    assert problems(decode_heartbeats, encoded({"heartbeats": [beat] * count})).keys() == {"heartbeats"}
    for allowed in (1, 1000):
        assert len(decode_heartbeats(encoded({"heartbeats": [beat] * allowed}))) == allowed


def test_the_attempt_and_the_worker_stand_in_headers() -> None:
    assert decode_attempt({}) is None
    assert decode_attempt({b"toolyard-attempt": b"12"}) == 12
    assert decode_attempt({b"toolyard-attempt": b"9" * 15}) == 10**15 - 1
    assert decode_worker_name({}) == ""
    assert decode_worker_name({b"toolyard-worker": b"box-1.a_2"}) == "box-1.a_2"


@pytest.mark.parametrize("given", [b"", b"-1", b"1.0", b"one", b"\xb2", b"9" * 16])
def test_an_attempt_is_a_number(given: bytes) -> None:
    assert problems(decode_attempt, {b"toolyard-attempt": given}).keys() == {"Toolyard-Attempt"}


@pytest.mark.parametrize("given", [b"", b"a b", b"a/b", b"\xff", b"a" * 129])
def test_a_worker_has_a_plain_name(given: bytes) -> None:
    assert problems(decode_worker_name, {b"toolyard-worker": given}).keys() == {"Toolyard-Worker"}


# -- what is answered -------------------------------------------------------------------------------


def test_a_heartbeat_is_answered_with_nothing_but_the_attempt() -> None:
    reply = encode_empty(3)
    assert (reply.status, reply.body, reply.headers) == (200, b"", [(b"toolyard-attempt", b"3")])
    assert encode_empty().headers == []


def test_a_claim_is_all_that_is_needed_to_begin() -> None:
    of_a_worker = call(
        attempt=2, queue="worker", session="direct", tool="Reports.Build", reference="Reports.Build@1.0.0",
        user_id="u-1", trace_id="t",
    )  # fmt: skip
    context = CallContext({"google": "token"}, {"KEY": "secret"}, "u-1")
    reply = encode_claims([(call(attempt=1, reference="x"), CallContext()), (of_a_worker, context)], 30_000)
    assert msgspec.json.decode(reply.body) == {
        "claims": [
            {
                "sessionId": "s-1",
                "requestId": "t-1",
                "tool": "find_locations",
                "input": {"near": "harbour"},
                "context": {},
                "attempt": 1,
                "leaseMs": 30_000,
                "caller": {"tenant": "default", "subject": "ada"},
            },
            {
                "sessionId": "direct",
                "requestId": "t-1",
                "tool": "Reports.Build@1.0.0",
                "input": {"near": "harbour"},
                "context": {
                    "authorization": [{"id": "google", "token": "token"}],
                    "secrets": [{"id": "KEY", "value": "secret"}],
                    "user_id": "u-1",
                },
                "attempt": 2,
                "leaseMs": 30_000,
                "caller": {"tenant": "default", "subject": "ada", "userId": "u-1"},
                "traceId": "t",
            },
        ]
    }
    assert msgspec.json.decode(encode_claims([], 1).body) == {"claims": []}


RENEWED = Verdict(1, 1, State.PROCESSING)


def test_each_heartbeat_has_a_verdict() -> None:
    reply = encode_verdicts([("a", RENEWED), ("b", None), ("c", replace(RENEWED, reason="stale_attempt"))])
    assert msgspec.json.decode(reply.body) == {
        "results": [
            {"requestId": "a", "status": 200},
            {"requestId": "b", "status": 404},
            {"requestId": "c", "status": 409, "reason": "stale_attempt"},
        ]
    }


SHOWN = {
    "sessionId": "s-1",
    "requestId": "t-1",
    "tool": "find_locations",
    "input": {"near": "harbour"},
    "state": "PENDING",
    "attempt": 0,
}


def test_a_request_is_shown_as_far_as_it_has_come() -> None:
    held = call(state=State.PROCESSING, attempt=1, heartbeat=1758377600000.0, seen_at=5.5)
    shown = SHOWN | {"state": "PROCESSING", "attempt": 1, "heartbeat": 1758377600000, "lastSeen": 5.5}
    error = ToolError("No", developer_message="secret")
    replies = [
        (encode_request(call()), SHOWN),
        (encode_request(call(waiting_for="approval")), SHOWN | {"waitingFor": "approval"}),
        (encode_request(held), shown),
        (encode_request(complete({"a": 1})), SHOWN | {"state": "COMPLETE", "attempt": 1, "response": {"a": 1}}),
        (encode_request(failed(error)), SHOWN | {"state": "ERROR", "attempt": 1, "error": "No"}),
        (encode_requests([call()]), {"requests": [SHOWN]}),
        (encode_requests([]), {"requests": []}),
    ]
    for reply, expected in replies:
        assert (reply.status, msgspec.json.decode(reply.body)) == (200, expected)
    assert b"1758377600000," in encode_request(held).body


def test_a_request_whose_input_is_kept_elsewhere_is_listed_without_it() -> None:
    (listed,) = msgspec.json.decode(encode_requests([call(input=b"")]).body)["requests"]
    assert "input" not in listed
