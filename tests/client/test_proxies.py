"""A proxy that the environment names sees nothing of what is said to a server on this machine: keys, operators' tokens
and secrets go there in clear."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import toolyard
from tests.conformance.serving import running
from toolyard import AsyncClient, Client

KEY = "ty_" + "canary0123456789" * 2


class Proxy:
    """Takes connections, keeps what it is sent, and answers nobody."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(65536))

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    made = Proxy()
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, made.address)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("open", tmp_path_factory.mktemp("proxied")) as url:
        yield url


@pytest.fixture(params=["127.0.0.1", "localhost"])
def server(address: str, request: pytest.FixtureRequest) -> str:
    return address.replace("127.0.0.1", request.param)


def test_a_client_asks_a_server_on_this_machine_itself(proxy: Proxy, server: str) -> None:
    with Client(server, key=KEY) as client:
        assert client.list()

    async def listed() -> None:
        async with AsyncClient(server, key=KEY) as client:
            assert await client.list()

    asyncio.run(listed())
    assert proxy.heard == []


def test_so_does_the_command_line(proxy: Proxy, server: str, tmp_path: Path) -> None:
    assert toolyard("list", "--server", server, folder=tmp_path).code == 0
    refused = toolyard(
        "secrets", "set", "foo", "--server", server, folder=tmp_path, input="canary",
        variables={"TOOLYARD_OPERATOR_TOKEN": KEY},
    )  # fmt: skip
    assert "not valid" in refused.err
    assert proxy.heard == []


def test_elsewhere_a_proxy_is_used(proxy: Proxy) -> None:
    """Or those above would show nothing. A reserved name: nobody could be asked without one."""
    with Client("https://toolyard.invalid") as client, pytest.raises(Exception, match="No answer"):
        client.list()
    assert proxy.heard[0].startswith(b"CONNECT toolyard.invalid:443")
