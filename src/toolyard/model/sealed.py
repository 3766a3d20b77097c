"""What the vault keeps sealed for tools: secrets, and users' accounts at providers.

`Sealed` is a row of the vault, whatever is in it. `HeldSecret` and `Account` are what may be shown of such a row: never
the secret's value, never the account's tokens. The checks of names and values stand here because two ask for them: the
command line, so that a mistake is reported before anything is sent, and the wire, which must not rely on that.
"""

from msgspec import Struct

EVERY_TENANT = "*"
LONGEST_NAME = 128
LONGEST_VALUE = 64 * 2**10


class WhichSecret(Struct, frozen=True, order=True):
    """What identifies a secret: its name, the tenant it is for (`*`: every tenant), and the user of that tenant it is
    for (empty: every user)."""

    name: str
    tenant: str
    user: str = ""


class HeldSecret(Struct, frozen=True):
    """A secret that is kept, without its value. `tools` are the patterns of the tools that may have it; none: every
    tool that declares it and can be trusted with it."""

    which: WhichSecret
    tools: tuple[str, ...]
    since: float
    is_closed: bool = False
    """Whether no key of the ring opens it: it was sealed with one that is gone."""


class SecretNeed(Struct, frozen=True):
    """A secret that tools declare and nobody has set for them. `tools` are those tools' ids."""

    name: str
    tools: tuple[str, ...]


class Resealed(Struct, frozen=True):
    """How many rows of the vault were sealed again when the ring's first key changed."""

    anew: int = 0
    """Rows that are sealed with the first key now, and were not before."""
    before: int = 0
    """Rows that were sealed with the first key already."""
    lost: int = 0
    """Rows that none of the keys opens."""


def secret_name(given: object) -> str:
    """The given name of a secret. Raises ValueError with a sentence for what cannot be one, as the checks below do."""
    return _name(given, "TWILIO_AUTH_TOKEN")


def tenant_name(given: object) -> str:
    return _name(given, "acme, or * for all of them")


def user_name(given: object) -> str:
    return _name(given, "ada")


def secret_value(given: object) -> str:
    """The given value of a secret. The ValueError never quotes the value: its sentence is shown and logged."""
    if not isinstance(given, str) or not given:
        raise ValueError("Must be a text that is not empty")
    if len(given.encode(errors="replace")) > LONGEST_VALUE:
        raise ValueError(f"Must have at most {LONGEST_VALUE} bytes")
    # A lone surrogate stands for a byte that was not UTF-8; it can be neither sealed nor sent.
    if any("\ud800" <= letter <= "\udfff" for letter in given):
        raise ValueError("Must be text, in UTF-8")
    return given


def _name(given: object, such_as: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= LONGEST_NAME or not given.isprintable() or given.isspace():
        raise ValueError(f"Must be 1 to {LONGEST_NAME} characters that can be printed, such as {such_as}")
    return given


KIND = "connection"
"""The kind of row that an account is in the vault."""


class Account(Struct, frozen=True):
    """A user's account at a provider that tools may use, without its tokens. `account` is the provider's name for it,
    such as an e-mail address, where the provider gave one."""

    tenant: str
    user: str
    provider: str
    scopes: tuple[str, ...]
    account: str
    since: float


class Sealed(Struct, frozen=True):
    """A row of the vault. Only the ring of keys opens `data`; `about` is JSON that an operator may see."""

    kind: str
    tenant: str
    owner: str
    """The user of the tenant whose it is; empty where it belongs to nobody in particular."""
    name: str
    data: bytes
    about: bytes = b"{}"
    version: int = 0
    """Raised by each change, so that of two writers who read the same row only one wins."""
    changed: float = 0.0
