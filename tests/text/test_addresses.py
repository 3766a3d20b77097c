"""One definition of this machine, in all its spellings."""

import pytest

from toolyard.server.settings.readers import Wrong, https
from toolyard.text.addresses import host_of, is_loopback, is_safe

HERE = [
    "localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.1.", "127.0.0.2", "127.255.255.254", "127.1",
    "0x7f.0.0.1", "2130706433", "::1", "[::1]", "0:0:0:0:0:0:0:1", "0000::0001", "::1%lo", "::ffff:127.0.0.1",
    "[::ffff:7f00:1]",
]  # fmt: skip
ELSEWHERE = [
    "", "0.0.0.0", "::", "128.0.0.1", "10.0.0.1", "192.168.0.1", "::2", "fe80::1%lo", "::ffff:10.0.0.1", "::127.0.0.1",
    "localhost.example.com", "127.0.0.1.example.com", "evil.example", "localhost evil", "127.0.0.1 evil", "face",
    "1270.0.0.1", "127.0.0.1.1", "127..1", "[", ":::1",
]  # fmt: skip


@pytest.mark.parametrize("host", HERE)
def test_this_machine_is_known_in_every_spelling(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_nothing_else_is_this_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]"])
def test_addresses_for_secrets_know_it_too(host: str) -> None:
    assert is_safe(f"http://{host}:8000/x")
    assert https(f"http://{host}:8000/x")


@pytest.mark.parametrize("host", ["127.0.0.1.example.com", "127.example.com", "10.0.0.1"])
def test_secrets_go_nowhere_else_without_tls(host: str) -> None:
    assert not is_safe(f"http://{host}/")
    with pytest.raises(Wrong):
        https(f"http://{host}/")
    assert https(f"https://{host}/")


@pytest.mark.parametrize(
    "url",
    ["http://[::1].evil.com", "http://127.0.0.1:80.evil.com/", "http://[::1", "http://localhost:x", "x"],
)
def test_what_only_begins_like_an_address_of_this_machine_is_not_safe(url: str) -> None:
    assert (is_safe(url), host_of(url)) == (False, "")
