"""A user's account at a provider, as far as anybody may know of it."""

from msgspec import Struct

KIND = "connection"
"""What it is called in the vault."""


class Connection(Struct, frozen=True):
    """`account` is what the provider calls it, where it says so."""

    tenant: str
    user: str
    provider: str
    scopes: tuple[str, ...]
    account: str
    since: float
