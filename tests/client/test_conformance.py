"""What the protocol documents ask of a client, shown on ours. The conformance rows name these tests."""

from typing import Annotated, Any

import pytest

from toolyard import Context, Hidden, MissingRequirements, ToolError, Toolkit, authorization
from toolyard.client import client as client_module
from toolyard.client.client import Client
from toolyard.client.flows import FIRST_PAUSE_S, Pause, call
from toolyard.client.protocols import WireName
from toolyard.model.call import CallTool
from toolyard.testing import client
from toolyard.wires.contract import Reply, Request

WIRES: list[WireName] = ["oxp", "otc", "otc_draft"]
pytestmark = pytest.mark.parametrize("wire", WIRES)

kit = Toolkit("Kit", version="1.0.0")
attempts: list[str] = []


@kit.tool
async def flaky(ctx: Context, can_retry: bool | None = None) -> str:
    """Fails the first time."""
    attempts.append(ctx.call_id)
    if len(attempts) == 1:
        raise ToolError(
            "Not now",
            developer_message="the flux is low",
            can_retry=can_retry,
            retry_after_ms=1,
            additional_prompt_content="try a bigger flux",
        )
    return "done"


@kit.tool(requires=authorization("google", scopes=["mail"]))
async def read_mail() -> str:
    """Needs an account."""
    return "mail"


@kit.tool
async def delete(id: str, is_admin: Annotated[bool, Hidden]) -> bool:
    """Takes a parameter that a model must not fill in."""
    return is_admin


@pytest.fixture(autouse=True)
def _no_attempts() -> None:
    attempts.clear()


def test_the_client_retries_when_can_retry_is_true(wire: WireName) -> None:
    with client(kit, wire=wire, retries=1) as yard:
        assert yard.call("Kit.Flaky", {"can_retry": True}) == "done"
    assert len(attempts) == 2
    assert attempts[0] == attempts[1], "a retry is the same call"


def test_the_client_waits_retry_after_ms_before_it_retries(wire: WireName) -> None:
    spoken = client_module.WIRES[wire]
    flow = call(spoken, CallTool("Kit.Flaky", {}), retries=2)
    assert isinstance(flow.send(None), Request)
    failed = ToolError("Not now", can_retry=True, retry_after_ms=1500)
    assert flow.send(spoken.encode_error(failed, CallTool("Kit.Flaky", {}, "1"))) == Pause(1.5, "Not now")
    assert isinstance(flow.send(None), Request)
    at_once = ToolError("Not now", can_retry=True)
    assert flow.send(spoken.encode_error(at_once, CallTool("Kit.Flaky", {}, "1"))) == Pause(
        FIRST_PAUSE_S * 2, "Not now"
    )


def test_the_client_does_not_retry_when_can_retry_is_absent(wire: WireName) -> None:
    with client(kit, wire=wire, retries=3) as yard, pytest.raises(ToolError):
        yard.call("Kit.Flaky")
    assert len(attempts) == 1


def test_the_clients_error_has_the_additional_prompt_content(wire: WireName) -> None:
    with client(kit, wire=wire) as yard, pytest.raises(ToolError) as failure:
        yard.call("Kit.Flaky")
    assert failure.value.additional_prompt_content == "try a bigger flux"


def test_the_text_of_a_client_error_never_has_the_developer_message(wire: WireName) -> None:
    with client(kit, wire=wire) as yard, pytest.raises(ToolError) as failure:
        yard.call("Kit.Flaky")
    assert str(failure.value) == "Not now"
    assert failure.value.developer_message == "the flux is low"


def test_the_text_of_a_missing_authorization_has_its_url(wire: WireName) -> None:
    if wire == "otc_draft":
        pytest.skip("the draft has no challenges")
    with client(kit, wire=wire) as yard, pytest.raises(MissingRequirements) as refusal:
        yard.call("Kit.ReadMail")
    (challenge,) = refusal.value.missing.authorization
    assert challenge.url in str(refusal.value)


def test_the_error_of_a_missing_authorization_has_its_check_url(wire: WireName) -> None:
    if wire == "otc_draft":
        pytest.skip("the draft has no challenges")
    with client(kit, wire=wire) as yard, pytest.raises(MissingRequirements) as refusal:
        yard.call("Kit.ReadMail")
    (challenge,) = refusal.value.missing.authorization
    assert challenge.check_url.startswith("http://")


def test_the_client_keeps_non_inferrable_parameters_from_a_model(wire: WireName) -> None:
    with client(kit, wire=wire) as yard:
        shown = next(tool for tool in yard.list(for_model=True) if tool["id"] == "Kit.Delete@1.0.0")
        whole = next(tool for tool in yard.list() if tool["id"] == "Kit.Delete@1.0.0")
    assert "is_admin" not in str(shown)
    assert "is_admin" in str(whole)


def test_the_client_passes_non_inferrable_parameters(wire: WireName) -> None:
    with client(kit, wire=wire) as yard:
        assert yard.call("Kit.Delete", {"id": "7", "is_admin": True}) is True


def test_the_client_calls_a_tool_without_requirements_with_its_input_alone(wire: WireName) -> None:
    sent: list[Request] = []

    class Recorder:
        def send(self, request: Request) -> Reply:
            sent.append(request)
            return client_module.WIRES[wire].encode_error(ToolError("no"), CallTool("Kit.Delete", {}, "1"))

        def close(self) -> None:
            """There is nothing to close."""

    outcome = Client(wire=wire, sending=Recorder()).outcome("Kit.Delete", {"id": "7"})
    assert outcome.error is not None
    assert b"context" not in sent[0].body
    assert _input(sent[0]) == {"id": "7"}


def _input(request: Request) -> Any:
    import msgspec

    body = msgspec.json.decode(request.body)
    return body.get("request", body)["input"]
