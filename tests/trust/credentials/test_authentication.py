"""Who may call: nobody refused on loopback, keys, and tokens."""

import asyncio
import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest

from toolyard.model.caller import LOCAL, Caller
from toolyard.model.errors import NotAuthenticated, SettingsError
from toolyard.trust.access.access import Access
from toolyard.trust.access.identity import Identity, TokenVerifier
from toolyard.trust.credentials.authentication import MOST_REMEMBERED, Credentials, read_keys, token_verifier

KEY = "ty_0123456789abcdef"
SECRET = "a-shared-secret-of-some-length!!"
NOW = 1_750_000_000.0


class Keys:
    """Those of the settings alone."""

    def __init__(self, *entries: str) -> None:
        self._known = read_keys(entries)
        self.has_any = bool(entries)

    def find(self, digest: bytes) -> Identity | None:
        return self._known.get(digest)


class Slow:
    """Verifies tokens after a while."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def verify(self, token: bytes) -> Identity:
        await self.open.wait()
        if token != b"good":
            raise NotAuthenticated("The credentials are not valid")
        return Identity("acme", "user-1")


def part(content: Any) -> bytes:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")


def token(secret: str = SECRET, header: dict[str, Any] | None = None, **claims: Any) -> bytes:
    given = {"sub": "user-1", "exp": NOW + 60, **claims}
    signed = (
        part(header or {"alg": "HS256", "typ": "JWT"}) + b"." + part({k: v for k, v in given.items() if v is not None})
    )
    signature = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return signed + b"." + urlsafe_b64encode(signature).rstrip(b"=")


def shared(now: Callable[[], float] = lambda: NOW) -> TokenVerifier | None:
    return token_verifier(SECRET, (), "yard", 900, now)


def credentials(keys: Keys, tokens: TokenVerifier | None, now: Callable[[], float] = lambda: NOW) -> Credentials:
    return Credentials(keys, tokens, Access(), now)


def caller_of(headers: dict[bytes, bytes], of: Credentials | None = None) -> Caller:
    """Nothing has to be fetched for these credentials."""
    caller = (of or credentials(Keys(f"laptop:{KEY}"), shared()))(headers)
    assert isinstance(caller, Caller)
    return caller


def bearer(credential: bytes | str) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + (credential.encode() if isinstance(credential, str) else credential)}


def test_without_authentication_credentials_are_ignored() -> None:
    assert caller_of(bearer("nonsense"), credentials(Keys(), None)).names == LOCAL.names


@pytest.mark.parametrize(
    "headers",
    [
        {b"oxp-api-key": KEY.encode()},
        {b"otc-api-key": KEY.encode()},
        bearer(KEY),
        {b"authorization": b"bearer " + KEY.encode()},
    ],
)
def test_a_key_is_known_by_its_name(headers: dict[bytes, bytes]) -> None:
    assert caller_of(headers).owns("default", "laptop")


OTHER = b"ty_fedcba9876543210"


@pytest.mark.parametrize(
    "more",
    [
        {b"authorization": b"Bearer " + token()},
        {b"authorization": b"Bearer nonsense"},
        {b"authorization": b"Bearer " + OTHER},
        {b"otc-api-key": OTHER},
    ],
)
def test_of_several_credentials_none_counts(more: dict[bytes, bytes]) -> None:
    with pytest.raises(NotAuthenticated, match="not valid") as refusal:
        caller_of({b"oxp-api-key": KEY.encode(), **more})
    assert refusal.value.developer_message == "there are several credentials, and they differ"


@pytest.mark.parametrize("more", [bearer(KEY), {b"otc-api-key": KEY.encode()}, {b"authorization": b"Basic cHJveHk6"}])
def test_the_same_key_twice_is_one(more: dict[bytes, bytes]) -> None:
    """And another scheme is another's: a proxy's, say."""
    assert caller_of({b"oxp-api-key": KEY.encode(), **more}).owns("default", "laptop")


def test_a_token_names_its_subject_and_tenant() -> None:
    assert caller_of(bearer(token(tenant="acme"))).owns("acme", "user-1")


def test_its_audience_is_checked_when_it_is_there() -> None:
    assert caller_of(bearer(token(aud="yard"))).subject == "user-1"
    assert caller_of(bearer(token(aud=["other", "yard"]))).subject == "user-1"
    with pytest.raises(NotAuthenticated):
        caller_of(bearer(token(aud="other")))


@pytest.mark.parametrize("credential", [b"ty_0123456789abcdeX", b"nonsense", b"a.b.c", token(exp=NOW - 1), b"\xff\xfe"])
def test_what_is_not_valid_is_refused(credential: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        caller_of(bearer(credential))


@pytest.mark.parametrize("headers", [{}, {b"authorization": b"Basic abc"}, {b"authorization": b"Bearer "}])
def test_no_credentials_are_asked_for(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(NotAuthenticated, match="Credentials are needed") as refusal:
        caller_of(headers)
    assert "OXP-API-Key" in str(refusal.value.developer_message)


def test_a_remembered_token_still_expires() -> None:
    clock = [NOW]
    found = credentials(Keys(), shared(lambda: clock[0]), lambda: clock[0])
    good = bearer(token())
    assert caller_of(good, found) is caller_of(good, found)
    clock[0] = NOW + 61
    with pytest.raises(NotAuthenticated, match="not valid"):
        caller_of(good, found)


def test_the_memory_of_tokens_is_bounded() -> None:
    found = credentials(Keys(), shared())
    for number in range(MOST_REMEMBERED + 10):
        caller_of(bearer(token(jti=number)), found)
    assert len(found._verified) == MOST_REMEMBERED


@pytest.mark.parametrize("entry", ["", "abc", "ty_short", "na me:ty_0123456789abcdef", "ty_0123456789abcdef\n"])
def test_a_key_that_is_none_is_refused_without_showing_it(entry: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_keys([KEY, entry])
    assert "entry 2" in str(refusal.value)
    assert entry == "" or entry not in str(refusal.value)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(SettingsError, match="too short"):
        token_verifier("short", (), None, 900, lambda: NOW)


@pytest.mark.parametrize("secret", ["-----BEGIN PUBLIC KEY-----\nMIIB", " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"])
def test_a_public_key_is_no_secret(secret: str) -> None:
    with pytest.raises(SettingsError, match="jwt_secret is a key, not a secret"):
        token_verifier(secret, (), None, 900, lambda: NOW)


def test_what_has_to_be_fetched_first_is_awaited_and_then_remembered() -> None:
    async def scene() -> None:
        slow = Slow()
        found = credentials(Keys(), slow)
        verified = found(bearer("good"))
        assert not isinstance(verified, Caller)
        slow.open.set()
        assert (await verified).owns("acme", "user-1")
        assert caller_of(bearer("good"), found).owns("acme", "user-1")
        refused = found(bearer("bad"))
        assert not isinstance(refused, Caller)
        with pytest.raises(NotAuthenticated):
            await refused

    asyncio.run(scene())


def test_a_token_is_verified_again_after_the_clock_was_set_back() -> None:
    """Or a key of its issuer that was taken back would be believed for an hour more."""
    now, asked = [NOW], list[bytes]()

    class Verifying:
        def verify(self, token: bytes) -> Identity:
            asked.append(token)
            return Identity("acme", "user-1", "token")

    of = credentials(Keys(), Verifying(), lambda: now[0])
    for back, times in ((0, 1), (1, 1), (-3600, 2), (1, 2), (3600, 3)):
        now[0] += back
        assert caller_of(bearer("good"), of).owns("acme", "user-1")
        assert len(asked) == times
