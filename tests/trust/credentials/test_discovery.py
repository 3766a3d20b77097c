"""What is fetched from an issuer: where it is looked for, and what is not put up with."""

import asyncio
import gzip
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from toolyard.text.addresses import is_safe
from toolyard.trust.credentials import discovery
from toolyard.trust.credentials.discovery import Discovery, metadata_urls
from toolyard.trust.credentials.jwks_cache import NoAnswer

from .forging import jwk, key
from .issuing import KEYS, OAUTH, OPENID, Answer, Site, issuing

KEY = jwk("a", key("p256"))


@pytest.fixture
def site() -> Iterator[Site]:
    with issuing() as made:
        made.publish(KEY)
        yield made


def kids(site: Site, issuer: str | None = None, jwks_url: str | None = None) -> list[str | None]:
    return [key.kid for key in asyncio.run(Discovery(issuer or site.address, jwks_url).keys())]


def test_the_metadata_says_where_the_keys_are(site: Site) -> None:
    assert kids(site) == ["a"]
    assert dict(site.asked) == {OPENID: 1, KEYS: 1}


def test_oauths_metadata_are_the_second_try(site: Site) -> None:
    site.answers[OAUTH] = site.answers.pop(OPENID)
    assert kids(site) == ["a"]
    assert dict(site.asked) == {OPENID: 1, OAUTH: 1, KEYS: 1}


def test_an_issuer_may_have_a_path() -> None:
    assert metadata_urls("https://id.example/a/b") == (
        "https://id.example/a/b/.well-known/openid-configuration",
        "https://id.example/.well-known/oauth-authorization-server/a/b",
    )
    assert metadata_urls("https://id.example/")[0] == "https://id.example/.well-known/openid-configuration"


def test_an_address_of_keys_needs_no_metadata(site: Site) -> None:
    assert kids(site, "https://elsewhere.example", site.address + KEYS) == ["a"]
    assert dict(site.asked) == {KEYS: 1}


def test_where_the_keys_are_is_remembered_until_they_are_not_there(site: Site) -> None:
    async def scene() -> None:
        found = Discovery(site.address, None)
        await found.keys()
        await found.keys()
        assert dict(site.asked) == {OPENID: 1, KEYS: 2}
        site.answers["/new"] = site.answers.pop(KEYS)
        site.answers[OPENID] = Answer({"issuer": site.address, "jwks_uri": site.address + "/new"})
        with pytest.raises(NoAnswer, match="answered with status 404"):
            await found.keys()
        assert [key.kid for key in await found.keys()] == ["a"]

    asyncio.run(scene())


BAD: dict[str, tuple[str, Any, str]] = {
    "of another issuer": (OPENID, {"issuer": "https://evil.example", "jwks_uri": "{site}/keys"}, "evil.example"),
    "of no issuer": (OPENID, {"jwks_uri": "{site}/keys"}, "that of the issuer None"),
    "of an issuer that is nearly right": (OPENID, {"issuer": "{site}/", "jwks_uri": "{site}/keys"}, "name that one"),
    "without an address": (OPENID, {"issuer": "{site}"}, "has no jwks_uri"),
    "with an address without TLS": (OPENID, {"issuer": "{site}", "jwks_uri": "http://id.example/"}, "not an https"),
    "with an address of a file": (OPENID, {"issuer": "{site}", "jwks_uri": "file:///etc/passwd"}, "not an https"),
    "a list": (OPENID, [], "that of the issuer None"),
    "a list of keys without its table": (KEYS, [KEY], "it is not a JWK Set"),
    "a table without keys": (KEYS, {"keys": "none"}, "it is not a JWK Set"),
    "no JSON": (KEYS, Answer(b"<html>"), "did not answer with JSON"),
    "too deep": (KEYS, Answer(b"[" * 100_000), "did not answer with JSON"),
    "a failure": (KEYS, Answer({"keys": [KEY]}, 500), "answered with status 500"),
    "too large": (KEYS, Answer(b" " * (2**20 + 1)), "more than 1048576 bytes"),
    "compressed": (
        KEYS, Answer(gzip.compress(b" " * 2**24), 200, **{"content-encoding": "gzip"}), "did not answer with JSON"),
    "somewhere else": (KEYS, Answer(b"", 302, location="/elsewhere"), "answered with status 302"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_answer_is_no_answer_when_it_is(name: str, site: Site) -> None:
    path, answer, reason = BAD[name]
    site.answers["/elsewhere"] = site.answers[KEYS]
    if not isinstance(answer, Answer):
        answer = Answer(answer)
        answer.body = answer.body.replace(b"{site}", site.address.encode())
    site.answers[path] = answer
    with pytest.raises(NoAnswer, match=reason):
        kids(site)


def test_an_answer_as_large_as_it_may_be_is_taken(site: Site) -> None:
    body = site.answers[KEYS].body
    site.answers[KEYS] = Answer(body + b" " * (2**20 - len(body)))
    assert kids(site) == ["a"]


def test_one_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/keys"
        with pytest.raises(NoAnswer, match=r"within 0\.1 s|Timeout"):
            asyncio.run(Discovery("https://id.example", url).keys())


def test_no_proxy_comes_between_us_and_this_machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could answer with keys of its own: there is no TLS to tell."""
    with issuing() as proxy:
        proxy.answers[site.address + KEYS] = Answer({"keys": [jwk("of-the-proxy", key("p256"))]})
        monkeypatch.setenv("http_proxy", proxy.address)
        assert kids(site, jwks_url=site.address + KEYS) == ["a"]


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        issuer = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(NoAnswer, match=r"openid-configuration: .*; .*oauth-authorization-server: "):
        asyncio.run(Discovery(issuer, None).keys())


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://id.example/x", True),
        ("http://localhost:1/x", True),
        ("http://127.0.0.1/x", True),
        ("http://127.8.8.8/x", True),
        ("http://[::1]:1/x", True),
        ("http://id.example/x", False),
        ("http://localhost.example/x", False),
        ("http://127.0.0.1.example/x", False),
        ("http://127.0.0.1@id.example/x", False),
        ("http://0.0.0.0/x", False),
        ("https:///x", False),
        ("http://[::1/x", False),
        ("ftp://localhost/x", False),
        ("/x", False),
    ],
)
def test_an_address_is_safe_with_tls_or_on_this_machine(url: str, safe: bool) -> None:
    assert is_safe(url) is safe
