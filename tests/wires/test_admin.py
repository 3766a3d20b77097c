"""The operator's words: what is said of a call, and how one is settled, in both directions."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from toolyard.model.errors import InvalidInput, MalformedRequest
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, Ending
from toolyard.wires.admin import calls as admin
from toolyard.wires.admin.calls import WhichCall
from toolyard.wires.lifecycle.calls import LIFECYCLE

from .records import call


def told(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = LIFECYCLE.decode(admin.encode_call(call(**changes)))
    return body


def test_a_call_is_told_as_to_its_caller_and_a_little_more() -> None:
    given = call(state=State.COMPLETE, value=b"1")
    own = LIFECYCLE.decode(LIFECYCLE.encode_call(given))
    body = LIFECYCLE.decode(admin.encode_call(given))
    assert {name: body[name] for name in own} == own
    assert body.keys() - own.keys() == {"caller"}


def test_what_is_usual_is_not_told() -> None:
    key = CallKey("default", "ada", "oxp", "c")
    assert told(key=key)["caller"] == "ada"
    assert "tenant" not in told(key=key)
    assert told(key=replace(key, tenant="other"))["tenant"] == "other"
    assert "losses" not in told(losses=0)
    assert told(losses=2)["losses"] == 2
    assert "userId" not in told(user_id=None)
    assert told(user_id="u")["userId"] == "u"


@pytest.mark.parametrize("state", State)
def test_only_of_what_runs_it_is_told_who_holds_it(state: State) -> None:
    assert ("holder" in told(state=state, holder="node-1")) is (state is State.PROCESSING)


def test_a_list_says_where_it_goes_on() -> None:
    calls = [call(seq=5), call(seq=4)]
    assert LIFECYCLE.decode(admin.encode_calls(calls, 2))["cursor"] == "4"
    assert "cursor" not in LIFECYCLE.decode(admin.encode_calls(calls, 3))


@pytest.mark.parametrize("value", ["1", "null", '"text"', '{"x":[1,2]}', "12345678901234567890.5", "[]"])
def test_what_was_done_arrives_as_it_was_written(value: str) -> None:
    request = admin.encode_settlement(WhichCall("c"), {"done": Raw(value.encode())})
    assert admin.decode_settlement(request.body) == Ending(State.COMPLETE, "success", 0.0, value=value.encode())
    spaced = f' {{ "done" : {value} }} '.encode()
    assert admin.decode_settlement(spaced) == admin.decode_settlement(request.body)


@pytest.mark.parametrize(("message", "said"), [("no", "no"), ("", admin.FAILED)])
def test_what_failed_is_not_to_be_tried_again(message: str, said: str) -> None:
    ending = admin.decode_settlement(admin.encode_settlement(WhichCall("c"), {"failed": message}).body)
    assert ending is not None
    assert (ending.state, ending.code, ending.releases_key) == (State.ERROR, "tool_failed", False)
    assert msgspec.json.decode(ending.error or b"") == {"message": said, "can_retry": False}


def test_what_is_run_once_more_has_no_ending() -> None:
    assert admin.decode_settlement(admin.encode_settlement(WhichCall("c"), {"rerun": True}).body) is None


@pytest.mark.parametrize("body", [b"{}", b'{"rerun": false}', b'{"done": 1, "failed": "x"}', b'{"failed": null}', b"1"])
def test_anything_else_is_no_settlement(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        admin.decode_settlement(body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"done": "\xff"}'])
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        admin.decode_settlement(body)


def test_questions_name_the_call_and_if_need_be_its_caller() -> None:
    show = admin.encode_show(WhichCall("a/b ", "ada&", "s&1"), 5.0)
    cancel = admin.encode_cancel(WhichCall("a/b "))
    assert (show.path, show.query) == ("/v1/admin/calls/a%2Fb%20", b"caller=ada%26&family=s%261&wait=5")
    assert (cancel.method, cancel.path, cancel.query) == ("POST", "/v1/admin/calls/a%2Fb%20/cancel", b"")
    assert admin.encode_list({"state": None, "limit": "5"}).query == b"limit=5"
