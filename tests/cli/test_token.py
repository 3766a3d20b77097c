"""`toolyard token`: what it prints is what the server takes, and what the server would refuse is not made."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolyard.trust.access.identity import Identity
from toolyard.trust.credentials.hs256 import Hs256

from .processes import Ended

SECRET = "a-shared-secret-of-some-length!!"
Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _settings(here: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder without settings, and a secret in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLYARD_JWT_SECRET", SECRET)


def identity(made: Ended, audience: str | None = None) -> Identity:
    assert (made.code, made.err) == (0, "")
    return Hs256(SECRET, audience, 900, time.time).verify(made.out.strip().encode())


def lifetime(made: Identity) -> float:
    return float(made.claims["exp"]) - float(made.claims["iat"])


def test_a_token_is_for_somebody_and_lives_ten_minutes(here: Run) -> None:
    made = identity(here("token", "--sub", "user-1"))
    assert (made.tenant, made.subject, made.scopes) == ("default", "user-1", frozenset())
    assert lifetime(made) == 600
    assert set(made.claims) == {"sub", "iat", "exp"}


def test_everything_can_be_said(here: Run) -> None:
    words = "--sub ü --ttl 30s --tenant acme --scope a --scope b --aud yard --claim n=1 --claim t=x --claim l=[1]"
    made = identity(here("token", *words.split(" ")), "yard")
    assert (made.tenant, made.subject, made.scopes, lifetime(made)) == ("acme", "ü", frozenset({"a", "b"}), 30)
    assert [made.claims[name] for name in "ntl"] == [1, "x", [1]]


@pytest.mark.parametrize(("ttl", "seconds"), [("45s", 45), ("15m", 900)])
def test_a_duration_has_a_unit(ttl: str, seconds: int, here: Run) -> None:
    assert lifetime(identity(here("token", "--sub", "a", "--ttl", ttl))) == seconds


def test_the_audience_is_that_of_the_settings(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_JWT_AUDIENCE", "yard")
    assert identity(here("token", "--sub", "a"), "yard").claims["aud"] == "yard"
    assert identity(here("token", "--sub", "a", "--aud", "other"), "other").claims["aud"] == "other"


def test_the_usual_lifetime_is_no_longer_than_a_token_may_live(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_JWT_MAX_TTL_S", "60")
    assert lifetime(identity(here("token", "--sub", "a"))) == 60
    monkeypatch.setenv("TOOLYARD_JWT_MAX_TTL_S", "7200")
    assert here("token", "--sub", "a", "--ttl", "2h").code == 0


def test_the_secret_may_be_in_another_file(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLYARD_JWT_SECRET")
    Path("other.toml").write_text(f'jwt_secret = "{SECRET}"', encoding="utf-8")
    assert identity(here("token", "--sub", "a", "--config", "other.toml")).subject == "a"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--sub a --ttl 16m", "--ttl 16m is longer than a token may live here: 900 s (setting: jwt_max_ttl_s)"),
        ("--sub a --ttl soon", "--ttl must be a time such as 30d, 12h, 10m or 45s, got 'soon'"),
        ("--sub a --ttl 0", "--ttl must be a time such as 30d, 12h, 10m or 45s, got '0'"),
        ("--sub a --ttl -5s", "--ttl must be a time such as 30d, 12h, 10m or 45s, got '-5s'"),
        ("--sub a --claim exp=9", "--claim exp is said with --ttl"),
        ("--sub a --claim sub=b", "--claim sub is said with --sub"),
        ("--sub a --claim x", "--claim 'x' is not NAME=VALUE"),
        ("--sub a --claim =x", "--claim '=x' is not NAME=VALUE"),
        ("--sub=", "--sub is empty; a token is for somebody"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(words: str, complaint: str, here: Run) -> None:
    assert here("token", *words.split(" ")) == Ended(2, "", f"toolyard: {complaint}\n")


def test_without_a_secret_there_is_nothing_to_sign_with(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLYARD_JWT_SECRET")
    refused = here("token", "--sub", "a")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("toolyard: there is no shared secret to sign with; set jwt_secret")


def test_a_secret_that_the_server_would_not_take_signs_nothing(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_JWT_SECRET", "short")
    refused = here("token", "--sub", "a")
    assert (refused.code, refused.out) == (2, "")
    assert "jwt_secret is too short to be a secret" in refused.err
