"""Who may call: nobody refused on loopback, keys, and tokens."""

import asyncio
import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from toolyard.model.caller import LOCAL, Caller
from toolyard.model.errors import NotAuthenticated, SettingsError, Unavailable
from toolyard.trust.authentication import Authenticate, Credentials, at_once, authentication, read_keys
from toolyard.trust.identity import Identity

KEY = "ty_0123456789abcdef"
SECRET = "a-shared-secret-of-some-length!!"
NOW = 1_750_000_000.0


def part(content: Any) -> bytes:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")


def token(secret: str = SECRET, header: dict[str, Any] | None = None, **claims: Any) -> bytes:
    given = {"sub": "user-1", "exp": NOW + 60, **claims}
    signed = (
        part(header or {"alg": "HS256", "typ": "JWT"}) + b"." + part({k: v for k, v in given.items() if v is not None})
    )
    signature = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return signed + b"." + urlsafe_b64encode(signature).rstrip(b"=")


def keys_and_tokens(now: float = NOW) -> Authenticate:
    return authentication([f"laptop:{KEY}"], SECRET, "yard", 900, lambda: now)


def bearer(credential: bytes | str) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + (credential.encode() if isinstance(credential, str) else credential)}


def test_without_authentication_credentials_are_ignored() -> None:
    assert authentication([], None, None, 900, lambda: NOW)(bearer("nonsense")) == LOCAL


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
    assert keys_and_tokens()(headers) == Caller("default", "laptop")


def test_a_token_names_its_subject_and_tenant() -> None:
    assert keys_and_tokens()(bearer(token(tenant="acme"))) == Caller("acme", "user-1")


def test_its_audience_is_checked_when_it_is_there() -> None:
    assert keys_and_tokens()(bearer(token(aud="yard"))).subject == "user-1"
    assert keys_and_tokens()(bearer(token(aud=["other", "yard"]))).subject == "user-1"
    with pytest.raises(NotAuthenticated):
        keys_and_tokens()(bearer(token(aud="other")))


@pytest.mark.parametrize(
    "credential",
    [
        b"ty_0123456789abcdeX",
        b"nonsense",
        b"a.b.c",
        token(secret="another-secret-of-some-length!!!"),
        token(exp=None),
        token(exp=NOW - 1),
        token(exp=NOW + 3600),
        token(exp="tomorrow"),
        token(exp=True),
        token(nbf=NOW + 3600),
        token(sub=None),
        token(sub=""),
        token(sub=7),
        token(header={"alg": "none"}),
        token(header={"alg": "HS512"}),
        token(header={"alg": "HS256", "crit": ["x"], "x": 1}),
        token()[:-2],
        b"\xff\xfe",
    ],
)
def test_what_is_not_valid_is_refused(credential: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        keys_and_tokens()(bearer(credential))


@pytest.mark.parametrize("headers", [{}, {b"authorization": b"Basic abc"}, {b"authorization": b"Bearer "}])
def test_no_credentials_are_asked_for(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(NotAuthenticated, match="Credentials are needed") as refusal:
        keys_and_tokens()(headers)
    assert "OXP-API-Key" in str(refusal.value.developer_message)


def test_a_token_that_was_taken_before_still_expires() -> None:
    clock = [NOW]
    authenticate = authentication([], SECRET, None, 900, lambda: clock[0])
    good = bearer(token())
    assert authenticate(good) == authenticate(good)
    clock[0] = NOW + 61
    with pytest.raises(NotAuthenticated, match="not valid"):
        authenticate(good)


@pytest.mark.parametrize("entry", ["", "abc", "ty_short", "na me:ty_0123456789abcdef", "ty_0123456789abcdef\n"])
def test_a_key_that_is_none_is_refused_without_showing_it(entry: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_keys([KEY, entry])
    assert "entry 2" in str(refusal.value)
    assert entry == "" or entry not in str(refusal.value)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(SettingsError, match="too short"):
        authentication([], "short", None, 900, lambda: NOW)


@pytest.mark.parametrize("secret", ["-----BEGIN PUBLIC KEY-----\nMIIB", " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"])
def test_a_public_key_is_no_secret(secret: str) -> None:
    with pytest.raises(SettingsError, match="jwt_secret is a key, not a secret"):
        authentication([], secret, None, 900, lambda: NOW)


class Slow:
    """Verifies tokens after a while."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def verify(self, token: bytes) -> Identity:
        await self.open.wait()
        if token != b"good":
            raise NotAuthenticated("The credentials are not valid")
        return Identity("acme", "user-1")


def test_what_has_to_be_fetched_first_is_awaited() -> None:
    async def scene() -> None:
        slow = Slow()
        verified = Credentials({}, slow)(bearer("good"))
        assert not isinstance(verified, Caller)
        slow.open.set()
        assert await verified == Caller("acme", "user-1")

    asyncio.run(scene())


def test_whoever_cannot_wait_is_told_to_come_back_and_nobody_is_let_in_meanwhile() -> None:
    async def scene() -> None:
        slow = Slow()
        authenticate = at_once(Credentials({}, slow))
        for credential in ("good", "bad"):
            with pytest.raises(Unavailable) as refusal:
                authenticate(bearer(credential))
            assert refusal.value.retry_after_ms == 1000
        slow.open.set()
        await asyncio.sleep(0)

    asyncio.run(scene())
