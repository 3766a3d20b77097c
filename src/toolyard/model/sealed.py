"""Secrets that are kept for tools, as they may be shown: never with their values. And what their parts may look like:
the command line asks, so that a mistake is told before anything is sent, and so does the wire.

A user's account at a provider, as far as anybody may know of it.

What is kept sealed: a user's tokens at a provider, a secret that a tool needs.
"""

from msgspec import Struct

EVERY_TENANT = "*"
LONGEST_NAME = 128
LONGEST_VALUE = 64 * 2**10


class WhichSecret(Struct, frozen=True, order=True):
    """Its name, whose house it is for (`*`: everybody's), and for which of its users (none in particular: all)."""

    name: str
    tenant: str
    user: str = ""


class HeldSecret(Struct, frozen=True):
    """What is known of one. `tools` are patterns; none: every tool that declares it and can be trusted with it."""

    which: WhichSecret
    tools: tuple[str, ...]
    since: float
    is_closed: bool = False
    """No key opens it: it was sealed with another."""


class SecretNeed(Struct, frozen=True):
    """A secret that tools declare and nobody has set for them."""

    name: str
    tools: tuple[str, ...]
    """Their ids."""


class Resealed(Struct, frozen=True):
    """What became of sealed things when the keys were changed."""

    anew: int = 0
    """Are sealed with the first key now, and were not."""
    before: int = 0
    """Were sealed with it already."""
    lost: int = 0
    """None of the keys opens them."""


def secret_name(given: object) -> str:
    """Raises ValueError with a sentence, as the others do."""
    return _name(given, "TWILIO_AUTH_TOKEN")


def tenant_name(given: object) -> str:
    return _name(given, "acme, or * for all of them")


def user_name(given: object) -> str:
    return _name(given, "ada")


def secret_value(given: object) -> str:
    """What is said of it never has it in it."""
    if not isinstance(given, str) or not given:
        raise ValueError("Must be a text that is not empty")
    if len(given.encode(errors="replace")) > LONGEST_VALUE:
        raise ValueError(f"Must have at most {LONGEST_VALUE} bytes")
    if any("\ud800" <= letter <= "\udfff" for letter in given):
        raise ValueError("Must be text, in UTF-8")
    return given


def _name(given: object, such_as: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= LONGEST_NAME or not given.isprintable() or given.isspace():
        raise ValueError(f"Must be 1 to {LONGEST_NAME} characters that can be printed, such as {such_as}")
    return given


KIND = "connection"
"""What it is called in the vault."""


class Account(Struct, frozen=True):
    """`account` is what the provider calls it, where it says so."""

    tenant: str
    user: str
    provider: str
    scopes: tuple[str, ...]
    account: str
    since: float


class Sealed(Struct, frozen=True):
    """`data` only the ring of keys can open; `about` is JSON that may be shown to whoever runs the server."""

    kind: str
    tenant: str
    owner: str
    """Whose it is within the tenant; nobody's in particular where it is empty."""
    name: str
    data: bytes
    about: bytes = b"{}"
    version: int = 0
    """Of what is stored. Each change has the next."""
    changed: float = 0.0
