"""Providers, where users have accounts that tools may use: the `[[providers]]` tables of the settings, read and
checked.

A provider is named by its address, and the rest is discovered, or it is a preset: one of those that everybody uses and
that either do not speak OpenID Connect or want something of their own. An issuer at which people sign in is such a
provider, too. This module loads no OAuth: every server reads its settings, few have providers.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..text.addresses import is_safe
from .tables import WrongTable, each_table, only, texts_of

MEMBERS = (
    "id", "issuer", "preset", "client_id", "client_secret", "client_secret_env", "client_secret_file", "scopes",
    "parameters",
)  # fmt: skip
"""What a `[[providers]]` table may have."""
SECRETS = ("client_secret", "client_secret_env", "client_secret_file")
CLIENT = ("client_id", *SECRETS, "scopes", "parameters")
"""What the table of an issuer at which people sign in has, too."""
OURS = frozenset(
    {
        "client_id", "client_secret", "code_challenge", "code_challenge_method", "nonce", "redirect_uri",
        "response_mode", "response_type", "scope", "state",
    }
)  # fmt: skip
"""Parameters of an authorization request that the flow itself sets. An operator who could set them would undo what
protects it: `state`, `nonce` and PKCE."""
_id = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch


class Endpoints(Struct, frozen=True):
    """A provider's addresses, and what is peculiar to the provider behind them."""

    authorize: str
    token: str
    revoke: str | None = None
    account: str | None = None
    """Where an access token shows whose it is."""
    says_issuer: bool = False
    """Whether the provider names itself when it sends a browser back (RFC 9207)."""
    takes_basic: bool = True
    """Whether a client may authenticate in a header, as every provider must let it (RFC 6749, section 2.3.1) and some
    do not."""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider as the settings name it, with this server as its client there."""

    id: str
    client_id: str
    client_secret: str | None = None
    """The secret as it stands in the settings; or, in the next two, where else it is, which is looked at when it is
    needed: verbs that only read settings do not need it."""
    client_secret_env: str | None = None
    client_secret_file: str | None = None
    issuer: str | None = None
    endpoints: Endpoints | None = None
    """The addresses of a provider that cannot be discovered."""
    scopes: tuple[str, ...] = ()
    """Scopes that are asked for whatever the tool needs."""
    parameters: Mapping[str, str] = {}
    """Parameters that are sent with the person to the provider."""
    aliases: Mapping[str, str] = {}
    """Scopes that the provider gives back under another name."""
    setting: str = "providers"
    """Which setting names the provider, for messages."""

    def __repr__(self) -> str:
        # Not the default one, which would show the secret in logs and tracebacks.
        return f"Provider({self.id!r})"

    @property
    def has_secret(self) -> bool:
        """Whether the settings say that there is a client secret, wherever it is."""
        return any((self.client_secret, self.client_secret_env, self.client_secret_file))

    def secret(self) -> str | None:
        """The client secret, read from where it is. None for a public client, which has none. Raises ValueError where
        it should be somewhere and is not."""
        # Read each time: a secret in a file can be changed while the server runs.
        if self.client_secret_env is not None:
            if not (found := os.environ.get(self.client_secret_env)):
                raise ValueError(
                    f"{self.setting}: client_secret_env of {self.id} must name a variable of the environment; "
                    f"there is no {self.client_secret_env}"
                )
            return found
        if self.client_secret_file is not None:
            try:
                found = Path(self.client_secret_file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                found = ""
            if not found:
                raise ValueError(
                    f"{self.setting}: client_secret_file of {self.id} must name a file with the secret in it; "
                    f"{self.client_secret_file} is none"
                )
            return found
        return self.client_secret


PRESETS: dict[str, Provider] = {
    "github": Provider(
        id="github",
        client_id="",
        endpoints=Endpoints(
            "https://github.com/login/oauth/authorize",
            "https://github.com/login/oauth/access_token",
            account="https://api.github.com/user",
        ),
    ),
    "google": Provider(
        id="google",
        client_id="",
        issuer="https://accounts.google.com",
        scopes=("openid", "email"),
        parameters={"access_type": "offline", "prompt": "consent"},
        aliases={
            "email": "https://www.googleapis.com/auth/userinfo.email",
            "profile": "https://www.googleapis.com/auth/userinfo.profile",
        },
    ),
}
"""Providers that can be named by a word. Google gives out a refresh token only to clients that ask with these
parameters, and gives scopes back under their long names; GitHub speaks OAuth and no OpenID Connect."""


def read_providers(given: Any) -> list[Provider]:
    """The providers of the setting `providers`, as it was given. Raises ValueError."""
    read = each_table(given, "providers", _provider)
    ids = [provider.id for provider in read]
    if twice := {id for id in ids if ids.count(id) > 1}:
        raise WrongTable(f"there are two providers called {min(twice)!r}; give each an id of its own")
    return read


def _provider(table: Mapping[str, Any], at: str) -> Provider:
    only(table, at, *MEMBERS)
    base = _base(table, at)
    id, client_id = _text(table.get("id", base.id), f"{at}.id"), _text(table.get("client_id"), f"{at}.client_id")
    if not _id(id):
        raise ValueError(f"{at}.id must be a name such as google: letters, digits and - _ . (it is part of an address)")
    return replace(
        base,
        id=id,
        client_id=client_id,
        **_secret(table, at),
        scopes=_scopes(table.get("scopes", base.scopes), f"{at}.scopes"),
        parameters={**base.parameters, **_parameters(table.get("parameters", {}), f"{at}.parameters")},
    )


def read_client(issuer: str, table: Mapping[str, Any], at: str) -> Provider | None:
    """This server as a client of an issuer, so that people can sign in there. `table` has those members of the issuer's
    table that are about that; None where it has none. Raises ValueError."""
    if not table:
        return None
    if "client_id" not in table:
        raise ValueError(f"{at}.{min(table)} stands beside a client_id")
    client_id = _text(table["client_id"], f"{at}.client_id")
    return replace(
        Provider(id=issuer, client_id=client_id, issuer=issuer, setting="issuers"),
        **_secret(table, at),
        scopes=tuple(dict.fromkeys(["openid", *_scopes(table.get("scopes", ()), f"{at}.scopes")])),
        parameters=_parameters(table.get("parameters", {}), f"{at}.parameters"),
    )


def _base(table: Mapping[str, Any], at: str) -> Provider:
    """What is known of a provider without its client: a preset, or an address. Raises ValueError."""
    if ("issuer" in table) == ("preset" in table):
        raise ValueError(f"{at} must have either issuer, an https address, or preset, one of {', '.join(PRESETS)}")
    if "preset" in table:
        preset = PRESETS.get(table["preset"]) if isinstance(table["preset"], str) else None
        if preset is None:
            raise ValueError(f"{at}.preset must be one of {', '.join(PRESETS)}")
        return preset
    issuer = table["issuer"]
    # RFC 8414, section 2: no query and no fragment. What stands before an @ would hide whose host it is.
    if not isinstance(issuer, str) or not is_safe(issuer) or any(mark in issuer for mark in "?#@ "):
        raise ValueError(f"{at}.issuer must be an https address (http on this machine alone)")
    return Provider(id="", client_id="", issuer=issuer)


def _scopes(given: Any, at: str) -> tuple[str, ...]:
    scopes = texts_of(given, at)
    if any(not scope.isascii() or not scope.isprintable() or " " in scope for scope in scopes):
        raise ValueError(f"{at} must be a list of scopes, each without spaces")
    return scopes


def _secret(table: Mapping[str, Any], at: str) -> dict[str, str]:
    """The client secret itself, or where it is, as a member of `Provider`. Raises ValueError."""
    named = [name for name in SECRETS if name in table]
    if len(named) > 1:
        raise ValueError(f"{at} must have only one of {', '.join(SECRETS)}")
    return {name: _text(table[name], f"{at}.{name}") for name in named}


def _parameters(given: Any, at: str) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError(f'{at} must be a table of texts such as {{ prompt = "consent" }}')
    if ours := sorted(OURS & given.keys()):
        raise ValueError(f"{at} must not have {ours[0]}, which the flow itself sets")
    return dict(given)


def _text(given: Any, at: str) -> str:
    if isinstance(given, str) and given:
        return given
    if given is None or given == "":
        raise ValueError(f"{at} is missing; it must be text")
    raise ValueError(f"{at} must be text")
