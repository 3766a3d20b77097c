"""The clients against a real server."""

import asyncio
import gzip
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.serving import running
from tests.server.certificates import Signed, signed
from toolyard import (
    AsyncClient,
    Client,
    Declined,
    InvalidInput,
    MissingRequirements,
    NotAuthenticated,
    ToolError,
    ToolNotFound,
)
from toolyard.client import transport
from toolyard.client.confirm import UNTRUSTED_HINTS
from toolyard.client.transport import NotVerified, ReplyTooLarge, Unreachable
from toolyard.model.errors import Challenge, Problem, SetupError, ToolyardError
from toolyard.wires.contract import Reply
from toolyard.wires.oxp import oxp


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


def test_a_person_sees_what_would_be_sent_and_may_refuse(address: str) -> None:
    asked: list[tuple[str, dict[str, object]]] = []

    def confirm(tool: dict[str, Any], input: dict[str, Any]) -> bool:
        asked.append((tool["name"], input))
        return bool(input.get("a") == 1)

    for url in (address, f"{address}/mcp"):
        with Client(url, confirm=confirm) as client:
            assert client.call("Calculator.Add", {"a": 1, "b": 2}) == 3
            with pytest.raises(Declined, match="was not called"):
                client.call("Calculator.Add", {"a": 2, "b": 2})
            with pytest.raises(Declined):
                client.call("Nowhere.Tool", {})
        names = [("Calculator_Add", {"a": 1, "b": 2}), ("Calculator_Add", {"a": 2, "b": 2}), ("Nowhere.Tool", {})]
        assert asked == names
        asked.clear()


@pytest.mark.parametrize("wire", ["", "/mcp"])
def test_hints_come_from_servers_that_are_trusted(address: str, wire: str) -> None:
    asked: list[Any] = []

    def confirm(tool: dict[str, Any], input: dict[str, Any]) -> bool:
        asked.append(tool.get("annotations"))
        return False

    for trusted in (None, True, False):
        with Client(address + wire, confirm=confirm, trusted=trusted) as client, pytest.raises(Declined):
            client.call("Calculator.Add", {"a": 1, "b": 2})
    assert asked[0] == asked[1] != asked[2] == UNTRUSTED_HINTS

    async def all_of_it() -> None:
        async with AsyncClient(address + wire, confirm=confirm, trusted=False) as client:
            with pytest.raises(Declined):
                await client.call("Calculator.Add", {"a": 1, "b": 2})

    asyncio.run(all_of_it())
    assert asked[3] == UNTRUSTED_HINTS


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
def test_who_confirms_may_take_their_time(address: str, answer: bool, is_late: bool) -> None:
    async def later(tool: dict[str, Any], input: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return answer

    async def all_of_it() -> None:
        confirm: Any = later if is_late else lambda tool, input: answer
        async with AsyncClient(address, confirm=confirm) as client:
            if answer:
                assert await client.call("Calculator.Add@1", {"a": 1, "b": 2}) == 3
            else:
                with pytest.raises(Declined):
                    await client.call("Calculator.Add@1", {"a": 1, "b": 2})

    asyncio.run(all_of_it())


def test_use_is_logged_without_what_was_said(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "toolyard.client"), Client(address, retries=0) as client:
        client.call("Sms.Send", {"to": "+47 1", "message": "Hi"}, secrets={"TWILIO_API_KEY": "sk-1"}, call_id="logged")
        with pytest.raises(ToolError):
            client.call("Doorbell.Ring", {"doorbell_id": "nowhere"})
    said = [record.getMessage() for record in caplog.records if record.name == "toolyard.client"]
    assert [line.partition(" in ")[0] for line in said] == [
        f"Sms.Send at {address}: success",
        f"Doorbell.Ring at {address}: tool_failed",
    ]
    assert said[0].endswith("ms, call logged")
    assert "+47" not in "".join(said)
    assert "sk-1" not in "".join(said)


def test_calls_that_came_to_nothing_are_logged_too(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def no(tool: dict[str, Any], input: dict[str, Any]) -> bool:
        return False

    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as gone:
        nobody, nothing = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (silent, gone))
        gone.close()
        with caplog.at_level("INFO", "toolyard.client"):
            cases: list[tuple[str, str, dict[str, Any]]] = [
                (address, "Calculator.Add", {}),
                (address, "Calculator.Add", {"confirm": no}),
                (address, "No.Tool", {}),
                (nobody, "Calculator.Add", {"timeout_s": 0.01}),
                (nothing, "Calculator.Add", {}),
            ]
            for url, tool, options in cases:
                with Client(url, **options) as client, pytest.raises(ToolyardError):
                    client.call(tool, {"a": "hunter2"}, call_id="logged")
    said = [record.getMessage() for record in caplog.records if record.name == "toolyard.client"]
    assert said == [
        f"Calculator.Add at {address}: refused (InvalidInput), call logged",
        f"Calculator.Add at {address}: declined, call logged",
        f"No.Tool at {address}: refused (ToolNotFound), call logged",
        f"Calculator.Add at {nobody}: timed out, call logged",
        f"Calculator.Add at {nothing}: no answer, call logged",
    ]


def test_the_servers_own_message_of_a_refused_input_is_kept() -> None:
    body = b'{"message": "Nothing here fits", "parameter_errors": {"a": "Must be even"}}'
    with pytest.raises(InvalidInput, match="Nothing here fits") as refused:
        oxp.FLAT.decode_outcome(Reply(422, body, []))
    assert refused.value.problems == (Problem("a", "Must be even"),)
    with pytest.raises(InvalidInput, match="The server answered with status 422"):
        oxp.FLAT.decode_outcome(Reply(422, b'{"parameter_errors": ["a"]}', []))


# --- certificates --------------------------------------------------------------------------------


@contextmanager
def https(made: Signed) -> Iterator[str]:
    """A server that answers everything with an empty list of tools."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "13")
            self.end_headers()
            self.wfile.write(b'{"items": []}')

        def log_message(self, format: str, *args: Any) -> None:
            """Not here."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert_file, made.key_file)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        try:
            yield f"https://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()


def test_a_certificate_nobody_vouches_for_is_named_as_what_is_wrong(tmp_path: Path) -> None:
    authority = signed(tmp_path, "authority", is_authority=True)
    with https(signed(tmp_path, "leaf", authority)) as url:
        with Client(url) as client, pytest.raises(NotVerified, match=r"certificate of .* is not trusted") as refused:
            client.list()
        assert "running?" not in refused.value.message
        with Client(url, ca=str(authority.cert_file)) as client:
            assert client.list() == []

        async def all_of_it() -> list[Any]:
            async with AsyncClient(url, ca=str(authority.cert_file)) as client:
                return await client.list()

        assert asyncio.run(all_of_it()) == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_a_ca_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SetupError, match="is no file of certificates"):
        Client("https://yard.example", ca=str(file))


@pytest.mark.parametrize(
    ("url", "are_read"),
    [
        ("http://127.0.0.1:9", False),
        ("http://localhost:9", False),
        ("https://127.0.0.1:9", True),
        ("http://yard.invalid", True),
    ],
)
def test_authorities_are_read_where_a_certificate_may_be_seen(
    url: str, are_read: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file of none cannot be read: whoever reads it says so."""
    (tmp_path / "none.pem").write_text("none", encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    for made in (Client, AsyncClient):
        if are_read:
            with pytest.raises(ssl.SSLError):
                made(url)
        else:
            made(url)


class EndlessServer(BaseHTTPRequestHandler):
    """Sends what unpacks to a thousand times as much."""

    def do_POST(self) -> None:
        body = gzip.compress(b" " * 4_000_000)
        self.send_response(200)
        for name, value in (("content-type", "application/json"), ("content-encoding", "gzip")):
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # whoever asked has left
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not to standard error."""


def test_a_reply_has_a_bound_also_when_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MOST_REPLY", 2_000_000)
    with ThreadingHTTPServer(("127.0.0.1", 0), EndlessServer) as hostile:
        serving = threading.Thread(target=hostile.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{hostile.server_port}"

        async def call() -> None:
            async with AsyncClient(url, retries=0) as client:
                await client.call("Kit.Tool")

        try:
            with Client(url, retries=0) as client, pytest.raises(ReplyTooLarge, match="more than 2000000 bytes"):
                client.call("Kit.Tool")
            with pytest.raises(ReplyTooLarge):
                asyncio.run(call())
        finally:
            hostile.shutdown()
            serving.join()


@pytest.mark.parametrize("body", [b"{}", b"[]", b"<html>", b"[" * 100_000])
def test_a_challenge_of_which_nobody_says_how_it_stands_has_failed(body: bytes) -> None:
    class Strange:
        def send(self, request: Any) -> Reply:
            return Reply(200, body, [])

        def close(self) -> None: ...

    with Client("http://strange.example", sending=Strange()) as client:
        challenge = Challenge(
            "github", "http://strange.example/authorize/x", "http://strange.example/authorize/x/status"
        )
        assert client.challenge_status(challenge) == "failed"
