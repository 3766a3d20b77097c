"""Every error has an answer on every wire, and both directions of a wire meet."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import Raw

from toolyard.model.call import CallContext, CallTool, ListTools, Outcome
from toolyard.model.errors import (
    Busy,
    Challenge,
    Forbidden,
    InvalidInput,
    MethodNotAllowed,
    Missing,
    MissingRequirements,
    Problem,
    Refused,
    RequestError,
    ServerError,
    ToolError,
    ToolyardError,
)
from toolyard.store.values import StoreDown
from toolyard.wires.contract import OxpFamilyWire
from toolyard.wires.oxp import negotiation, otc, otc_draft, oxp

WIRES: list[OxpFamilyWire] = [oxp.FLAT, oxp.ENVELOPED, otc.OTC, otc.OTC_FOR_OXP, otc_draft.DRAFT]
by_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
COMMAND = CallTool("Calculator.Add", {"a": 1}, "call-1")


def leaves(kind: type[ToolyardError]) -> Iterator[type[ToolyardError]]:
    below = kind.__subclasses__()
    yield kind
    for each in below:
        yield from leaves(each)


HOMES = ("toolyard.model.errors", StoreDown.__module__)
REACHING_A_WIRE = sorted(
    {
        error
        for kind in (RequestError, ServerError, ToolError)
        for error in leaves(kind)
        if error not in (RequestError, ServerError) and error.__module__ in HOMES
    },
    key=lambda error: error.__name__,
)


def made(error: type[ToolyardError]) -> ToolyardError:
    if issubclass(error, InvalidInput):
        return error((Problem("b", "Must be a number"),))
    if issubclass(error, MissingRequirements):
        return error("no", Missing((Challenge("1", "http://x/1", "http://x/1/status"),)), developer_message="why")
    if issubclass(error, MethodNotAllowed):
        return error("no", ("GET",))
    if issubclass(error, Refused):
        return error("no", "held")
    if issubclass(error, Busy):
        return error("no", retry_after_ms=1500)
    if issubclass(error, Forbidden):
        return error("no", ("mail.read",))
    return error("no", developer_message="why")


@by_wire
@pytest.mark.parametrize("error", REACHING_A_WIRE, ids=lambda error: error.__name__)
def test_every_error_has_an_answer_on_every_wire(wire: OxpFamilyWire, error: type[ToolyardError]) -> None:
    reply = wire.encode_error(made(error), COMMAND)
    body = msgspec.json.decode(reply.body)
    said = body.get("message") or str(body)
    assert said
    assert reply.status in {200, 400, 401, 403, 404, 405, 413, 415, 421, 422, 500}
    if wire in (otc.OTC, otc.OTC_FOR_OXP, otc_draft.DRAFT):
        assert "$schema" in body
    if wire in (oxp.FLAT, oxp.ENVELOPED):
        assert (b"oxp-version", b"1.0") in reply.headers


@by_wire
def test_busy_tells_when_to_come_back(wire: OxpFamilyWire) -> None:
    headers = dict(wire.encode_error(made(Busy)).headers)
    assert headers[b"retry-after"] == b"2"
    assert headers[b"retry-after-ms"] == b"1500"
    assert headers[b"x-should-retry"] == b"true"


@pytest.mark.parametrize("wire", [oxp.FLAT, otc.OTC, otc_draft.DRAFT], ids=lambda wire: wire.name)
def test_a_call_the_client_encodes_is_the_call_the_server_decodes(wire: OxpFamilyWire) -> None:
    context = CallContext({"google": "t"}, {"KEY": "v"}, "user-1", {"name": "Ada"})
    sent = CallTool("Kit.Tool@1.0.0", {"a": [1, {"b": None}]}, "call-1", "trace-1", context)
    choose = negotiation.root_call if wire is otc_draft.DRAFT else negotiation.root
    spoken, received = negotiation.decode_call(wire.encode_request(sent).body, choose)
    assert spoken is wire
    assert isinstance(received, CallTool)
    received.latest = False
    assert received == sent


@pytest.mark.parametrize("wire", [oxp.FLAT, otc.OTC, otc_draft.DRAFT], ids=lambda wire: wire.name)
@pytest.mark.parametrize("value", [b"15", b'"text"', b"null", b'{"a":[1,2,null]}', b"[]", b"false"])
def test_an_outcome_the_server_encodes_is_the_outcome_the_client_decodes(wire: OxpFamilyWire, value: bytes) -> None:
    outcome = Outcome("call-1", 2.5, Raw(value))
    decoded = wire.decode_outcome(wire.encode_outcome(outcome))
    assert decoded.call_id == "call-1"
    assert decoded.error is None
    assert decoded.value is not None
    assert bytes(decoded.value) == value


@pytest.mark.parametrize("wire", [oxp.FLAT, otc.OTC, otc_draft.DRAFT], ids=lambda wire: wire.name)
def test_a_list_request_is_understood_at_the_root(wire: OxpFamilyWire) -> None:
    request = wire.encode_request(ListTools(all_versions=True))
    spoken, command = negotiation.decode_list(request.query, b"", oxp.FLAT, fixed=False)
    assert spoken is wire
    assert command == ListTools(all_versions=True)
