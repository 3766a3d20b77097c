"""Tokens of a real identity provider: found by its address alone, through a change of its keys and its absence."""

import asyncio
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolyard import Client
from toolyard.model.errors import NotAuthenticated, Unavailable
from toolyard.trust.access.identity import Identity
from toolyard.trust.credentials.issuers import Issuers
from toolyard.trust.issuer_settings import ALGORITHMS, TrustedIssuer

from ...conformance.serving import free_port, running
from .forging import token, unsigned
from .identity_provider import Provider, is_installed, providing

AUDIENCE = "https://tools.example"
METADATA = "/.well-known/openid-configuration"


class ManualClock:
    """The real time, and what a test adds to it."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def trusting(provider: Provider, now: ManualClock, audience: str = AUDIENCE) -> Issuers:
    return Issuers(None, [TrustedIssuer(provider.issuer)], audience, now)


async def verify(tokens: Issuers, token: bytes) -> Identity:
    verified = tokens.verify(token)
    return await verified if isinstance(verified, Awaitable) else verified


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with providing(free_port(), "first", tmp_path_factory.mktemp("oidc")) as started:
        yield started


def test_the_provider_is_installed() -> None:
    assert is_installed(), "'make .venv/oidc.ok' installs it"


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_the_providers_token_is_taken(alg: str, provider: Provider) -> None:
    identity = asyncio.run(verify(trusting(provider, ManualClock()), provider.token(f"{AUDIENCE}/{alg}")))
    assert (identity.tenant, identity.subject, identity.scopes) == ("default", "agent", frozenset({"tools:call"}))
    assert (identity.claims["iss"], identity.claims["aud"]) == (provider.issuer, AUDIENCE)
    assert identity.expires == identity.claims["exp"]


def test_many_at_once_ask_the_provider_once(provider: Provider) -> None:
    async def scene() -> None:
        tokens, given = trusting(provider, ManualClock()), provider.token()
        before = provider.asked(METADATA), provider.asked("/jwks")
        await asyncio.gather(*(verify(tokens, given) for _ in range(20)))
        assert (provider.asked(METADATA), provider.asked("/jwks")) == (before[0] + 1, before[1] + 1)
        assert isinstance(tokens.verify(given), Identity)

    asyncio.run(scene())


def test_the_providers_token_for_another_audience_is_refused(provider: Provider) -> None:
    with pytest.raises(NotAuthenticated) as refusal:
        asyncio.run(verify(trusting(provider, ManualClock(), "https://other.example"), provider.token()))
    assert "for another audience" in str(refusal.value.developer_message)


def test_the_providers_opaque_token_is_refused(provider: Provider) -> None:
    with pytest.raises(NotAuthenticated) as refusal:
        asyncio.run(verify(trusting(provider, ManualClock()), provider.token(resource=None)))
    assert "three parts" in str(refusal.value.developer_message)


def test_new_keys_are_taken_after_one_question_and_old_ones_are_gone(tmp_path: Path) -> None:
    async def scene() -> None:
        port, clock = free_port(), ManualClock()
        with providing(port, "old", tmp_path) as provider:
            tokens, old = trusting(provider, clock), provider.token()
            await verify(tokens, old)
        with providing(port, "new", tmp_path) as provider:
            clock.ahead += 10
            new = provider.token()
            assert (await verify(tokens, new)).subject == "agent"
            assert (provider.asked(METADATA), provider.asked("/jwks")) == (0, 1)
            with pytest.raises(NotAuthenticated) as refusal:
                await verify(tokens, old)
            assert "has no key 'old-ES256'" in str(refusal.value.developer_message)
            assert (await verify(tokens, new)).subject == "agent"
            assert provider.asked("/jwks") == 1

    asyncio.run(scene())


def test_while_the_provider_is_gone_known_keys_serve_and_unknown_ones_do_not(tmp_path: Path) -> None:
    async def scene() -> None:
        port, clock = free_port(), ManualClock()
        with providing(port, "known", tmp_path) as provider:
            tokens, known = trusting(provider, clock), provider.token()
            await verify(tokens, known)
        with providing(port, "unknown", tmp_path) as provider:
            unknown = provider.token()
        clock.ahead += 10
        with pytest.raises(Unavailable) as refusal:
            await verify(tokens, unknown)
        assert "cannot be had" in str(refusal.value.developer_message)
        for minutes in (1, 11, 59):
            clock.ahead = minutes * 60
            assert (await verify(tokens, known)).subject == "agent"
        clock.ahead = 3600
        with pytest.raises(Unavailable):
            await verify(tokens, known)

    asyncio.run(scene())


def test_a_server_that_is_told_the_providers_address_takes_its_tokens(provider: Provider, tmp_path: Path) -> None:
    settings = {"TOOLYARD_ISSUERS": provider.issuer, "TOOLYARD_JWT_AUDIENCE": AUDIENCE}
    with running("open", tmp_path, settings=settings) as url:
        refused = token({"alg": "ES256"}, {"iss": provider.issuer}, unsigned).decode()
        for credential in ("nonsense", refused):
            with Client(url, key=credential) as stranger, pytest.raises(NotAuthenticated):
                stranger.call("Calculator.Add", {"a": 1, "b": 2})
        with Client(url, key=provider.token().decode()) as client:
            assert client.call("Calculator.Add", {"a": 1, "b": 2}) == 3


def test_no_door_of_a_server_opens_while_a_token_is_not_verified(tmp_path: Path) -> None:
    """The provider takes its time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        issuer = f"http://127.0.0.1:{silent.getsockname()[1]}"
        forged = token({"alg": "ES256", "kid": "a"}, {"iss": issuer}, unsigned).decode()
        settings = {"TOOLYARD_ISSUERS": issuer, "TOOLYARD_JWT_AUDIENCE": AUDIENCE, "TOOLYARD_GRACE_S": "0.1"}
        with running("open", tmp_path, settings=settings) as url, ThreadPoolExecutor(len(DOORS)) as pool:
            asked = {path: pool.submit(refusal_at, url + path, forged) for path in DOORS}
            held, _ = silent.accept()
            assert not any(answer.done() for answer in asked.values())
            silent.close()
            held.close()
            for path, answer in asked.items():
                assert b"redentials cannot be checked" in answer.result(timeout=60), path


DOORS = ("/metrics", "/tools", "/otc/tools", "/v1/calls", "/v1/sessions/x", "/mcp")


def refusal_at(address: str, credential: str) -> bytes:
    request = urllib.request.Request(address, headers={"authorization": f"Bearer {credential}"})
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=60)
    return refusal.value.read()


def test_a_provider_that_was_never_reached_is_not_believed(tmp_path: Path) -> None:
    with providing(free_port(), "gone", tmp_path) as provider:
        given = provider.token()
    with pytest.raises(Unavailable):
        asyncio.run(verify(trusting(provider, ManualClock()), given))
