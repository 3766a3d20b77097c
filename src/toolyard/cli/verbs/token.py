"""`toolyard token`: an operator, or a test, makes a token for a caller of a server that shares a secret with it."""

import time
from typing import Annotated, Any

import msgspec
import typer

from ...lazy import load
from ...model.api_key import key_scope
from ...model.errors import SetupError
from ...model.json_value import decode
from ...server.settings.table import Settings, load_settings
from ..support.options import checked, seconds_in
from ..support.screen import say

USUAL_TTL_S = 600
OPTIONS = {"sub": "--sub", "exp": "--ttl", "tenant": "--tenant", "scope": "--scope", "aud": "--aud", "iat": "--ttl"}
"""Claims that have an option of their own."""


def token(
    sub: Annotated[str, typer.Option(help="Whom it is for: the caller's subject.")],
    ttl: Annotated[str | None, typer.Option(metavar="30s|10m|1h", help="How long it lives (10m).")] = None,
    tenant: Annotated[str | None, typer.Option(help="The caller's tenant (default).")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="What it is for; may be given several times.")] = None,
    aud: Annotated[str | None, typer.Option(help="Which server it is for (the setting jwt_audience).")] = None,
    claim: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Another claim; JSON or text.")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
) -> None:
    """Print a bearer token for a caller.

    It is signed with the shared secret that the settings name (jwt_secret).

    toolyard token --sub user-1 --ttl 5m
    """
    settings = load_settings({}, config=config)
    if settings.jwt_secret is None:
        raise SetupError(
            "there is no shared secret to sign with; set jwt_secret, or TOOLYARD_JWT_SECRET, as the server has it"
        )
    if not sub:
        raise SetupError("--sub is empty; a token is for somebody")
    for option, given in (("--tenant", tenant), ("--aud", aud)):
        if given == "":
            raise SetupError(f"{option} is empty; leave it out for the usual one")
    for each in scope or ():
        checked(each, key_scope, "--scope")
    now = int(time.time())
    claims: dict[str, Any] = {"sub": sub, "iat": now, "exp": now + _lifetime(ttl, settings)}
    named = {"tenant": tenant, "scope": " ".join(scope) if scope else None, "aud": aud or settings.jwt_audience}
    claims |= {name: value for name, value in named.items() if value}
    claims |= dict(map(_claim, claim or ()))
    say(load("signed_token")(claims, settings.jwt_secret) + "\n")


def _lifetime(ttl: str | None, settings: Settings) -> int:
    """How long the token lives, in seconds. Raises SetupError for longer than the server would take it."""
    longest = settings.jwt_max_ttl_s
    if ttl is None:
        return int(min(USUAL_TTL_S, longest))
    wanted = int(seconds_in(ttl, "--ttl"))
    if wanted > longest:
        raise SetupError(f"--ttl {ttl} is longer than a token may live here: {longest:g} s (setting: jwt_max_ttl_s)")
    return wanted


def _claim(word: str) -> tuple[str, Any]:
    name, sign, value = word.partition("=")
    if not name or not sign:
        raise SetupError(f"--claim {word!r} is not NAME=VALUE")
    if name in OPTIONS:
        raise SetupError(f"--claim {name} is said with {OPTIONS[name]}")
    try:
        return name, decode(value)
    except msgspec.DecodeError:
        return name, value
