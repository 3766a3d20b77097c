"""The public `oxp` package against a real server: health, list, success, tool error, 400, 422, a key as bearer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from oxp import AuthenticationError, BadRequestError, Oxp, UnprocessableEntityError

from tests.conformance.serving import running
from tests.conformance.tokens import API_KEY


@pytest.fixture(scope="module")
def oxp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oxp]:
    with running("keys", tmp_path_factory.mktemp("oxp")) as url:
        yield Oxp(bearer_token=API_KEY, base_url=url, max_retries=0)


def test_health(oxp: Oxp) -> None:
    assert oxp.with_raw_response.health.check().status_code == 200


def test_list(oxp: Oxp) -> None:
    items = {item.id: item for item in oxp.tools.list().items}
    assert items["Calculator.Add@1.0.0"].name == "Calculator_Add"
    assert items["Doorbell.Ring@0.1.0"].output_schema is None


def test_a_call_that_succeeds(oxp: Oxp) -> None:
    result = oxp.tools.call(request={"tool_id": "Calculator.Add@1.0.0", "input": {"a": 10, "b": 5}}).result
    assert result.success is True
    assert result.value == 15


def test_a_call_whose_tool_fails(oxp: Oxp) -> None:
    result = oxp.tools.call(request={"tool_id": "Doorbell.Ring", "input": {"doorbell_id": "doorbell1"}}).result
    assert result.success is False
    assert result.error.can_retry is True


def test_a_tool_that_is_not_there(oxp: Oxp) -> None:
    with pytest.raises(BadRequestError) as refusal:
        oxp.tools.call(request={"tool_id": "Calculator.Add@2.0.0"})
    assert refusal.value.body["message"] == "Tool 'Calculator_Add' was not found"  # type: ignore[index]


def test_input_that_does_not_fit(oxp: Oxp) -> None:
    with pytest.raises(UnprocessableEntityError) as refusal:
        oxp.tools.call(request={"tool_id": "Calculator.Add", "input": {"a": 10, "b": "infinity"}})
    assert refusal.value.body["parameter_errors"] == {"b": "Must be a number"}  # type: ignore[index]


def test_a_wrong_key(oxp: Oxp) -> None:
    with pytest.raises(AuthenticationError):
        oxp.with_options(bearer_token="ty_wrong_key_0123456789").tools.list()


def test_it_retries_when_the_server_is_busy(tmp_path: Path) -> None:
    """The public client retries a busy answer by itself, because of `x-should-retry`."""
    import threading

    tools = tmp_path / "busy.py"
    tools.write_text(
        "import asyncio\nfrom toolyard import Toolkit\nkit = Toolkit('Busy')\n"
        "@kit.tool(concurrency=1)\nasync def wait(seconds: float) -> str:\n"
        "    await asyncio.sleep(seconds)\n    return 'done'\n"
    )
    (tmp_path / "toolyard.toml").write_text("queue_wait_s = 0.05\n")
    with running("open", tmp_path, [str(tools)]) as url:
        first = Oxp(bearer_token="x", base_url=url, max_retries=0)
        holder = threading.Thread(
            target=lambda: first.tools.call(request={"tool_id": "Busy.Wait", "input": {"seconds": 1}})
        )
        holder.start()
        while b"toolyard_calls_running 1.0" not in _metrics(url):
            pass
        with pytest.raises(BadRequestError, match="busy"):
            first.tools.call(request={"tool_id": "Busy.Wait", "input": {"seconds": 0}})
        patient = Oxp(bearer_token="x", base_url=url, max_retries=50)
        result = patient.tools.call(request={"tool_id": "Busy.Wait", "input": {"seconds": 0}}).result
        holder.join()
    assert result.success is True


def _metrics(url: str) -> bytes:
    from urllib.request import urlopen

    with urlopen(f"{url}/metrics") as reply:
        body: bytes = reply.read()
    return body
