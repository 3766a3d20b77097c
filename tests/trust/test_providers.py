"""Providers in the settings: what there must be, what is refused and in which words, and that no secret is shown."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from toolyard.model.errors import SettingsError
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.trust.provider_settings import PRESETS, Provider, read_providers

GIVEN = {"id": "idp", "issuer": "https://id.example", "client_id": "me", "client_secret": "hush-hush"}


def one(**more: Any) -> Provider:
    (provider,) = read_providers([{name: value for name, value in {**GIVEN, **more}.items() if value is not None}])
    return provider


def test_a_provider_is_its_address_and_our_client_there() -> None:
    provider = one(scopes=["openid"], parameters={"prompt": "consent"})
    assert (provider.id, provider.issuer, provider.client_id) == ("idp", "https://id.example", "me")
    assert (provider.client_secret, provider.scopes, provider.parameters) == (
        "hush-hush", ("openid",), {"prompt": "consent"},
    )  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_needs_only_our_client(preset: str) -> None:
    provider = one(id=None, issuer=None, preset=preset)
    assert (provider.id, provider.client_id) == (preset, "me")
    assert provider.issuer is not None or provider.endpoints is not None
    assert one(issuer=None, preset=preset, id="mine").id == "mine"


def test_a_secret_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDP_SECRET", "from-the-environment")
    assert one(client_secret=None, client_secret_env="IDP_SECRET").secret() == "from-the-environment"
    (tmp_path / "secret").write_text("from-a-file\n")
    assert one(client_secret=None, client_secret_file=str(tmp_path / "secret")).secret() == "from-a-file"
    assert one(client_secret=None).secret() is None
    assert one().secret() == "hush-hush"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"client_secret_env": "NOT_THERE"}, "client_secret_env of idp must name a variable .* there is no NOT_THERE"),
        ({"client_secret_file": "/not/there"}, "client_secret_file of idp must name a file .* /not/there is none"),
    ],
)
def test_a_server_does_not_start_without_it_and_settings_can_be_read(where: dict[str, str], said: str) -> None:
    """Who looks after the ledger need not have the secret."""
    settings = exactly(providers=[{name: value for name, value in GIVEN.items() if name != "client_secret"} | where])
    with pytest.raises(SettingsError, match=said):
        Yard([], settings)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"issuer": None}, "must have either issuer, an https address, or preset, one of github, google"),
        ({"preset": "github"}, "must have either issuer"),
        ({"issuer": None, "preset": "other"}, "preset must be one of github, google"),
        ({"issuer": "http://id.example"}, "issuer must be an https address (http on this machine alone)"),
        ({"issuer": "https://id.example?a=b"}, "issuer must be an https address"),
        ({"id": "a/b"}, "id must be a name such as google"),
        ({"id": None}, "id is missing; it must be text"),
        ({"client_id": None}, "client_id is missing; it must be text"),
        ({"client_id": 7}, "client_id must be text"),
        ({"client_secret_env": "X"}, "must have only one of client_secret, client_secret_env, client_secret_file"),
        ({"client_secret": None, "client_secret_env": 3}, "client_secret_env must be text"),
        ({"scopes": ["a b"]}, "scopes must be a list of scopes, each without spaces"),
        ({"scopes": 3}, "scopes must be text or a list of texts"),
        ({"parameters": {"state": "x"}}, "parameters must not have state, which the flow itself sets"),
        ({"parameters": ["x"]}, "parameters must be a table of texts"),
        ({"colour": "red"}, "has no 'colour'; it has id, issuer, preset"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^providers\[1\]") as refusal:
        one(**more)
    assert said in str(refusal.value)
    assert "hush" not in str(refusal.value)


def test_two_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two providers called 'idp'"):
        read_providers([GIVEN, GIVEN])


def test_no_message_shows_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SettingsError) as refusal:
        exactly(providers=json.dumps([{**GIVEN, "colour": "red"}]))
    assert "hush" not in str(refusal.value)
    logging.getLogger("toolyard").warning("%r %s", exactly(providers=[GIVEN]), one())
    assert "hush" not in caplog.text
