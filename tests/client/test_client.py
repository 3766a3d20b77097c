"""The clients against a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.serving import running
from toolyard import AsyncClient, Client, InvalidInput, MissingRequirements, NotAuthenticated, ToolError, ToolNotFound
from toolyard.client.sending import Unreachable


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("open", tmp_path_factory.mktemp("client")) as url:
        yield url


def test_it_lists_and_calls(address: str) -> None:
    with Client(address) as client:
        assert client.healthy()
        assert "Calculator.Add@1.0.0" in [tool["id"] for tool in client.list()]
        assert client.call("Calculator.Add", {"a": 10, "b": 5}) == 15
        assert client.call("Doorbell.Ring", {"doorbell_id": "doorbell42"}) is None


def test_it_lists_and_calls_asynchronously(address: str) -> None:
    async def all_of_it() -> None:
        async with AsyncClient(address) as client:
            assert await client.healthy()
            assert len(await client.list(all_versions=True)) > len(await client.list())
            calls = [client.call("Calculator.Add", {"a": number, "b": 1}) for number in range(20)]
            assert await asyncio.gather(*calls) == list(range(1, 21))

    asyncio.run(all_of_it())


def test_its_errors_are_typed(address: str) -> None:
    with Client(address, retries=0) as client:
        with pytest.raises(InvalidInput) as invalid:
            client.call("Calculator.Add", {"a": 10, "b": "infinity"})
        assert [(p.path, p.sentence) for p in invalid.value.problems] == [("b", "Must be a number")]
        with pytest.raises(ToolError, match="Doorbell ID not found"):
            client.call("Doorbell.Ring", {"doorbell_id": "nowhere"})
        with pytest.raises(ToolNotFound, match="Tool 'Calculator_Sub' was not found"):
            client.call("Calculator.Sub")
        with pytest.raises(MissingRequirements) as missing:
            client.call("Sms.Send", {"to": "1", "message": "x"})
        assert missing.value.missing.secrets == ("TWILIO_API_KEY",)


def test_it_passes_secrets_tokens_and_the_user(address: str) -> None:
    with Client(address) as client:
        said = client.call("Sms.Send", {"to": "1", "message": "x"}, secrets={"TWILIO_API_KEY": "k"})
        mails = client.call("Mail.GetEmails", {"query": "moth"}, tokens={"google": "t"}, user_id="user-1")
    assert "Nothing was sent" in said
    assert [mail["sender"] for mail in mails] == ["grace@example.com"]


def test_it_shows_its_key(tmp_path: Path) -> None:
    from tests.conformance.tokens import API_KEY

    with running("keys", tmp_path) as url:
        with Client(url) as stranger, pytest.raises(NotAuthenticated):
            stranger.list()
        with Client(url, key=API_KEY) as known:
            assert known.call("Calculator.Add", {"a": 1, "b": 1}) == 2


def test_nobody_there_is_said_so() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(Unreachable, match="No answer from"):
        client.call("Calculator.Add")
